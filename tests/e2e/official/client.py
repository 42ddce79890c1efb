"""RocketMQ's own client for Python, as a process of its own: it brings messages of the protocol
with it, and threads.

    python client.py    commands on standard input, what happened on standard output: JSON a line

What commands there are, and what each tells, is the same for the clients of all languages:
programs.py. OFFICIAL_TLS=1: all connections are TLS.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType, definition_pb2, service_pb2

TLS: Final = os.environ.get("OFFICIAL_TLS") == "1"
PAUSE_S: Final = 0.02
CALL_S: Final = 20
"""How long a call may take: a broker that is started anew on a busy machine takes its time."""
TALK: Final = threading.Lock()
STOPPED: Final[dict[int, threading.Event]] = {}
KINDS: Final = {"tag": FilterType.TAG, "sql": FilterType.SQL}

Given = dict[str, Any]
Tell = Callable[..., None]


def told(**fields: Any) -> None:
    """Prints what happened."""
    with TALK:
        print(json.dumps(fields), flush=True)


def configuration(given: Given) -> ClientConfiguration:
    """Returns how clients are made."""
    credentials = Credentials(given.get("access_key", ""), given.get("secret_key", ""))
    return ClientConfiguration(
        given["endpoint"], credentials, given.get("namespace", ""), request_timeout=CALL_S
    )


def producer_of(given: Given, checker: Any = None) -> Producer:
    """Returns a producer of the topic, started."""
    made = Producer(configuration(given), (given["topic"],), checker=checker, tls_enable=TLS)
    made.startup()
    return made


def wanted(given: Given) -> dict[str, FilterExpression]:
    """Returns what a consumer subscribes to."""
    kind = KINDS[given.get("kind", "tag")]
    return {given["topic"]: FilterExpression(given.get("expression", "*"), kind)}


def message(topic: str, one: Given) -> Message:
    """Returns a message."""
    made = Message()
    made.topic, made.body = topic, (one["body"] * one.get("times", 1)).encode()
    if "tag" in one:
        made.tag = one["tag"]
    for key in one.get("keys", []):
        made.keys = key  # Each is added.
    if "group" in one:
        made.message_group = one["group"]
    if "priority" in one:
        made.priority = one["priority"]
    if "deliver_at_ms" in one:
        made.delivery_timestamp = -(-one["deliver_at_ms"] // 1000)  # The client counts seconds.
    for name, value in one.get("properties", {}).items():
        made.add_property(name, value)
    return made


def seen(got: Message) -> dict[str, Any]:
    """Returns what a consumer sees of a message."""
    return {
        "topic": got.topic,
        "body": got.body.decode(),
        "tag": got.tag,
        "keys": sorted(got.keys or []),
        "properties": got.properties,
        "message_id": got.message_id,
        "attempt": got.delivery_attempt,
        "group": got.message_group,
        "corrupted": got.corrupted,
        "at_ms": time.time_ns() // 1_000_000,
    }


# -- commands --------------------------------------------------------------------------------------


def send(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Sends messages."""
    producer = producer_of(given)
    for one in given["messages"]:
        receipt = producer.send(message(given["topic"], one))
        tell(message_id=receipt.message_id, recall_handle=receipt.recall_handle or "")
    producer.shutdown()


