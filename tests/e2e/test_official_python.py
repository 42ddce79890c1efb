"""RocketMQ's own client for Python works as it is, on a broker as a user starts it."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from broker.rpc.pb import messaging_pb2 as pb
from broker.rpc.v2.faces import MESSAGING, NAME
from tests.e2e.daemon import Daemon

CLIENT: Final = str(Path(__file__).with_name("official_python.py"))
END_S: Final = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker for all scenarios; each has topics of its own."""
    store = tmp_path_factory.mktemp("official") / "store"
    with Daemon(store, "--set", "transactions.timeout_ms=1s") as daemon:
        yield daemon


def official(endpoint: str, scenario: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a scenario to its end; returns what the client told."""
    done = subprocess.run(
        [sys.executable, CLIENT, endpoint, scenario, *arguments],
        capture_output=True, text=True, check=False, timeout=END_S, env=_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _environment() -> dict[str, str]:
    """Return an environment in which the client finds itself and nothing of the broker."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def make(broker: Daemon, topic: str, kind: str) -> None:
    made = broker.ask("topic", "create", topic, "--type", kind, "--queues", "4")
    assert made.code == 0, made.err


def test_the_protocol_is_the_clients() -> None:
    rows = official("", "describe")
    messages = {row["message"]: row["fields"] for row in rows if "message" in row}
    ours = pb.DESCRIPTOR.message_types_by_name
    assert len(messages) > 50
    for name, fields in messages.items():
        found = {field.name: [field.number, field.type] for field in ours[name].fields}
        assert {field: found.get(field) for field in fields} == fields, name
    enums = {row["enum"]: row["numbers"] for row in rows if "enum" in row}
    for name, numbers in enums.items():
        known = {value.number for value in pb.DESCRIPTOR.enum_types_by_name[name].values}
        assert set(numbers) <= known, name
    (service,) = [row for row in rows if row.get("service") == NAME]
    assert set(service["methods"]) <= set(MESSAGING.methods_by_name)


def test_what_is_sent_is_received_whole(broker: Daemon) -> None:
    sent = official(broker.endpoint, "send", "whole", "one", "two")
    got = official(broker.endpoint, "receive", "whole", "readers", "2")
    assert sorted(row["message_id"] for row in got) == sorted(row["message_id"] for row in sent)
    assert sorted(row["body"] for row in got) == ["one", "two"]
    for row in got:
        assert (row["topic"], row["tag"], row["keys"]) == ("whole", "A", ["k1"])
        assert (row["properties"], row["attempt"], row["corrupted"]) == (
            {"color": "blue"},
            1,
            False,
        )


def test_what_the_command_line_sends_comes_too(broker: Daemon) -> None:
    assert broker.ask("produce", "mixed", "hello", "-t", "A").code == 0
    (got,) = official(broker.endpoint, "receive", "mixed", "readers", "1")
    assert (got["body"], got["tag"]) == ("hello", "A")


def test_what_is_given_back_comes_again(broker: Daemon) -> None:
    official(broker.endpoint, "send", "again", "x")
    got = official(broker.endpoint, "receive", "again", "readers", "3", "back")
    assert [row["attempt"] for row in got] == [1, 2, 3]


def test_order_is_kept_by_group(broker: Daemon) -> None:
    make(broker, "ordered", "fifo")
    pairs = [f"{group}:{group}{number}" for number in range(6) for group in "ab"]
    official(broker.endpoint, "send_in_groups", "ordered", *pairs)
    got = official(broker.endpoint, "receive", "ordered", "readers", "12")
    for group in "ab":
        bodies = [row["body"] for row in got if row["group"] == group]
        assert bodies == [f"{group}{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("kind", "expression", "wanted"),
    [("tag", "A || B", ["A:1", "B:2"]), ("sql", "price > 1 AND TAGS <> 'C'", ["B:2"])],
)
def test_a_push_consumer_gets_what_it_wants_and_again_what_failed(
    broker: Daemon, kind: str, expression: str, wanted: list[str]
) -> None:
    topic = f"pushed-{kind}"
    official(broker.endpoint, "send_priced", topic, "A:1", "B:2", "C:3")
    got = official(broker.endpoint, "push", topic, "pushed", str(len(wanted)), kind, expression)
    assert Counter((row["body"], row["attempt"]) for row in got) == Counter(
        (body, attempt) for body in wanted for attempt in (1, 2)
    )


def test_two_consumers_of_a_group_share_its_messages(broker: Daemon) -> None:
    got = official(broker.endpoint, "share", "shared", "sharers", "40")
    assert sorted(int(row["body"]) for row in got) == list(range(40))


def test_transactions_are_decided_by_the_client_or_when_it_is_asked(broker: Daemon) -> None:
    make(broker, "decided", "transaction")
    (checked,) = official(broker.endpoint, "transact", "decided")
    assert checked["checked"] == "asked about"
    got = official(broker.endpoint, "receive", "decided", "readers", "2")
    assert sorted(row["body"] for row in got) == ["asked about", "committed"]
    assert checked["message_id"] in {row["message_id"] for row in got}


def test_a_message_for_later_is_taken_back(broker: Daemon) -> None:
    make(broker, "later", "delay")
    (row,) = official(broker.endpoint, "recall", "later")
    assert row["sent"] in row["recalled"]


def test_clients_go_on_when_the_broker_comes_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Daemon(store) as first:
        address = first.endpoint
        client = subprocess.Popen(
            [sys.executable, CLIENT, address, "keep_going", "restarted", "readers"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=_environment(),
        )  # fmt: skip
        told = _Told(client)
        told.until(lambda rows: len([1 for row in rows if "got" in row]) >= 5)
        assert first.stop() == 0
    with Daemon(store, "--listen", address) as second:
        count = len(told.rows)
        told.until(lambda rows: any("sent" in row for row in rows[count:]))
        told.until(lambda rows: any("got" in row for row in rows[count:]))
        told.end()
        assert second.stop() == 0
    sent = {row["sent"] for row in told.rows if "sent" in row}
    got = {row["got"] for row in told.rows if "got" in row}
    assert sent - got <= set(sorted(sent)[-20:]), "what was sent came, but for the last ones"


class _Told:
    """What a client tells, as it does."""

    def __init__(self, client: "subprocess.Popen[str]") -> None:
        self._client = client
        self.rows: list[dict[str, Any]] = []

    def until(self, is_enough: Any) -> None:
        """Read until enough was told."""
        end = time.monotonic() + END_S
        assert self._client.stdout is not None
        while not is_enough(self.rows):
            assert time.monotonic() < end, self.rows[-20:]
            line = self._client.stdout.readline()
            assert line, "the client has ended"
            if line.startswith("{"):
                self.rows.append(json.loads(line))

    def end(self) -> None:
        """Have the client end in order, and read the rest."""
        out, _ = self._client.communicate("", timeout=END_S)
        self.rows += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
