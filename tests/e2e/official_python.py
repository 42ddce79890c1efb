"""RocketMQ's own client for Python, run by tests as a process of its own: it brings messages of the
protocol with it, and threads.

    python official_python.py ENDPOINT SCENARIO [ARGUMENT ...]      one JSON document a line

It is ended by closing its standard input where a scenario waits for that.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

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

WAIT_S = 20
TALK = threading.Lock()


def told(**fields: Any) -> None:
    """Print what happened."""
    with TALK:
        print(json.dumps(fields), flush=True)


def configuration(endpoint: str) -> ClientConfiguration:
    """Return how clients are made."""
    return ClientConfiguration(endpoint, Credentials(), request_timeout=5)


def message(topic: str, body: str, **fields: Any) -> Message:
    """Return a message."""
    made = Message()
    made.topic, made.body = topic, body.encode()
    properties = fields.pop("properties", {})
    for name, value in fields.items():
        setattr(made, name, value)
    for name, value in properties.items():
        made.add_property(name, value)
    return made


def seen(got: Message) -> dict[str, Any]:
    """Return what a consumer sees of a message."""
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
    }


# -- scenarios -------------------------------------------------------------------------------------


def send(endpoint: str, topic: str, *bodies: str) -> None:
    """Send messages with all there is to say of them."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    for body in bodies:
        fields = {"tag": "A", "keys": "k1", "properties": {"color": "blue"}}
        told(message_id=producer.send(message(topic, body, **fields)).message_id)
    producer.shutdown()


def send_in_groups(endpoint: str, topic: str, *pairs: str) -> None:
    """Send "group:body" each, in their order."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    for pair in pairs:
        group, _, body = pair.partition(":")
        producer.send(message(topic, body, message_group=group))
    producer.shutdown()


def send_priced(endpoint: str, topic: str, *pairs: str) -> None:
    """Send messages tagged and priced, "tag:price" each."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    for pair in pairs:
        tag, _, price = pair.partition(":")
        producer.send(message(topic, pair, tag=tag, properties={"price": price}))
    producer.shutdown()


def receive(endpoint: str, topic: str, group: str, count: str, action: str = "ack") -> None:
    """Receive so many messages, and acknowledge each, or have it come back at once."""
    consumer = SimpleConsumer(
        configuration(endpoint), group, {topic: FilterExpression()}, await_duration=2
    )
    consumer.startup()
    end = time.monotonic() + WAIT_S
    left = int(count)
    while left > 0 and time.monotonic() < end:
        for got in consumer.receive(16, 15):
            told(**seen(got))
            left -= 1
            if action == "ack":
                consumer.ack(got)
            else:
                consumer.change_invisible_duration(got, 1)
    consumer.shutdown()


class Listener(MessageListener):  # type: ignore[misc]
    """Tells what it gets; fails the first time where it should."""

    def __init__(self, name: str, count: int, *, fails_first: bool) -> None:
        self.done = threading.Event()
        self._name = name
        self._left = count
        self._fails_first = fails_first
        self._lock = threading.Lock()

    def consume(self, got: Message) -> Any:
        """Take a message."""
        with self._lock:
            told(**seen(got), consumer=self._name)
            if self._fails_first and got.delivery_attempt == 1:
                return ConsumeResult.FAILURE
            self._left -= 1
            if self._left <= 0:
                self.done.set()
        return ConsumeResult.SUCCESS


def push(endpoint: str, topic: str, group: str, count: str, kind: str, expression: str) -> None:
    """Be pushed so many messages, each of which fails the first time."""
    kinds = {"tag": FilterType.TAG, "sql": FilterType.SQL}
    wanted = FilterExpression(expression, kinds[kind])
    listener = Listener("one", int(count), fails_first=True)
    consumer = PushConsumer(configuration(endpoint), group, listener, {topic: wanted})
    consumer.startup()
    listener.done.wait(WAIT_S)
    consumer.shutdown()


def share(endpoint: str, topic: str, group: str, count: str) -> None:
    """Be two consumers of a group, while messages are sent to it."""
    listener = Listener("both", int(count), fails_first=False)
    consumers = [
        PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()})
        for _ in range(2)
    ]
    for consumer in consumers:
        consumer.startup()
    send_numbers(endpoint, topic, int(count))
    listener.done.wait(WAIT_S)
    for consumer in consumers:
        consumer.shutdown()


def send_numbers(endpoint: str, topic: str, count: int) -> None:
    """Send numbers."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    for number in range(count):
        producer.send(message(topic, str(number)))
    producer.shutdown()


class Checker(TransactionChecker):  # type: ignore[misc]
    """Commits what it is asked about."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def check(self, half: Message) -> Any:
        """Decide over a half message."""
        told(checked=half.body.decode(), message_id=half.message_id)
        self.done.set()
        return TransactionResolution.COMMIT


def transact(endpoint: str, topic: str) -> None:
    """Commit one transaction, roll back another, and leave a third until the broker asks."""
    checker = Checker()
    producer = Producer(configuration(endpoint), (topic,), checker=checker)
    producer.startup()
    for body in ("committed", "rolled back", "asked about"):
        transaction = producer.begin_transaction()
        producer.send(message(topic, body), transaction)
        if body == "committed":
            transaction.commit()
        elif body == "rolled back":
            transaction.rollback()
    checker.done.wait(WAIT_S)
    time.sleep(0.5)  # Its answer goes from another thread.
    producer.shutdown()


def recall(endpoint: str, topic: str) -> None:
    """Send a message for later, and take it back."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    later = message(topic, "later", delivery_timestamp=int(time.time()) + 3_600)
    receipt = producer.send(later)
    found = producer.recall_message(topic, receipt.recall_handle)
    told(sent=receipt.message_id, recalled=str(getattr(found, "message_id", found)))
    producer.shutdown()


def keep_going(endpoint: str, topic: str, group: str) -> None:
    """Send and receive until standard input is closed, whatever becomes of the broker."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    consumer = PushConsumer(configuration(endpoint), group, Echo(), {topic: FilterExpression()})
    consumer.startup()
    ended = threading.Event()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    number = 0
    while not ended.wait(0.05):
        try:
            producer.send(message(topic, str(number)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one may go
            told(failed=type(error).__name__)
        else:
            told(sent=number)
        number += 1
    consumer.shutdown()
    producer.shutdown()


def wait_for_end(ended: threading.Event) -> None:
    """Note when standard input is closed."""
    sys.stdin.read()
    ended.set()


class Echo(MessageListener):  # type: ignore[misc]
    """Tells what it gets."""

    def consume(self, got: Message) -> Any:
        """Take a message."""
        told(got=int(got.body))
        return ConsumeResult.SUCCESS


def describe(endpoint: str) -> None:
    """Tell the protocol as the client has it: each message's fields, each enum's values."""
    files = (definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR)
    for file in files:
        for name, made in file.message_types_by_name.items():
            told(message=name, fields={f.name: [f.number, f.type] for f in made.fields})
        for name, made in file.enum_types_by_name.items():
            told(enum=name, numbers=sorted(value.number for value in made.values))
        for service in file.services_by_name.values():
            told(service=service.full_name, methods=sorted(m.name for m in service.methods))


SCENARIOS: dict[str, Callable[..., None]] = {
    one.__name__: one
    for one in (
        send, send_in_groups, send_priced, receive, push, share, transact, recall, keep_going,
        describe,
    )
}  # fmt: skip


if __name__ == "__main__":
    SCENARIOS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
