"""RocketMQ's classic clients for Java beside new ones, after a kill of the broker, and signed."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import AsyncClient
from pocketmq.model.access import User
from pocketmq.tools.users import changed_roster
from tests.e2e.daemon import Daemon
from tests.e2e.official.cases import key, official
from tests.e2e.official.classic import VERSIONS, lives_program
from tests.e2e.official.programs import Failed, Official, Row, Talk
from tests.kit.users import grant_of

pytestmark = pytest.mark.timeout(180, func_only=True)  # Two clients on a crowded machine.
SECRET: Final = "a-secret"
NUMBERS: Final = 1_000_000
"""Numbers of one producer."""
SOME: Final = 20
MESSAGES: Final[list[Row]] = [
    {"body": "one", "tag": "A", "keys": ["k1", "k2"], "properties": {"color": "red", "größe": "1"}},
    {"body": "zwölf 取消", "tag": "B", "keys": ["k3"], "properties": {"color": "blue"}},
    {"body": "plain", "tag": "A"},
]  # fmt: skip
ORDERED: Final[list[Row]] = [
    {"body": f"{group}{number}", "group": group} for number in range(6) for group in "abc"
]
TOPICS: Final = {"new": "", "new-ordered": "fifo"} | {
    f"{version[0]}-{kind}": type_name
    for version in VERSIONS
    for kind, type_name in (("plain", ""), ("ordered", "fifo"))
}
"""Topic -> its type; the classic clients of versions 4 and 5 send to topics of their own."""

Clients = dict[str, Official]
"""Version -> program."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the home folder of each classic client, which has its log."""
    return tmp_path_factory.mktemp("classic")


@pytest.fixture(scope="module")
def clients(home: Path) -> Iterator[Clients]:
    """The classic clients; commands name the broker."""
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(
                Official(lives_program(version, home / version), "", home / f"{version}.log")
            )
            for version in VERSIONS
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker with the topics."""
    with Daemon(tmp_path_factory.mktemp("exchange") / "store") as daemon:
        asyncio.run(make_topics(daemon.endpoint))
        yield daemon


async def make_topics(endpoint: str) -> None:
    """Makes the topics."""
    async with AsyncClient(endpoint) as client:
        for name, type_name in TOPICS.items():
            await client.admin.create_topic(name, type_name=type_name, queue_count=4)


@pytest.fixture(scope="module")
def new(broker: Daemon) -> Iterator[Official]:
    """The client for Python of the protocol apache.rocketmq.v2."""
    log = broker.store.with_name("client.log")
    with Official(official("python"), broker.endpoint, log) as client:
        yield client


def by_group(rows: Sequence[Row], groups: Sequence[str]) -> dict[str, list[str]]:
    """Returns the bodies of each message group, in the order of the rows."""
    return {
        group: [row["body"] for row, own in zip(rows, groups, strict=True) if own == group]
        for group in "abc"
    }


IN_ORDER: Final = by_group(ORDERED, [one["group"] for one in ORDERED])


def test_classic_consumers_get_what_new_producers_send(
    broker: Daemon, clients: Clients, new: Official
) -> None:
    sent = new.ask("send", topic="new", messages=MESSAGES)
    new.ask("send", topic="new-ordered", messages=ORDERED)
    own = {"endpoint": broker.endpoint, "whole": True}
    talks = {
        version: (
            client.begin("push", topic="new", group=f"plain-{version[0]}", **own),
            client.begin(
                "push", topic="new-ordered", group=f"ordered-{version[0]}", orderly=True, **own
            ),
        )
        for version, client in clients.items()
    }
    for plain, ordered in talks.values():
        got = {row["body"]: row for row in plain.until_count(len(MESSAGES))}
        for one, receipt in zip(MESSAGES, sent, strict=True):
            row = got[one["body"]]
            assert (row["message_id"], row["topic"]) == (receipt["message_id"], "new")
            keys = sorted(row.get("keys", "").split())
            assert (row["tag"], keys) == (one["tag"], one.get("keys", []))
            assert one.get("properties", {}).items() <= row["properties"].items()
        rows = ordered.until_count(len(ORDERED))
        assert by_group(rows, [row["properties"]["__SHARDINGKEY"] for row in rows]) == IN_ORDER
        plain.stop()
        ordered.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_new_consumers_get_what_classic_producers_send(
    broker: Daemon, clients: Clients, new: Official, version: str
) -> None:
    client, topic, own = clients[version], version[0], {"endpoint": broker.endpoint}
    sent = client.ask("produce", topic=f"{topic}-plain", messages=MESSAGES, **own)
    client.ask("produce", topic=f"{topic}-ordered", messages=ORDERED, **own)
    got = new.ask("receive", topic=f"{topic}-plain", group="readers", count=len(MESSAGES))
    rows = {row["body"]: row for row in got}
    for one, receipt in zip(MESSAGES, sent, strict=True):
        row = rows[one["body"]]
        assert (row["message_id"], row["tag"]) == (receipt["message_id"], one["tag"])
        assert (row["keys"], row["properties"]) == (one.get("keys", []), one.get("properties", {}))
        assert (row["attempt"], row["corrupted"]) == (1, False)
    got = new.ask("receive", topic=f"{topic}-ordered", group="readers", count=len(ORDERED))
    assert by_group(got, [row["group"] for row in got]) == IN_ORDER


def test_clients_go_on_after_a_kill_and_nothing_acknowledged_is_lost(
    clients: Clients, tmp_path: Path
) -> None:
    """Both versions send. 5.3.3 consumes: 4.9.8 may wait 30 s for a pull of the old connection."""
    store = tmp_path / "store"
    with Daemon(store) as first:
        own = {"endpoint": first.endpoint, "topic": "Killed"}
        sending = [
            client.begin("send", begin=place * NUMBERS, pause_s=0.02, **own)
            for place, client in enumerate(clients.values())
        ]
        for talk in sending:
            talk.until_count(1)
        pushed = clients["5.3.3"].begin("push", group="readers", **own)
        pushed.until_count(SOME)
        first.signal(signal.SIGKILL)
        first.wait()
    with Daemon(store, "--listen", first.endpoint):
        got = len(pushed.look())
        for talk in sending:
            talk.until(partial(is_acknowledged_since, len(talk.look()))).stop()
        bodies = {body for talk in sending for body in acknowledged(talk.ended())}
        pushed.until(lambda rows: bodies <= {row["body"] for row in rows}).stop()
    assert len(pushed.rows) > got


def acknowledged(rows: Sequence[Row]) -> set[str]:
    """Returns the bodies whose sends the broker acknowledged."""
    return {row["sent"] for row in rows if "sent" in row}


def is_acknowledged_since(count: int, rows: Sequence[Row]) -> bool:
    """Returns whether a send succeeded after the first rows."""
    return bool(acknowledged(rows[count:]))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker with users: one may send and consume orders, one nothing."""
    store = tmp_path_factory.mktemp("guarded") / "store"
    with changed_roster(store) as roster:
        roster.add(User("app", SECRET))
        roster.add(User("idle", SECRET))
        roster.grant(grant_of("app", "pub,sub", "topic:orders"))
        roster.grant(grant_of("app", "sub", "group:*"))
    with Daemon(store, "--set", "access.check=on") as daemon:
        yield daemon


