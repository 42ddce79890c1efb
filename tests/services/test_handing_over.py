"""Timer files after a clean stop, read as a real broker reads them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.pop_records import PopCheckpoint, read_entry
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.format.timer_layout import MAGIC_DELETE, NO_UNIT, SLOT_COUNT, due_times
from pocketmq.model.batch import Destination
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC, QueuePlace, timed
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.services.consume.lease import revive
from pocketmq.services.delay import handover as timer_handing_over
from pocketmq.services.delay.enqueue import second_of
from pocketmq.services.delay.handover import end_settled
from pocketmq.services.delay.timer import Timer
from pocketmq.store.job import Job
from pocketmq.tools.pending.timer_files import TimerSnapshot, read_timer_files
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.kit.consuming import GROUP, SIZES, TOPIC, ConsumeDesk, bodies, consuming
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST, turns
from tests.sim.clock import FakeClock

SHAPE: Any = {
    **SIZES, "index_slot_count": 8, "index_entry_count_max": 16, "time_zone": "UTC",
}  # fmt: skip
SHORT_MS, LONG_MS = 2_000, 6_000


class Desk:
    """Consuming, and the timer that its journal goes through."""

    def __init__(self, consuming_desk: ConsumeDesk) -> None:
        self.desk = consuming_desk
        self.clock = consuming_desk.clock
        self.consume = consuming_desk.consume
        self.timer = Timer(consuming_desk.store, STORE_HOST, self.consume.is_lease_open)

    async def pass_time(self, by_ms: int) -> None:
        """Advances the clock and runs both services."""
        left = by_ms
        while left > 0:
            await self.desk.step(min(left, 500))
            left -= 500
            await self.work()
        await self.desk.settled()

    async def work(self) -> None:
        """Runs only the timer until it waits for time to pass."""
        for _ in range(200):
            now = Now(self.clock.monotonic_ms(), self.clock.wall_ms())
            following = self.timer.step(now)
            if isinstance(following.mark, Job):
                await following.mark.reached()
            elif following.at_ms is not None and following.at_ms > now.monotonic_ms:
                return
            await turns()

    async def wait(self, name: str, in_ms: int) -> None:
        """Puts a message of a user's that is due so many ms from now."""
        block = encode_properties(
            timed(QueuePlace(TOPIC, 1), self.clock.wall_ms() + in_ms).applied({})
        )
        row = Row(name.encode(), block, 0, BORN_MS, BORN_HOST)
        await self.desk.store.writing.put([(Destination(TIMER_TOPIC, 0, STORE_HOST), batch(row))])
        await self.desk.settled()


@asynccontextmanager
async def handing_over(directory: Path, clock: FakeClock | None = None) -> AsyncIterator[Desk]:
    """Opens a store, and stops it in order: consuming first, then the timer."""
    async with consuming(directory, clock=clock, timer_slot_count=SLOT_COUNT) as opened:
        desk = Desk(opened)
        yield desk
        desk.consume.drain()
        await desk.consume.close()
        await desk.timer.close()


