"""Waits of the fixture, and the effects of moving its clock."""

import socket
from collections.abc import Iterator
from threading import Thread
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.client import Client, Message, ReceiveQuery, StoredMessage, errors
from pocketmq.model.step import Clock
from pocketmq.testing import LagRemains, RocketMQ
from pocketmq.testing.controlled import Controlled
from pocketmq.testing.lag import SeenLag

HOUR_S = 3_600


class Told(RocketMQ):
    """A broker that is told what is left, one look after the other; the last one stays."""

    def __init__(self, *left: int | None) -> None:
        self.left = list(left)
        self.look_count = 0

    def _look_at_lag(self, group: str, topic: str) -> SeenLag:
        self.look_count += 1
        left = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return SeenLag(left or 0, has_begun=left is not None)

    def _refused_text(self) -> str:
        return ""


def test_one_look_at_which_nothing_is_left_is_not_believed() -> None:
    told = Told(0, 1, 0, 0, 2, 0)
    told.wait_for_lag_0("g", "orders")
    assert told.look_count == 8


def test_a_group_that_has_not_begun_is_waited_for() -> None:
    told = Told(None, None, 3, 0)
    told.wait_for_lag_0("g")
    assert told.look_count == 6
    with pytest.raises(LagRemains, match="group g did not begin to consume within 0 s"):
        Told(None).wait_for_lag_0("g", timeout=0)


def test_what_is_left_is_told_where_the_time_is_over() -> None:
    with pytest.raises(LagRemains, match="group g had 4 messages to consume in topic t after 0 s"):
        Told(4).wait_for_lag_0("g", "t", timeout=0)
    Told(0).wait_for_lag_0("g", "t", timeout=0)


def test_a_group_that_nobody_made_is_not_taken_for_one_that_is_done(
    rocketmq_module: RocketMQ, client: Client
) -> None:
    client.send(Message("begun", b"x"))
    with pytest.raises(LagRemains, match="group late does not exist"):
        rocketmq_module.wait_for_lag_0("late", timeout=0)
    with pytest.raises(LagRemains, match="group late does not exist"):
        rocketmq_module.wait_for_lag_0("late", "begun", timeout=0)
    rocketmq_module.create_group("late", begins_at_min=True)
    with pytest.raises(LagRemains, match=r"no consumer named it; did you mean 'late'\?"):
        rocketmq_module.wait_for_lag_0("latee", timeout=0)
    with pytest.raises(LagRemains, match="did not begin"):
        rocketmq_module.wait_for_lag_0("late", timeout=0)
    (leased,) = client.receive(ReceiveQuery("late", "begun", wait_ms=5_000))
    client.ack("late", "begun", [leased.receipt_handle])
    rocketmq_module.wait_for_lag_0("late")


def test_a_group_that_has_not_begun_in_an_empty_topic_is_waited_for(
    rocketmq_module: RocketMQ, client: Client
) -> None:
    wait = rocketmq_module.wait_for_lag_0
    rocketmq_module.create_topic("empty")
    with pytest.raises(LagRemains, match="group nobody does not exist"):
        wait("nobody", "empty", timeout=0)
    rocketmq_module.create_group("idle")
    with pytest.raises(LagRemains, match="group idle did not begin to consume topic empty within"):
        wait("idle", "empty", timeout=0)
    client.send(Message("other", b"x"))
    client.receive(ReceiveQuery("idle", "other"))
    with pytest.raises(LagRemains, match=r"idle did not begin to consume topic empty within 0 s$"):
        wait("idle", "empty", timeout=0)
    client.receive(ReceiveQuery("idle", "empty"))
    wait("idle", "empty")


