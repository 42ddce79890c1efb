"""Interleavings within a receive, an acknowledgement or the end of a lease."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.filter.tag import parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.format.record_heads import read_heads
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received, SettleStatus
from pocketmq.model.errors import StoreBusy
from pocketmq.services.consume.leases import Lease, LeaseTable
from pocketmq.services.consume.long_poll import handed_over
from pocketmq.store.read.cold_read import value_of
from tests.kit.consuming import (
    GROUP,
    INVISIBLE_MS,
    TOPIC,
    ConsumeDesk,
    bodies,
    consuming,
    statuses,
)
from tests.kit.store_language import turns, until

OK, INVALID = SettleStatus.OK, SettleStatus.INVALID_RECEIPT_HANDLE
TAKING, READING, REREADING = (
    f"pocketmq.services.consume.{name}" for name in ("lease.receive", "receive_mode", "reread")
)


class Gate:
    """Holds calls up until it opens."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._open = asyncio.Event()
        self.count = 0

    async def __call__(self, *given: Any, **named: Any) -> Any:
        self.count += 1
        await self._open.wait()
        return await self._call(*given, **named)

    async def met(self) -> None:
        """Returns when a call is held up."""
        await until(lambda: self.count > 0)

    def open(self) -> None:
        """Releases all calls."""
        self._open.set()


async def set_offset(desk: ConsumeDesk, at: int) -> None:
    """Sets the group's offset by hand, as an administrator does."""
    await desk.store.tables.offsets.set_many(GROUP, TOPIC, {0: at})
    await desk.store.tables.orders.forget(GROUP, TOPIC, (0,))


def stands_at(desk: ConsumeDesk) -> int | None:
    """Returns the group's offset."""
    return desk.store.tables.offsets.find(GROUP, TOPIC, 0)


