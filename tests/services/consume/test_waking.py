"""The step is called as soon as something is to end, those who wait as something comes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.filter.tag import parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.properties import encode_properties
from pocketmq.model.administration import GroupSettings
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import Received, SettleStatus
from pocketmq.model.errors import TopicNotFound
from pocketmq.model.message import RETRY_TOPIC, SHARDING_KEY
from pocketmq.model.step import Next, Now
from pocketmq.services.consume import long_poll as parking_module
from pocketmq.services.consume import receive_mode
from pocketmq.services.consume.broadcasting import SWEEP_ABOVE
from pocketmq.services.consume.consume import STEP_INTERVAL_MS
from pocketmq.services.consume.fifo import receive as fifo_receive
from pocketmq.services.consume.lease import receive as lease_receive
from pocketmq.store.job import Job
from pocketmq.store.settings import FLUSH_SYNC
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies, consuming
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST, turns, until

OK = SettleStatus.OK
Event = Callable[[ConsumeDesk, list[str]], Awaitable[Any]]
SOON_MS, LATE_MS = STEP_INTERVAL_MS // 2, 2 * STEP_INTERVAL_MS


def stepped(desk: ConsumeDesk) -> Next:
    """Runs the step; returns when it is to be called next."""
    following = desk.consume.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
    assert not isinstance(following.mark, Job)
    return following


def waits(by_ms: int) -> Event:
    async def event(desk: ConsumeDesk, handles: list[str]) -> None:
        desk.consume.receive(desk.asked(wait_ms=by_ms))

    return event


def leases(by_ms: int) -> Event:
    async def event(desk: ConsumeDesk, handles: list[str]) -> None:
        await desk.send_grouped("c")
        assert bodies(await desk.receive(invisible_ms=by_ms)) == ["c"]

    return event


def hides(by_ms: int) -> Event:
    async def event(desk: ConsumeDesk, handles: list[str]) -> None:
        await desk.consume.change_invisible(GROUP, TOPIC, [(handles[0], by_ms)])

    return event


async def loses_a_part(desk: ConsumeDesk, handles: list[str]) -> None:
    desk.consume.release(GROUP, TOPIC, handles[:1])


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("event", [waits(SOON_MS), leases(SOON_MS), hides(SOON_MS), hides(0)])
async def test_the_step_is_called_for_what_ends_before_it(
    desk: ConsumeDesk, event: Event, *, fifo: bool
) -> None:
    await _is_called(desk, event, fifo=fifo, is_called=True)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("event", [waits(LATE_MS), leases(LATE_MS), hides(LATE_MS)])
async def test_the_step_is_not_called_for_what_ends_after_it(
    desk: ConsumeDesk, event: Event, *, fifo: bool
) -> None:
    await _is_called(desk, event, fifo=fifo, is_called=False)


async def test_the_step_is_called_for_what_an_answer_lost(desk: ConsumeDesk) -> None:
    await _is_called(desk, loses_a_part, fifo=False, is_called=True)


async def _is_called(desk: ConsumeDesk, event: Event, *, fifo: bool, is_called: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send_grouped("a", "b")
    got = await desk.receive()
    following = stepped(desk)
    assert following.at_ms == desk.clock.monotonic_ms() + STEP_INTERVAL_MS
    assert following.mark is not None
    early = asyncio.ensure_future(following.mark.reached(following.value))
    await event(desk, got.handles)
    await turns()
    assert early.done() == is_called
    early.cancel()


@pytest.mark.parametrize("fifo", [False, True])
async def test_the_step_is_called_when_the_lease_ends_on_which_a_receive_waits(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a")
    await desk.receive(invisible_ms=SOON_MS)
    waiting = await desk.parked()
    following = stepped(desk)
    assert following.at_ms == desk.clock.monotonic_ms() + SOON_MS
    await desk.step(SOON_MS)
    assert bodies(await waiting) == ["a"]


# -- those who wait --------------------------------------------------------------------------------
@pytest.mark.parametrize("fifo", [False, True])
async def test_one_after_the_other_is_woken_by_one_queue(desk: ConsumeDesk, *, fifo: bool) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    waiting = [await desk.parked() for _ in range(3)]
    for number, one in enumerate(waiting):
        await desk.send_grouped(f"{number}")
        assert bodies(await one) == [f"{number}"]


async def test_many_waits_that_were_given_up_take_no_room(desk: ConsumeDesk) -> None:
    kept = await desk.parked(wait_ms=30_000)
    for _ in range(2 * parking_module.DEADLINES_KEPT_MIN):
        found = desk.consume.receive(desk.asked(wait_ms=20_000))
        assert isinstance(found, asyncio.Future)
        found.cancel()
        await asyncio.sleep(0)
    assert len(desk.consume._long_polls._deadlines) <= parking_module.DEADLINES_KEPT_MIN + 3
    assert desk.consume.waiter_count == 1
    await desk.step(29_999)
    assert not kept.done()
    await desk.step(1)
    for _ in range(2 * parking_module.DEADLINES_KEPT_MIN // parking_module.ENDED_MAX):
        await desk.step()
    assert kept.done()
    assert kept.result().records == []


async def test_many_broadcast_waits_that_were_given_up_take_no_room(desk: ConsumeDesk) -> None:
    asked = {"broadcast": True, "client_id": "c", "wait_ms": 60_000}
    for _ in range(2 * SWEEP_ABOVE):
        waiting = await desk.parked(**asked)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert desk.store.reading.arrivals(TOPIC, 0).waiter_count <= SWEEP_ABOVE + 1


async def test_a_wait_that_finds_nothing_for_it_ends_with_a_drain(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being served as the drain comes: what it reads is not wanted."""
    gate, reads = asyncio.Event(), []
    taking = type(desk.consume._lease.receive)
    take = taking.take

    async def slow(*given: Any) -> Any:
        reads.append(given)
        await gate.wait()
        return await take(*given)

    monkeypatch.setattr(taking, "take", slow)
    waiting = await desk.parked(wanted=parse("B", tags_code))
    await desk.talking.send(TOPIC, "a", tag="A")
    await until(lambda: bool(reads))
    desk.consume.drain()
    await turns()
    assert not waiting.done()
    gate.set()
    assert (await waiting).records == []
    await desk.consume.close()


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_client_that_ends_lets_those_have_what_it_kept_who_wait(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    """Of one group: what another one leased for the same client stays."""
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.store.tables.groups.create("other", GroupSettings(fifo=fifo))
    await desk.send("a")
    renewed = {"client_id": "c", "auto_renew": True, "invisible_ms": 60_000}
    for group in (GROUP, "other"):
        assert bodies(await desk.receive(group=group, **renewed)) == ["a"]
    mine, others = await desk.parked(), await desk.parked(group="other")
    desk.consume.leave("c", GROUP)
    await desk.step(1_000)
    assert bodies(await mine) == ["a"]
    await desk.step(1_000)
    assert not others.done()
    desk.consume.drain()


async def test_what_waits_for_the_disk_is_handed_over_with_it(tmp_path: Path) -> None:
    """A receive that waited is answered once its lease is durable, and the next one is served."""
    async with consuming(tmp_path / "s", flush=FLUSH_SYNC) as desk:
        first, second = await desk.parked(), await desk.parked()
        await desk.send("a")
        assert bodies(await first) == ["a"]
        with desk.talking.quick_disk.held():
            sending = asyncio.ensure_future(desk.send("b"))
            await turns(50)
            assert not second.done()
        await sending
        assert bodies(await second) == ["b"]


async def test_a_time_that_becomes_nothing_serves_those_who_wait_at_once(desk: ConsumeDesk) -> None:
    """No step is needed: the message group is free as soon as its first message is."""
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("a")
    got = await desk.receive()
    waiting = await desk.parked()
    await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 0)])
    assert bodies(await _soon(waiting)) == ["a"]


