"""One turn of the loop revives a limited number of messages, for a limited time."""

import asyncio
from typing import Any

import pytest

from pocketmq.model.batch import Run
from pocketmq.model.errors import BrokerReadOnly, StoreBusy
from pocketmq.model.step import Now
from pocketmq.model.topic import retry_topic
from pocketmq.services.consume.lease.revive import RETRY_PAUSE_MS, TURN_MAX, TURN_MS, Reviving
from pocketmq.services.consume.leases import Lease
from pocketmq.services.consume.redelivery import Redelivery
from pocketmq.store.job import Job
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, bodies

LEASES = 3 * TURN_MAX


async def put_by_turn(desk: ConsumeDesk) -> list[int]:
    """Ends all leases; returns how many messages each turn of the loop revived, if any."""
    end = desk.store.writing.writer.next_offsets
    key = next(key for key in (*end, (f"{retry_topic(GROUP)}_{TOPIC}", 0)) if "%RETRY%" in key[0])
    puts: list[int] = []
    desk.clock.advance(INVISIBLE_MS)
    for _ in range(1_000):
        following = desk.consume.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
        if not isinstance(following.mark, Job):
            break
        while not following.mark.is_done:
            before = end.get(key, 0)
            await asyncio.sleep(0)
            puts.append(end.get(key, 0) - before)
    return [count for count in puts if count]


async def test_a_turn_puts_no_more_than_it_has_room_for(desk: ConsumeDesk) -> None:
    await desk.send(*["a"] * LEASES)
    for _ in range(LEASES // 2):
        await desk.receive(max_messages=1)
    await desk.receive(max_messages=32)
    puts = await put_by_turn(desk)
    assert sum(puts) == LEASES
    assert max(puts) == TURN_MAX
    assert desk.in_flight == 0


async def test_a_turn_that_takes_long_puts_what_it_has(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Redelivery.over

    def slow(self: Redelivery, record: bytes, *rest: Any, **named: Any) -> Run:
        desk.clock.advance(1)
        return over(self, record, *rest, **named)

    monkeypatch.setattr(Redelivery, "over", slow)
    await desk.send(*["a"] * 8)
    for _ in range(8):
        await desk.receive(max_messages=1)
    puts = await put_by_turn(desk)
    assert sum(puts) == 8
    assert max(puts) <= TURN_MS


async def test_leases_of_32_messages_end_together(desk: ConsumeDesk) -> None:
    """The one that makes it 32 is the last, however many it has."""
    await desk.send(*["a"] * 65)
    for count in (1, 30, 1, 30, 3):
        await desk.receive(max_messages=count)
    due = desk.consume._lease.revive.due(desk.clock.monotonic_ms() + INVISIBLE_MS)
    assert [lease.pending_count for lease in due] == [1, 30, 1]


@pytest.mark.parametrize(("took_ms", "is_carried"), [(999, True), (1_000, False)])
async def test_a_stop_writes_leases_down_anew_for_a_second_at_most(
    desk: ConsumeDesk,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    took_ms: int,
    *,
    is_carried: bool,
) -> None:
    """Three leases, two by one put, of which the first takes so long."""
    await desk.send(*["a"] * 6)
    for _ in range(3):
        got = await desk.receive(max_messages=2)
        await desk.consume.ack(GROUP, TOPIC, got.handles[:1])
    carried: list[int] = []

    async def slow(_: Reviving, leases: list[Lease]) -> None:
        carried.append(len(leases))
        desk.clock.advance(took_ms)

    with monkeypatch.context() as patch:
        patch.setattr("pocketmq.services.consume.lease.revive.CARRIED_MAX", 2)
        patch.setattr(Reviving, "carry", slow)
        await desk.consume._lease.revive.carry_partly_settled()
    assert carried == ([2, 1] if is_carried else [2])
    assert ("stop.shortened" in [one.message for one in caplog.records]) != is_carried


async def test_what_was_put_before_a_refusal_is_not_put_again(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second turn's put is refused, and so is each message that is left, for a second."""
    count = 2 * TURN_MAX
    await desk.send(*[f"{number}" for number in range(count)])
    await desk.receive(max_messages=count)
    journal = desk.consume._lease.journal
    put, tries = journal.put, 0

    async def refused(_: Any, *given: Any) -> int:
        nonlocal tries
        tries += 1
        if tries > 1:
            raise StoreBusy(held_ms=2, limit_ms=1)
        return await put(*given)

    with monkeypatch.context() as patch:
        patch.setattr(type(journal), "put", refused)
        await desk.step(INVISIBLE_MS)
        assert tries == 2 + count - TURN_MAX
        assert desk.in_flight == count - TURN_MAX
        await desk.step(RETRY_PAUSE_MS - 1)
        assert tries == 2 + count - TURN_MAX
    await desk.step(1)
    assert desk.in_flight == 0
    again = bodies(await desk.receive(max_messages=count))
    assert sorted(map(int, again)) == [*range(count)]
    assert desk.consume._lease.revive.expired.value == count


async def test_what_cannot_be_told_of_is_tried_once_a_second(
    desk: ConsumeDesk, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.send("a")
    await desk.receive()
    desk.store.writing.refuse(BrokerReadOnly(why="a test"))
    await desk.step(INVISIBLE_MS)
    kept = [one.message for one in caplog.records].count("lease.revive_deferred")
    assert kept > 0
    await desk.step(RETRY_PAUSE_MS - 1)
    assert [one.message for one in caplog.records].count("lease.revive_deferred") == kept
    await desk.step(1)
    assert [one.message for one in caplog.records].count("lease.revive_deferred") == 2 * kept
    desk.store.writing.refuse(None)