def recall(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Takes a message back that waits."""
    producer = producer_of(given)
    found = producer.recall_message(given["topic"], given["recall_handle"])
    tell(message_id=getattr(found, "message_id", found))
    producer.shutdown()


class Checker(TransactionChecker):  # type: ignore[misc]
    """Decides by what a message says."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def check(self, half: Message) -> Any:
        """Decides over a half message."""
        body = half.body.decode()
        self._tell(checked=body, message_id=half.message_id)
        if "commit" in body:
            return TransactionResolution.COMMIT
        return TransactionResolution.ROLLBACK if "roll" in body else TransactionResolution.UNKNOWN


def transact(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Sends messages of transactions, each decided as its body says, or when the broker asks."""
    producer = producer_of(given, Checker(tell))
    for body in given["bodies"]:
        transaction = producer.begin_transaction()
        receipt = producer.send(message(given["topic"], {"body": body}), transaction)
        tell(sent=body, message_id=receipt.message_id)
        if body == "commit":
            transaction.commit()
        elif body == "roll back":
            transaction.rollback()
    stop.wait()
    producer.shutdown()


def receive(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Receives so many messages; then acknowledge each, have it come back in 1 s, or leaves it."""
    consumer = SimpleConsumer(
        configuration(given), given["group"], wanted(given), await_duration=2, tls_enable=TLS
    )
    consumer.startup()
    left = given["count"]
    while left > 0 and not stop.is_set():
        for got in consumer.receive(given.get("at_once", 16), given.get("invisible_s", 15)):
            tell(**seen(got))
            left -= 1
            if given.get("then", "ack") == "ack":
                consumer.ack(got)
            elif given["then"] == "back":
                consumer.change_invisible_duration(got, 1)
    consumer.shutdown()


class Listener(MessageListener):  # type: ignore[misc]
    """Tells what it gets; fails the first times it gets a message where it should.

    tries   how often each came, by its id
    """

    def __init__(self, name: str, fails: int, tries: Counter[str], tell: Tell) -> None:
        self._name = name
        self._fails = fails
        self._tries = tries
        self._tell = tell

    def consume(self, got: Message) -> Any:
        """Takes a message."""
        self._tell(**seen(got), consumer=self._name)
        with TALK:
            self._tries[got.message_id] += 1
            failed = self._tries[got.message_id] <= self._fails
        return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS


def push(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Runs some consumers of a group that are pushed messages."""
    tries: Counter[str] = Counter()
    consumers = [
        PushConsumer(
            configuration(given), given["group"],
            Listener(f"c{number}", given.get("fails", 0), tries, tell), wanted(given),
            tls_enable=TLS,
        )
        for number in range(given.get("consumers", 1))
    ]  # fmt: skip
    for consumer in consumers:
        consumer.startup()
    tell(started=True)
    stop.wait()
    for consumer in consumers:
        consumer.shutdown()


def keep_sending(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Sends numbers, whatever becomes of the broker; each is told how it ended."""
    producer = producer_of(given)
    number = given.get("begin", 0)
    while not stop.wait(given.get("pause_s", PAUSE_S)):
        try:
            producer.send(message(given["topic"], {"body": str(number)}))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one may go
            tell(failed=number, why=f"{type(error).__name__}: {error}")
        else:
            tell(sent=number)
        number += 1
    producer.shutdown()


def describe(given: Given, tell: Tell, stop: threading.Event) -> None:
    """Tells the protocol as the client has it: each message's fields, each enum's values."""
    for file in (definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR):
        for name, made in file.message_types_by_name.items():
            tell(message=name, fields={f.name: [f.number, f.type] for f in made.fields})
        for name, made in file.enum_types_by_name.items():
            tell(enum=name, numbers=sorted(value.number for value in made.values))
        for service in file.services_by_name.values():
            tell(service=service.full_name, methods=sorted(m.name for m in service.methods))


COMMANDS: Final[dict[str, Callable[[Given, Tell, threading.Event], None]]] = {
    one.__name__: one
    for one in (send, recall, transact, receive, push, keep_sending, describe)
}  # fmt: skip


def carry_out(given: Given, stop: threading.Event) -> None:
    """Carries out a command, and tells how it ended."""
    number = given["id"]
    asyncio.set_event_loop(asyncio.new_event_loop())  # docs/howto/clients.md: why.
    try:
        COMMANDS[given["do"]](given, lambda **fields: told(id=number, told=fields), stop)
    except Exception as error:  # noqa: BLE001 - told to who asked
        told(id=number, failed=f"{type(error).__name__}: {error}")
    else:
        told(id=number, done=True)


def main() -> None:
    """Carries out what is asked, each in a thread of its own, until standard input ends."""
    for line in sys.stdin:
        given = json.loads(line)
        if given["do"] == "stop":
            STOPPED[given["which"]].set()
            continue
        stop = STOPPED[given["id"]] = threading.Event()
        threading.Thread(target=carry_out, args=(given, stop), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