async def test_what_did_not_reach_its_receiver_serves_those_who_wait_at_once(
    desk: ConsumeDesk,
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("a")
    got = await desk.receive()
    waiting = await desk.parked()
    desk.consume.release(GROUP, TOPIC, got.handles)
    assert bodies(await _soon(waiting)) == ["a"]


async def test_what_a_caller_gave_up_before_it_was_durable_serves_those_who_wait_at_once(
    tmp_path: Path,
) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
        await desk.send("a")
        with desk.talking.quick_disk.held():
            gone = asyncio.ensure_future(desk.receive())
            await turns(50)
            assert desk.in_flight == 1
            waiting = await desk.parked()
            gone.cancel()
            await asyncio.wait([gone])
        assert bodies(await _soon(waiting)) == ["a"]


async def _soon(waiting: "asyncio.Future[Received]") -> Received:
    """Returns what a receive gets, though no step is called."""
    await until(waiting.done)
    return waiting.result()


# -- what is counted -------------------------------------------------------------------------------
@pytest.mark.parametrize("fifo", [False, True])
async def test_handles_are_counted_by_what_became_of_them(desk: ConsumeDesk, *, fifo: bool) -> None:
    def counted(name: str) -> Any:
        (one,) = [stat for stat in desk.consume.stats if stat.name == name]
        return one.values  # type: ignore[union-attr]

    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b", "c")
    got = await desk.receive()
    await desk.consume.ack(GROUP, TOPIC, got.handles[:2])
    assert counted("pocketmq_ack_total") == {("OK",): 2}
    await desk.consume.ack(GROUP, TOPIC, got.handles[1:2])
    assert counted("pocketmq_ack_total") == {("OK",): 2, ("INVALID_RECEIPT_HANDLE",): 1}
    await desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles[1:])
    dead = counted("rocketmq_send_to_dlq_messages_total")
    assert dead == {(GROUP, TOPIC, "false"): 1}


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_time_of_nothing_and_one_of_twelve_hours_are_taken(
    desk: ConsumeDesk, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send_grouped("a", "b", "c", "d")
    handles = (await desk.receive()).handles
    longest_ms = 12 * 3_600_000
    asked = [*zip(handles, (0, longest_ms, longest_ms + 1, -1), strict=True)]
    settled = await desk.consume.change_invisible(GROUP, TOPIC, asked)
    illegal = SettleStatus.ILLEGAL_INVISIBLE_TIME
    assert [one.status for one in settled] == [OK, OK, illegal, illegal]
    await desk.step(1)
    assert bodies(await desk.receive()) == ["a"]
    await desk.step(INVISIBLE_MS)
    assert {"c", "d"} <= {*bodies(await desk.receive())} <= {"a", "c", "d"}


@pytest.mark.parametrize("attempts_max", [1, 2])
async def test_who_waits_at_the_limit_in_flight_is_served_as_leases_end(
    tmp_path: Path, attempts_max: int
) -> None:
    async with consuming(tmp_path / "s", in_flight_max=1) as desk:
        await desk.store.tables.groups.update(GROUP, GroupSettings(max_attempts=attempts_max))
        names = f"%RETRY%{GROUP}", f"%RETRY%{GROUP}_{TOPIC}", f"%DLQ%{GROUP}"
        for name in names:  # A new topic would serve it as well.
            await desk.store.tables.topics.ensure(name, 1)
        await desk.step()
        await desk.send("a", "b")
        assert bodies(await desk.receive()) == ["a"]
        waiting = await desk.parked(wait_ms=100_000, max_messages=1)
        await desk.step(INVISIBLE_MS + 1_000)
        await desk.step()
        assert waiting.done()
        assert bodies(waiting.result()) == ["b"]


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("topic", [TOPIC, f"%RETRY%{GROUP}"])
async def test_who_waits_gets_messages_of_a_queue_that_was_added(
    desk: ConsumeDesk, topic: str, *, fifo: bool
) -> None:
    topics = desk.store.tables.topics
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.step()
    waiting = await desk.parked()
    if topic == TOPIC:
        await topics.update(TOPIC, read_queue_count=4, write_queue_count=4)
    else:
        await topics.ensure(topic, 4)
    await desk.send("a", topic=topic, queue_id=3)
    assert not waiting.done()
    await desk.step()
    async with asyncio.timeout(5):
        assert bodies(await waiting) == ["a"]
    await desk.ack(waiting.result())
    second = await desk.parked()
    await desk.send("b", topic=topic, queue_id=3)
    assert bodies(await second) == ["b"]


# -- the retry topic of all topics of a group ------------------------------------------------------
RETRIES = f"%RETRY%{GROUP}"


async def send_retries(desk: ConsumeDesk, **origins: str) -> None:
    """Stores messages in the group's retry topic, each with the topic that it is of."""
    for body, topic in origins.items():
        block = encode_properties({RETRY_TOPIC: topic, SHARDING_KEY: "k"})
        row = Row(body.encode(), block, 0, BORN_MS, BORN_HOST)
        await desk.store.writing.put([(Destination(RETRIES, 0, STORE_HOST), batch(row))])
    await desk.settled()


@pytest.mark.parametrize("fifo", [False, True])
async def test_who_waits_for_another_topic_of_the_group_is_served_as_retries_are_settled(
    tmp_path: Path, *, fifo: bool
) -> None:
    async with consuming(tmp_path / "s", in_flight_max=1) as desk:
        desk.store.tables.topics.adopt("others", 1)
        desk.store.tables.topics.adopt(RETRIES, 1)
        await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
        await send_retries(desk, a=TOPIC, b="others")
        got = await desk.receive(max_messages=1)
        assert bodies(got) == ["a"]
        waiting = await desk.parked(topic="others")
        await desk.ack(got)
        assert bodies(await _soon(waiting)) == ["b"]


@pytest.mark.parametrize("fifo", [False, True])
async def test_who_waits_for_another_topic_of_the_group_is_served_after_a_read_of_its_retries(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch, *, fifo: bool
) -> None:
    """The queue was busy as the receive looked: one at a time reads it."""
    desk.store.tables.topics.adopt("others", 1)
    desk.store.tables.topics.adopt(RETRIES, 1)
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    gate = asyncio.Event()
    pull_wanted = receive_mode.pull_wanted

    async def slow(*given: Any, **named: Any) -> Any:
        await gate.wait()
        return await pull_wanted(*given, **named)

    for module in (lease_receive, fifo_receive):
        monkeypatch.setattr(module, "pull_wanted", slow)
    await send_retries(desk, a=TOPIC, b="others")
    first = asyncio.ensure_future(desk.receive(max_messages=1))
    await turns()
    waiting = await desk.parked(topic="others", max_messages=1)
    gate.set()
    got = await first
    assert bodies(got) == ["a"]
    if fifo:
        await desk.consume.change_invisible(GROUP, TOPIC, [(got.handles[0], 0)])
    assert bodies(await _soon(waiting)) == (["a"] if fifo else ["b"])


@pytest.mark.parametrize("is_sent_first", [False, True])
async def test_a_notification_counts_messages_of_a_queue_that_was_added(
    desk: ConsumeDesk, *, is_sent_first: bool
) -> None:
    expected = asyncio.ensure_future(desk.consume.expect(desk.asked(wait_ms=20_000)))
    await turns()
    await desk.store.tables.topics.update(TOPIC, read_queue_count=4, write_queue_count=4)
    if not is_sent_first:
        await desk.step()
    assert not expected.done()
    await desk.send("a", queue_id=3)
    await desk.step()
    async with asyncio.timeout(5):
        assert await expected is True


async def test_a_notification_counts_messages_after_a_reset_and_ends_with_its_topic(
    desk: ConsumeDesk,
) -> None:
    await desk.send("a")
    await desk.ack(await desk.receive())
    again, gone = [
        asyncio.ensure_future(desk.consume.expect(desk.asked(wait_ms=20_000, topic=topic)))
        for topic in (TOPIC, "others")
    ]
    desk.store.tables.topics.adopt("others", 1)
    await turns()
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: 0})
    await desk.store.tables.topics.remove("others")
    await desk.step()
    async with asyncio.timeout(5):
        assert await again is True
        with pytest.raises(TopicNotFound):
            await gone


async def test_a_client_of_a_broadcast_gets_messages_of_a_queue_that_was_added(
    desk: ConsumeDesk,
) -> None:
    waiting = await desk.parked(broadcast=True, client_id="c")
    await desk.store.tables.topics.update(TOPIC, read_queue_count=4, write_queue_count=4)
    await turns()
    assert not waiting.done()
    await desk.send("a", queue_id=3)
    async with asyncio.timeout(5):
        assert bodies(await waiting) == ["a"]