def produced(client: Official, daemon: Daemon, **own: str) -> Talk:
    """Begins to send a message to the topic orders."""
    messages = [{"body": "signed"}]
    return client.begin(
        "produce", topic="orders", messages=messages, endpoint=daemon.endpoint, **own
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_signed_clients_send_and_consume(clients: Clients, guarded: Daemon, version: str) -> None:
    client = clients[version]
    (sent,) = produced(client, guarded, **key("app")).ended()
    own = {"endpoint": guarded.endpoint, **key("app")}
    talk = client.begin("push", topic="orders", group=f"billing-{version[0]}", **own)
    talk.until(lambda rows: sent["message_id"] in {row["message_id"] for row in rows}).stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_other_clients_get_an_error(
    clients: Clients, guarded: Daemon, home: Path, version: str
) -> None:
    """Of routes that it is refused a client tells no more than that; its log has the reason."""
    client = clients[version]
    talks = {
        "wrong": produced(client, guarded, **key("app", "wrong")),
        "unknown": produced(client, guarded, **key("nobody")),
        "none": produced(client, guarded),
        "idle": produced(client, guarded, **key("idle")),
    }
    told = {who: failure_of(talk) for who, talk in talks.items()}
    assert "CODE: 16  DESC: user idle may not pub 'topic:orders'" in told.pop("idle")
    assert all("No route info of this topic: orders" in text for text in told.values()), told
    logs = "".join(log.read_text("utf-8") for log in (home / version).rglob("*.log"))
    assert "this broker requires authentication" in logs


@pytest.mark.parametrize("version", VERSIONS)
def test_consumers_with_other_keys_get_nothing(
    clients: Clients, guarded: Daemon, home: Path, version: str
) -> None:
    """Their start succeeds, as that of every consumer without a route; the log has the reason."""
    client = clients[version]
    keys = {"wrong": key("app", "wrong"), "unknown": key("nobody"), "none": {}}
    own = {"topic": "orders", "endpoint": guarded.endpoint}
    talks = [client.begin("push", group=f"{who}-{version[0]}", **own, **keys[who]) for who in keys]
    produced(client, guarded, **key("app")).ended()
    for talk in talks:
        talk.stop()
    assert [talk.ended() for talk in talks] == [[]] * len(talks)
    logs = "".join(log.read_text("utf-8") for log in (home / version).rglob("*.log"))
    for why in ("the call has no signature", "the access key or the signature is wrong"):
        assert f"CODE: 16  DESC: {why}; this broker requires authentication" in logs


def failure_of(talk: Talk) -> str:
    """Returns the error of the client with which a command ends."""
    with pytest.raises(Failed) as error:
        talk.ended()
    return str(error.value)