# -- an offset that is set meanwhile ---------------------------------------------------------------
@pytest.mark.parametrize("at", [1, 4])
@pytest.mark.parametrize("fifo", [False, True])
async def test_an_offset_set_while_a_receive_reads_holds(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch, at: int, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send(*"abcdef")
    await desk.ack(await desk.receive(max_messages=3))
    gate = Gate(value_of)
    monkeypatch.setattr(f"{REREADING if fifo else READING}.value_of", gate)
    receive = asyncio.ensure_future(desk.receive(max_messages=1))
    await gate.met()
    await set_offset(desk, at)
    gate.open()
    await receive
    assert stands_at(desk) == at
    assert bodies(await desk.receive(max_messages=1)) == ["abcdef"[at]]


async def test_an_offset_set_while_the_journal_is_written_holds(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.send(*"abc")
    gate = Gate(desk.consume._lease.journal.put)
    monkeypatch.setattr(type(desk.consume._lease.journal), "put", lambda _, *given: gate(*given))
    receive = asyncio.ensure_future(desk.receive(max_messages=2))
    await gate.met()
    await set_offset(desk, 1)
    gate.open()
    await receive
    assert stands_at(desk) == 1


async def test_an_offset_set_between_two_reads_of_a_receive_holds(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were joined do not parse as they were counted: they are read one by one."""
    await desk.send(*"abc")
    await desk.ack(await desk.receive(max_messages=2))
    first, second, count = Gate(value_of), Gate(value_of), 0

    def damaged(records: list[bytes]) -> tuple[list[int], list[int]]:
        nonlocal count
        count += 1
        return read_heads(records) if count > 1 else ([], [])

    async def read(found: Any) -> Any:
        return await (second(found) if count else first(found))

    monkeypatch.setattr(f"{READING}.value_of", read)
    monkeypatch.setattr(f"{TAKING}.read_heads", damaged)
    receive = asyncio.ensure_future(desk.receive(joined=True))
    await first.met()
    await set_offset(desk, 0)
    first.open()
    second.open()
    await receive
    assert second.count == 1
    assert stands_at(desk) == 0


# -- one that does not wait, beside others that do -------------------------------------------------
async def test_who_does_not_wait_gets_what_is_left_while_another_is_served(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that waits reads the first queue; the second one has a message by then."""
    waiting = await desk.parked(max_messages=1)
    gate = Gate(value_of)
    with monkeypatch.context() as patch:
        patch.setattr(f"{READING}.value_of", gate)
        await desk.send("a")
        await gate.met()
    await desk.send("b", queue_id=1)
    assert not waiting.done()
    assert bodies(await desk.receive()) == ["b"]
    gate.open()
    assert bodies(await waiting) == ["a"]


# -- leases that are taken and given back ----------------------------------------------------------
def leased(table: LeaseTable, ends_ms: int) -> Lease:
    """Returns a lease of two messages that ends at a time."""
    queue = table.queue(GROUP, TOPIC, 0, 0)
    batched = Batched(GROUP, TOPIC, 0, 0, 1_000, "b")
    lease = Lease(queue, PopCheckpoint(batched, [0, 1], 500, 0), 0, first_popped_ms=1_000)
    table.add(lease, ends_ms)
    return lease


def test_a_lease_given_back_after_its_end_was_popped_ends() -> None:
    table = LeaseTable()
    lease = leased(table, 500)
    table.take(lease, (0, 1))
    assert list(table.ended(500)) == []
    table.give_back(lease, (0, 1))
    assert list(table.ended(500)) == [lease]


async def test_what_could_not_be_settled_as_its_lease_ended_comes_again(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.send("a")
    got = await desk.receive()

    async def refused(*_: Any) -> int:
        raise StoreBusy(held_ms=2, limit_ms=1)

    gate = Gate(refused)
    with monkeypatch.context() as patch:
        patch.setattr(type(desk.consume._lease.journal), "put", lambda _, *given: gate(*given))
        ack = asyncio.ensure_future(desk.ack(got))
        await gate.met()
        await desk.step(INVISIBLE_MS)
        gate.open()
        with pytest.raises(StoreBusy):
            await ack
    await desk.step(1_000)
    assert bodies(await desk.receive()) == ["a"]


def test_a_release_lengthens_no_lease() -> None:
    table = LeaseTable()
    lease = leased(table, 500)
    table.release(lease, 900)
    assert (list(table.ended(499)), list(table.ended(500))) == ([], [lease])
    table.end_at(lease, 800)
    table.release(lease, 700)
    assert list(table.ended(700)) == [lease]


@pytest.mark.parametrize("count", [1, 2])
async def test_what_its_receiver_never_had_is_hidden_no_longer_than_its_lease(
    desk: ConsumeDesk, count: int
) -> None:
    await desk.send("a", "b")
    got = await desk.receive()
    await desk.step(INVISIBLE_MS - 100)
    desk.consume.release(GROUP, TOPIC, got.handles[:count])
    await desk.step()
    await desk.step(102)
    assert sorted(bodies(await desk.receive())) == ["a", "b"]


# -- answers for callers that have gone ------------------------------------------------------------
async def test_what_comes_as_its_caller_gives_up_is_released() -> None:
    released: list[str] = []
    found: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(handed_over(found, released.extend))
    await turns()
    found.set_result(Received([b""], ["handle"], [1], 0, 0))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert released == ["handle"]


@pytest.mark.parametrize("fifo", [False, True])
async def test_what_is_leased_as_its_waiter_goes_comes_back_soon_to_others(
    desk: ConsumeDesk, monkeypatch: pytest.MonkeyPatch, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    gate = Gate(value_of)
    monkeypatch.setattr(f"{READING}.value_of", gate)
    parking, released = desk.consume._long_polls, asyncio.Event()
    release = parking._release

    def noted(*given: Any) -> None:
        release(*given)
        released.set()

    parking._release = noted
    gone = await desk.parked()
    await desk.send("a")
    await gate.met()
    gone.cancel()
    gate.open()
    await until(lambda: desk.in_flight == 1 or released.is_set())
    await desk.store.flush()
    await released.wait()
    await desk.step(1_000)
    again = await desk.receive()
    assert bodies(again) == ["a"]
    assert again.attempts == [1 if fifo else 2]


# -- handles from before a reset -------------------------------------------------------------------
@pytest.mark.parametrize("back_ms", [0, 700, 3_600_000])
@pytest.mark.parametrize("fifo", [False, True])
async def test_a_handle_of_before_settles_nothing_that_was_delivered_after_a_reset(
    desk: ConsumeDesk, back_ms: int, *, fifo: bool
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=fifo))
    await desk.send("a", "b")
    before = await desk.receive()
    await desk.ack(before)
    await set_offset(desk, 0)
    desk.clock.wall -= back_ms
    after = await desk.receive()
    assert bodies(after) == ["a", "b"]
    assert statuses(await desk.consume.ack(GROUP, TOPIC, before.handles)) == [INVALID, INVALID]
    changed = await desk.consume.change_invisible(
        GROUP, TOPIC, [(one, INVISIBLE_MS) for one in after.handles]
    )
    desk.clock.wall += back_ms
    more = await desk.consume.change_invisible(
        GROUP, TOPIC, [(one.handle, INVISIBLE_MS) for one in changed]
    )
    assert statuses(await desk.consume.ack(GROUP, TOPIC, before.handles)) == [INVALID, INVALID]
    settled = await desk.consume.ack(GROUP, TOPIC, [one.handle for one in more])
    assert statuses(settled) == [OK, OK]


async def test_a_receive_with_tags_passes_nothing_over_that_was_given_out_before_a_start(
    desk: ConsumeDesk, tmp_path: Path
) -> None:
    await desk.store.tables.groups.update(GROUP, GroupSettings(fifo=True))
    await desk.send("a", tag="x")
    await desk.send("b", tag="y")
    held = await desk.receive(max_messages=1)
    image = desk.talking.killed(tmp_path / "image")
    async with consuming(image, clock=desk.clock) as later:
        await later.receive(wanted=parse("y", tags_code))
        assert stands_at(later) == 0
        assert later.in_flight >= 1
        assert statuses(await later.consume.ack(GROUP, TOPIC, held.handles)) == [OK]