class Real:
    """A real broker's reading of the files: TimerMessageStore.recover, then dequeue."""

    def __init__(self, directory: Path) -> None:
        self._files: TimerSnapshot = read_timer_files(Disk(), directory)
        self._log = (directory / "commitlog" / f"{0:020d}").read_bytes()

    def _record(self, at: int) -> bytes:
        unit = self._files.units[at]
        place = int(unit["physical_offset"])
        return self._log[place : place + int(unit["record_size"])]

    @property
    def next_offset(self) -> int:
        """Where it goes on reading the timer's topic."""
        return decode_record(self._record(-1)).queue_offset + 1

    def delivered(self) -> list[bytes]:
        """Returns the records of all slots that it has not read, in their order."""
        units, places = self._files.units, self._files.places
        assert self._files.slots is not None
        lasts = dict(zip((due_times(units) // 1000).tolist(), places.tolist(), strict=True))
        for slot in self._files.slots[self._files.slots["time"] > 0]:
            lasts.setdefault(int(slot["time"]), int(slot["last"]))
        found: list[bytes] = []
        for second in sorted(second for second in lasts if second * 1000 >= self._files.read_ms):
            chain: list[bytes] = []
            place = lasts[second]
            while place != NO_UNIT:
                at = int(np.searchsorted(places, place))
                if not units["magic"][at] & MAGIC_DELETE:
                    chain.append(self._record(at))
                place = int(units["previous"][at])
            found += chain[::-1]
        return found

    def checkpoints(self) -> list[list[int]]:
        """Returns the queue offsets of each checkpoint that it delivers to its revive topic."""
        entries = [read_entry(record) for record in self.delivered()]
        told = [entry[0] for entry in entries if entry is not None]
        return [said.queue_offsets for said in told if isinstance(said, PopCheckpoint)]


def is_sound(directory: Path) -> bool:
    """Returns whether an offline look finds nothing wrong of a store."""
    found = verify(Disk(), directory, KnownShape(**SHAPE), VerifyOptions())
    assert found.counts == {}, found
    return True


@pytest.mark.parametrize(
    ("ack_after_ms", "stop_after_ms"), [(800, 200), (800, 1_200), (2_500, 200)]
)
async def test_no_checkpoint_of_a_settled_lease_is_left(
    tmp_path: Path, ack_after_ms: int, stop_after_ms: int
) -> None:
    """Nor one in the slot of the second in which the broker stops."""
    async with handing_over(tmp_path / "s") as desk:
        await desk.desk.send(*"abcd")
        await desk.pass_time(300)
        got = await desk.desk.receive(max_messages=4, invisible_ms=SHORT_MS)
        await desk.pass_time(ack_after_ms)
        if ack_after_ms < SHORT_MS:
            await desk.desk.ack(got)
        await desk.pass_time(stop_after_ms)
        assert not desk.consume.lease_count
        end = desk.desk.store.reading.queue_range(TIMER_TOPIC, 0)[1]
    real = Real(tmp_path / "s")
    assert real.checkpoints() == []
    assert real.next_offset == end
    assert is_sound(tmp_path / "s")


async def test_a_lease_that_is_open_comes_back_by_a_real_broker_without_what_is_settled(
    tmp_path: Path,
) -> None:
    async with handing_over(tmp_path / "s") as desk:
        await desk.desk.send(*"abcdef")
        await desk.desk.ack(await desk.desk.receive(max_messages=1, invisible_ms=LONG_MS))
        held = await desk.desk.receive(max_messages=3, invisible_ms=LONG_MS)
        await desk.desk.ack(await desk.desk.receive(max_messages=1, invisible_ms=LONG_MS))
        await desk.pass_time(500)
        await desk.consume.ack(GROUP, TOPIC, held.handles[1:2])
        await desk.pass_time(500)
    real = Real(tmp_path / "s")
    assert real.checkpoints() == [[1, 3]]
    assert is_sound(tmp_path / "s")
    async with handing_over(tmp_path / "s", desk.clock) as later:
        assert later.desk.in_flight == 2
        await later.pass_time(LONG_MS)
        assert sorted(bodies(await later.desk.receive())) == ["b", "d", "f"]


async def test_messages_of_users_in_the_same_second_wait_on(tmp_path: Path) -> None:
    async with handing_over(tmp_path / "s") as desk:
        await desk.desk.send(*"abc")
        await desk.wait("before", LONG_MS - 1_000)
        for count in (1, 2):
            await desk.desk.ack(await desk.desk.receive(max_messages=count, invisible_ms=LONG_MS))
            await desk.wait(f"behind {count}", LONG_MS - 1_000)
        await desk.pass_time(500)
    users = [decode_record(record).body.decode() for record in Real(tmp_path / "s").delivered()]
    wanted = ["before", "behind 1", "behind 2"]
    assert [body for body in users if not body.startswith("{")] == wanted
    assert is_sound(tmp_path / "s")
    async with handing_over(tmp_path / "s", desk.clock) as later:
        await later.pass_time(LONG_MS + 1_000)
        assert await later.desk.talking.pulled(TOPIC, 1) == wanted
        waiting = later.timer._counts.by_topic()
        assert not any(waiting.values())


async def test_nothing_is_read_once_more_that_was_due_when_it_came(tmp_path: Path) -> None:
    async with handing_over(tmp_path / "s") as desk:
        await desk.desk.send("a")
        await desk.wait("user", LONG_MS)
        await desk.pass_time(500)
        got = await desk.desk.receive(invisible_ms=SHORT_MS)
        for _ in range(8):  # Its lease is over, and has not been ended yet.
            desk.clock.advance(500)
            await desk.work()
        await desk.desk.ack(got)
        await desk.work()
        await desk.desk.settled()
        end = desk.desk.store.reading.queue_range(TIMER_TOPIC, 0)[1]
    real = Real(tmp_path / "s")
    assert (real.next_offset, real.checkpoints()) == (end, [])
    assert [decode_record(record).body for record in real.delivered()] == [b"user"]
    assert is_sound(tmp_path / "s")


def slow(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, clock: FakeClock, took_ms: int
) -> None:
    """Makes each call of a coroutine function take so long, by a clock that nothing else moves."""
    call = getattr(owner, name)

    async def called(*arguments: Any) -> Any:
        result = await call(*arguments)
        clock.advance(took_ms)
        return result

    monkeypatch.setattr(owner, name, called)


SETTLED = 12
"""Leases of the tests of a slow stop."""


@pytest.mark.parametrize(("left_ms", "ended"), [(1, 1), (0, 0)])
async def test_nothing_is_looked_at_once_the_time_of_a_stop_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left_ms: int, ended: int
) -> None:
    async with handing_over(tmp_path / "s") as desk:
        await desk.desk.send("a")
        await desk.desk.ack(await desk.desk.receive(invisible_ms=LONG_MS))
        await desk.pass_time(500)
        until_ms = desk.clock.monotonic_ms() + left_ms
        store, read_ms = desk.desk.store, second_of(desk.clock.wall_ms())
        found = await end_settled(store, desk.timer._putting, read_ms, until_ms)
        assert found == ended
        assert [one.message for one in caplog.records].count("stop.shortened") == 1 - ended


async def test_a_stop_looks_at_settled_leases_for_a_second_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timer_handing_over, "LOOK_MAX", 1)
    clock = FakeClock()
    async with handing_over(tmp_path / "s", clock) as desk:
        for name in "abcdefghijkl":
            await desk.desk.send(name)
            await desk.desk.ack(await desk.desk.receive(invisible_ms=LONG_MS))
        await desk.pass_time(500)
        slow(monkeypatch, timer_handing_over, "_are_settled", clock, 200)
    assert [row.message for row in caplog.records].count("stop.shortened") == 1
    assert 0 < len(Real(tmp_path / "s").checkpoints()) < SETTLED
    monkeypatch.undo()
    async with handing_over(tmp_path / "s", clock) as later:
        assert not later.desk.in_flight
        await later.pass_time(LONG_MS + 1_000)
        assert bodies(await later.desk.receive()) == []
    assert Real(tmp_path / "s").checkpoints() == []
    assert is_sound(tmp_path / "s")


async def test_a_stop_writes_down_leases_for_a_second_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(revive, "CARRIED_MAX", 1)
    clock = FakeClock()
    async with handing_over(tmp_path / "s", clock) as desk:
        await desk.desk.send(*[f"{number}" for number in range(2 * SETTLED)])
        for _ in range(SETTLED):
            got = await desk.desk.receive(max_messages=2, invisible_ms=LONG_MS)
            await desk.consume.ack(GROUP, TOPIC, got.handles[:1])
        await desk.desk.settled()
        end = desk.desk.store.reading.queue_range(TIMER_TOPIC, 0)[1]
        slow(monkeypatch, revive.Reviving, "carry", clock, 200)
        desk.consume.drain()
        await desk.consume.close()
        await desk.desk.settled()
        written = desk.desk.store.reading.queue_range(TIMER_TOPIC, 0)[1] - end
        assert 0 < written < SETTLED
        assert [row.message for row in caplog.records].count("stop.shortened") == 1
    async with handing_over(tmp_path / "s", clock) as later:
        assert later.desk.in_flight == SETTLED