def test_a_topic_and_a_group_that_are_made_later_are_waited_for(
    rocketmq_module: RocketMQ, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, count = rocketmq_module._look_at_lag, 0

    def looking(group: str, topic: str) -> SeenLag:
        nonlocal count
        count += 1
        if count == 2:
            client.send(Message(topic, b"x"))
        if count == 3:
            rocketmq_module.create_group(group)
            for _ in client.consume(ReceiveQuery(group, topic), count_max=1):
                pass
        return look(group, topic)

    monkeypatch.setattr(rocketmq_module, "_look_at_lag", looking)
    rocketmq_module.wait_for_lag_0("g-later", "t-later")
    assert count >= 5
    with pytest.raises(LagRemains, match=r"topic t-latre did not exist within 0 s; did you mean"):
        rocketmq_module.wait_for_lag_0("g-later", "t-latre", timeout=0)


def test_what_is_left_is_told_by_its_kind(rocketmq: RocketMQ, client_of_own: Client) -> None:
    rocketmq.create_group("g")
    for _ in range(3):
        client_of_own.send(Message("orders", b"x"))
    rocketmq.messages("orders", count=3)
    leased = client_of_own.receive(ReceiveQuery("g", "orders", max_messages=2, wait_ms=5_000))
    while len(leased) < 2:
        leased += client_of_own.receive(ReceiveQuery("g", "orders", max_messages=1))
    client_of_own.send_back("g", "orders", [(leased[0].receipt_handle, 3)])
    parts = "1 unread, 1 leased and not acknowledged, 1 waiting for a retry"
    with pytest.raises(LagRemains, match=f"g had 3 messages to consume after 0 s: {parts}"):
        rocketmq.wait_for_lag_0("g", timeout=0)
    assert rocketmq.lag("g") == 3


def test_a_wait_reports_calls_that_were_refused_before(
    rocketmq: RocketMQ, client_of_own: Client
) -> None:
    for group in ("g", "h"):
        with pytest.raises(errors.TopicNotFound):
            client_of_own.receive(ReceiveQuery(group, "orders"))
    client_of_own.send(Message("orders", b"x"))
    with pytest.raises(errors.GroupNotFound):
        client_of_own.receive(ReceiveQuery("g", "orders"))
    with pytest.raises(LagRemains) as raised:
        rocketmq.wait_for_lag_0("g", "orders", timeout=0)
    assert str(raised.value) == (
        "group g does not exist: within 0 s no consumer named it; "
        "Receive was refused, as topic 'orders' did not exist; "
        "Receive was refused, as group 'g' did not exist"
    )
    rocketmq.mark_log()
    with pytest.raises(LagRemains, match=r"no consumer named it$"):
        rocketmq.wait_for_lag_0("g", "orders", timeout=0)
    for number in range(20):
        with pytest.raises(errors.TopicNotFound):
            client_of_own.receive(ReceiveQuery("g", f"unknown-{number}"))
    with pytest.raises(LagRemains) as raised:
        rocketmq.wait_for_lag_0("g", "orders", timeout=0)
    assert str(raised.value).count("refused") == 8
    assert str(raised.value).endswith("'unknown-19' did not exist")


def test_messages_of_a_topic_that_is_made_meanwhile_are_waited_for(
    rocketmq_module: RocketMQ, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looked_at = rocketmq_module._stored, []

    def stored(topic: str) -> Iterator[StoredMessage]:
        looked_at.append(topic)
        if len(looked_at) == 2:
            client.send(Message(topic, b"x"))
        return look(topic)

    monkeypatch.setattr(rocketmq_module, "_stored", stored)
    (found,) = rocketmq_module.messages("made-later", count=1)
    assert found.body == b"x"
    assert len(looked_at) >= 2


def test_a_topic_that_does_not_exist_has_no_messages(rocketmq_module: RocketMQ) -> None:
    assert rocketmq_module.messages("never-made") == []
    assert rocketmq_module.messages("never-made", count=1, timeout=0) == []
    with pytest.raises(ValueError, match="count is -1: it is 0 or more"):
        rocketmq_module.messages("never-made", count=-1)


@pytest.mark.parametrize("delay_s", [10, HOUR_S])
def test_what_was_recalled_just_before_the_clock_moved_stays_away(
    rocketmq: RocketMQ, client_of_own: Client, delay_s: int
) -> None:
    rocketmq.create_topic("later", "delay")
    for name in (b"1", b"2", b"3"):
        sent = client_of_own.send(Message("later", b"recalled", delay_ms=delay_s * 1_000))
        client_of_own.send(Message("later", name, delay_ms=delay_s * 1_000))
        client_of_own.recall("later", sent.recall_handle)
        rocketmq.advance_clock(delay_s + 1)
    found = rocketmq.messages("later", count=3)
    assert sorted(message.body for message in found) == [b"1", b"2", b"3"]


@pytest.fixture
def client_of_own(rocketmq: RocketMQ) -> Iterator[Client]:
    """A client on the broker of one test."""
    with Client(rocketmq.endpoint, retry_ms=0) as made:
        yield made


def test_a_receive_that_waits_is_answered_as_the_clock_passes_its_time(
    rocketmq: RocketMQ,
) -> None:
    rocketmq.create_topic("quiet", queues=1)
    rocketmq.create_group("g")
    found: list[object] = []

    def receive() -> None:
        with Client(rocketmq.endpoint, retry_ms=0) as client:
            found.append(client.receive(ReceiveQuery("g", "quiet", wait_ms=20_000)))

    begin_s = monotonic()
    waiting = Thread(target=receive)
    waiting.start()
    while waiting.is_alive():
        rocketmq.advance_clock(60)
    assert found == [[]]
    assert monotonic() - begin_s < 15


async def test_a_moved_clock_has_the_steps_of_store_and_services_looked_at() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        controlled = Controlled(ours)
        begin_ms = controlled.stage.clock.monotonic_ms()
        looked: list[tuple[str, bool]] = []

        def looking(name: str) -> Any:
            def look() -> None:
                looked.append((name, controlled.stage.clock.monotonic_ms() >= begin_ms + 60_000))

            return SimpleNamespace(look=look)

        async def look(clock: Clock) -> None:
            looked.append(("retention", clock.monotonic_ms() >= begin_ms + 60_000))

        async def all_dispatched() -> None:
            looked.append(("dispatched", controlled.stage.clock.monotonic_ms() < begin_ms + 60_000))

        store = looking("store")
        store.all_dispatched = all_dispatched
        store.log = SimpleNamespace(file_size_bytes=9)
        store.views = SimpleNamespace(expiry=SimpleNamespace(log_size_bytes=9))
        opened: Any = SimpleNamespace(
            store=store,
            runner=looking("services"),
            retention=SimpleNamespace(look=look),
        )
        controlled._opened = opened
        await controlled.advance(60_000)
    names = ("dispatched", "retention", "services", "store")
    assert sorted(looked) == [(name, True) for name in names]


def test_a_retry_that_the_clock_makes_due_comes_at_once(
    rocketmq: RocketMQ, client_of_own: Client
) -> None:
    rocketmq.create_topic("steps", queues=1)
    rocketmq.create_group("g", max_attempts=100)
    client_of_own.send(Message("steps", b"x"))
    for _ in range(20):
        (found,) = client_of_own.receive(ReceiveQuery("g", "steps", wait_ms=3_000))
        client_of_own.send_back("g", "steps", [(found.receipt_handle, 3)])
        rocketmq.advance_clock(60)


@pytest.mark.rocketmq("store.commit_log_file_size_bytes=64KiB")
def test_expired_messages_are_deleted_once_the_clock_has_moved(
    rocketmq: RocketMQ, client_of_own: Client
) -> None:
    for _ in range(40):
        client_of_own.send_many([Message("orders", bytes(2_000))] * 25)
    assert len(rocketmq.messages("orders", count=1_000)) == 1_000
    rocketmq.advance_clock(71 * HOUR_S)
    assert len(rocketmq.messages("orders")) == 1_000
    rocketmq.advance_clock(1 * HOUR_S)
    assert len(rocketmq.messages("orders")) < 33


def test_what_was_sent_just_before_is_counted(rocketmq_module: RocketMQ, client: Client) -> None:
    for number in range(1, 21):
        client.send(Message("just-sent", b"x"))
        assert rocketmq_module.lag("g-just", "just-sent") == number
        client.send(Message("just-seen", b"x"))
        assert len(rocketmq_module.messages("just-seen")) == number
