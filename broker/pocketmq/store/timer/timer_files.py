"""The timer's files of an open store: wheel, log and durable progress.

    add ──► log ──► wheel          delivery ◄── chain of a slot ◄── wheel
             └────────┴── flush ──► timercheck

The first delayed message creates the files. Only the timer service uses them. The log contains the
units. The wheel is an index of the units and can be rebuilt.
Source: TimerMessageStore, TimerFlushService.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile, let_go
from pocketmq.format.names import TIMER_LOG_DIRECTORY, TIMER_WHEEL_FILE
from pocketmq.format.timer_layout import (
    LOG_UNIT_SIZE,
    LOG_UNIT_TYPE,
    NO_UNIT,
    PRECISION_MS,
    TimerProgress,
    Units,
    counts_of,
    due_times,
)
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.timer_log import TimerLog
from pocketmq.log.timer_wheel import KEY_NAMES, Slot, TimerWheel
from pocketmq.model.errors import NotAStore, StoreGap, WrongFileSize
from pocketmq.model.message import QueueKey
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.tables.timer_check import TimerCheck
from pocketmq.store.timer.recovery import FoundTimer, Kept, recover_files
from pocketmq.store.timer.wheel_clock import WheelClock

# -- ending units early ------------------------------------------------------------------------
_PREVIOUS_AT = 4
_WRITE_TIME_AT = 16
Numbers = NDArray[np.int64]


def end_units(log: TimerLog, wheel: TimerWheel, ended: Numbers, read_ms: int) -> set[MappedFile]:
    """Moves units to the slot before the next slot to read; returns the files that changed.

    ended    ascending positions of the units in the timer log
    read_ms  every slot before this time was delivered
    Cost     a pass over the timer log, and some 2 µs for each unit of a changed slot
    """
    past_ms = read_ms - PRECISION_MS
    slots_ms = _times_of(log, ended)
    places, times, previous, counts = _of_slots(log, slots_ms, past_ms)
    is_ended = np.isin(places, ended)
    times = np.where(is_ended, past_ms, times)
    order = np.lexsort((places, times))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = times[order][1:] != times[order][:-1]
    linked = np.full(len(places), NO_UNIT, np.int64)
    linked[order[1:]] = np.where(is_first[1:], NO_UNIT, places[order[:-1]])
    changed: set[MappedFile] = set()
    for number in np.flatnonzero(linked != previous).tolist():
        content = int(linked[number]).to_bytes(8, "big", signed=True)
        changed.add(log.overwrite(int(places[number]), _PREVIOUS_AT, content))
    past = past_ms.to_bytes(8, "big") + bytes(4)
    for place in places[is_ended].tolist():
        changed.add(log.overwrite(place, _WRITE_TIME_AT, past))
    _relink_wheel(wheel, times[order], places[order], counts[order])
    for time_ms in np.setdiff1d(slots_ms, times).tolist():
        wheel.replace(Slot(time_ms, NO_UNIT, NO_UNIT, 0))
    return changed


def _times_of(log: TimerLog, ended: Numbers) -> Numbers:
    times: list[Numbers] = []
    for places, units in log.beyond_damage(log.begin):
        times.append(due_times(units)[np.isin(places, ended)])
    return np.unique(np.concatenate([*times, np.empty(0, np.int64)]))


def _of_slots(
    log: TimerLog, times_ms: Numbers, past_ms: int
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Returns (position, time, previous, count) columns of all units of some slots."""
    wanted = np.append(times_ms, past_ms)
    columns: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
    for places, units in log.beyond_damage(log.begin):
        times = due_times(units)
        is_met = np.isin(times, wanted)
        found = units[is_met]
        previous = found["previous"].astype(np.int64)
        columns.append((places[is_met], times[is_met], previous, counts_of(found)))
    empty = np.empty(0, np.int64)
    columns.append((empty, empty, empty, empty))
    places, times, previous, counts = (np.concatenate(c) for c in zip(*columns, strict=True))
    return places, times, previous, counts


def _relink_wheel(wheel: TimerWheel, times: Numbers, places: Numbers, counts: Numbers) -> None:
    values, begins = np.unique(times, return_index=True)
    ends = np.append(begins[1:], len(times))
    for time_ms, begin, end in zip(values.tolist(), begins.tolist(), ends.tolist(), strict=True):
        count = int(counts[begin:end].sum())
        wheel.replace(Slot(time_ms, int(places[begin]), int(places[end - 1]), count))


# -- the files ---------------------------------------------------------------------------------
ASIDE: Final = "timerlog.aside"
_QUEUE_OFFSET: Final = 20

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def timer_files(
    parts: StoreComponents, check: TimerCheck, next_offsets: Mapping[QueueKey, int]
) -> "TimerFiles":
    """Returns the timer's files of a store; `next_offsets` has each queue's next offset."""
    settings = parts.settings
    return TimerFiles(
        parts.disk,
        settings.directory,
        parts.own_directory,
        parts.log,
        check,
        log_file_size_bytes=settings.timer_log_file_size_bytes,
        slot_count=settings.timer_slot_count,
        next_offsets=next_offsets,
    )


class TimerFiles:
    """Wheel and log of one store; `found` or `make` opens them.

    log_file_size_bytes, slot_count   sizes of new files; existing files keep their size
    """

    __slots__ = (
        "_check", "_commit_log", "_directory", "_disk", "_log_file_size_bytes", "_lowest",
        "_lowest_moved", "_next_offsets", "_own_directory", "_pool", "_slot_count", "clock", "log",
        "wheel",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        own_directory: Path,
        commit_log: CommitLog,
        check: TimerCheck,
        *,
        log_file_size_bytes: int,
        slot_count: int,
        next_offsets: Mapping[QueueKey, int],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._own_directory = own_directory
        self._commit_log = commit_log
        self._check = check
        self._log_file_size_bytes = log_file_size_bytes
        self._slot_count = slot_count
        self._next_offsets = next_offsets
        self._pool: ThreadPoolExecutor | None = None
        self._lowest = 0
        """Position in the timer log below which no message is pending."""
        self._lowest_moved = -1
        """Lowest physical offset of the messages that were moved to another slot; -1 if none."""
        self.clock: WheelClock | None = None
        """The wheel's clock, created by the first `observe_clock`."""
        self.log: TimerLog | None = None
        self.wheel: TimerWheel | None = None

    @property
    def are_open(self) -> bool:
        """Whether the files exist and are open."""
        return self.wheel is not None

    @property
    def progress(self) -> TimerProgress:
        """The last saved progress."""
        return self._check.progress

    @property
    def next_offset(self) -> int:
        """The queue offset of the next delayed message."""
        return self._next_offsets.get((TIMER_TOPIC, 0), 0)

    def observe_clock(self, now: Now, last_ms: int = 0) -> bool:
        """Reads the clocks before a put of a delayed message; returns whether the lead changed.

        last_ms  at the first call, the store time of the log's last record
        Cost     about 1 µs
        """
        if self.clock is None:
            progress = self._check.progress
            least_ms = max(progress.wheel_ms, progress.read_ms)
            self.clock = WheelClock(
                progress.shifts, least_ms, now, progress.queue_offset, self.next_offset, last_ms
            )
            return self.clock.ahead_ms != progress.shifts[-1].ahead_ms
        return self.clock.look(now, self.next_offset)

    # -- opening -------------------------------------------------------------------------------
    async def found(self) -> FoundTimer:
        """Opens the existing files, and returns where the timer continues.

        Errors   DiskFull, ReadFailed, Corruption, StoreFailed
        """
        wheel_path = self._directory / TIMER_WHEEL_FILE
        has_log = bool(self._disk.names(self._directory / TIMER_LOG_DIRECTORY))
        progress = self._check.progress
        if not has_log and not self._disk.exists(wheel_path):
            is_lost = progress.log_flushed > 0
            why = f"{self._directory / TIMER_LOG_DIRECTORY} is gone" if is_lost else ""
            begin = 0 if is_lost else progress.queue_offset
            return FoundTimer(progress.read_ms, begin, progress.queue_offset, why)
        return await self._in_thread_of(self._open_found)

    async def make(self) -> None:
        """Creates and opens wheel and log unless they are open.

        Errors   DiskFull, AllocationFailed: there are no files
        """
        if not self.are_open:
            await self._in_thread_of(self._make)

    async def _in_thread_of(self, work: Callable[[], Result]) -> Result:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="timer-files")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _new_log(self) -> TimerLog:
        return TimerLog(
            self._disk, self._directory / TIMER_LOG_DIRECTORY, self._log_file_size_bytes
        )

    def _new_wheel(self) -> TimerWheel:
        path = self._directory / TIMER_WHEEL_FILE
        return TimerWheel(self._disk, path, precision_ms=PRECISION_MS, slot_count=self._slot_count)

    def _make(self) -> None:
        log, wheel = self._new_log(), self._new_wheel()
        wheel.make(self._own_directory)
        wheel.open()
        self.log, self.wheel = log, wheel

    def _open_found(self) -> FoundTimer:
        progress, why = self._check.progress, ""
        is_anew = False
        log, wheel = self._new_log(), self._new_wheel()
        try:
            log.load()
        except (NotAStore, StoreGap, WrongFileSize) as error:
            why, is_anew = str(error), True
            log.close()
            self._put_aside()
            log = self._new_log()
        size = wheel.found_size()
        if size != wheel.size_bytes or is_anew:
            if size not in (None, wheel.size_bytes):
                why = why or (
                    f"{wheel.path} has {size} bytes, not {wheel.size_bytes} ({KEY_NAMES})"
                )
            why = why or f"{wheel.path} is new"
            wheel.make(self._own_directory)
        wheel.open()

        def remake() -> None:
            wheel.close()
            wheel.make(self._own_directory)
            wheel.open()

        files = recover_files(log, wheel, progress, self._commit_log.appended, remake, why_new=why)
        self.log, self.wheel = log, wheel
        self._lowest = log.begin
        if files.rebuilt:
            logger.warning(
                "timer.rebuilt", extra={"path": str(wheel.path), "reason": files.rebuilt}
            )
        following = self._queue_offset_at(files.durable) + 1 if files.durable >= 0 else 0
        if files.is_whole and not is_anew:
            following = max(progress.queue_offset, following)
        kept = Kept()
        if len(files.behind):
            upto = self._queue_offset_at(int(files.behind.max())) + 1
            kept = Kept(np.unique(files.behind), upto)
        return FoundTimer(progress.read_ms, following, progress.queue_offset, files.rebuilt, kept)

    def _put_aside(self) -> None:
        aside = self._own_directory / ASIDE
        for name in self._disk.names(aside):
            self._disk.unlink(aside / name)
        if self._disk.exists(aside):
            self._disk.remove_directory(aside)
        self._disk.rename(self._directory / TIMER_LOG_DIRECTORY, aside)
        self._disk.sync_directory(self._directory)
        self._disk.sync_directory(self._own_directory)

    def _queue_offset_at(self, physical_offset: int) -> int:
        field = self._commit_log.read(physical_offset + _QUEUE_OFFSET, 8)
        return int.from_bytes(field) if len(field) == 8 else -1

    # -- pending messages --------------------------------------------------------------------
    def add(self, units: Units, *, is_move: bool = False) -> int:
        """Appends units to the log and links them into slots; returns the number of added units.

        Only units that fit the log's current file are added.

        Shape    all fields except size and previous are set
        Errors   DiskFull, AllocationFailed: nothing has changed
        Cost     some 60 µs, and 0.1 µs a unit
        """
        log, wheel = self.log, self.wheel
        assert log is not None
        assert wheel is not None
        assert units.dtype == LOG_UNIT_TYPE
        units = units[: log.room()]
        places, times = log.places(len(units)), due_times(units)
        units["size"] = LOG_UNIT_SIZE
        units["previous"] = wheel.before(times, places)
        log.append(units)
        wheel.add(times, places, counts_of(units))
        if is_move:
            self._note_moved(int(units["physical_offset"].min()))
        return len(units)

    def _note_moved(self, physical_offset: int) -> None:
        moved = self._lowest_moved
        self._lowest_moved = physical_offset if moved < 0 else min(physical_offset, moved)

    async def end(self, places: NDArray[np.int64], read_ms: int) -> None:
        """Ends pending messages, so that no broker delivers them; durable when it returns.

        places    ascending positions of their units in the timer log
        read_ms   every slot before this time was delivered
        Errors    DiskFull, StoreFailed
        Cost      a pass over the timer log
        """
        log, wheel = self.log, self.wheel
        assert log is not None
        assert wheel is not None
        held = [file.hold() for file in end_units(log, wheel, places, read_ms)]
        held.append(wheel.file.hold())
        await self._synced(held)

    def waiting(self, read_ms: int) -> Iterator[Units]:
        """Yields the units of pending messages in pieces: those due at `read_ms` or later.

        Called at a start. Also yields messages that were moved to other slots: their units follow
        the units of later messages.
        """
        highest = -1
        for _, units in self.log.beyond_damage(self._lowest) if self.log is not None else ():
            found = units[due_times(units) >= read_ms]
            if len(found):
                offsets = found["physical_offset"].astype(np.int64)
                reached = np.maximum.accumulate(np.append(highest, offsets))
                is_moved = offsets < reached[:-1]
                if is_moved.any():
                    self._note_moved(int(offsets[is_moved].min()))
                highest = int(reached[-1])
            yield found

    def lowest_message(self, read_ms: int) -> int | None:
        """Returns a physical offset below which no message is pending; None if none is pending.

        Cost     some 10 ns for each unit read for the first time
        """
        log = self.log
        if log is None:
            return None
        for places, units in log.beyond_damage(self._lowest):
            waits = np.flatnonzero(due_times(units) >= read_ms)
            if len(waits):
                number = int(waits[0])
                self._lowest = int(places[number])
                lowest = int(units["physical_offset"][number])
                return lowest if self._lowest_moved < 0 else min(lowest, self._lowest_moved)
            if len(units):
                self._lowest = log.behind(int(places[-1]) + LOG_UNIT_SIZE)
        self._lowest_moved = -1
        return None

    # -- durability ----------------------------------------------------------------------------
    async def flush(self) -> int:
        """Makes log and wheel durable; returns the end of the durable timer log.

        Errors   FsyncFailed
        """
        log, wheel = self.log, self.wheel
        if log is None or wheel is None:
            return 0
        end = log.end
        held = [file.hold() for file in log.dirty_files(self._check.progress.log_flushed)]
        held.append(wheel.file.hold())
        await self._synced(held)
        return end

    async def _synced(self, held: list[MappedFile]) -> None:

        def sync() -> None:
            for file in held:
                file.sync()

        try:
            await self._in_thread_of(sync)
        finally:
            let_go(held)

    async def write_down(self, progress: TimerProgress) -> None:
        """Saves the timer's progress, which must cover only durable data.

        Effects  removes files of the timer log that end before all pending units
        Errors   DiskFull, StoreFailed
        """
        await self._check.put(progress)
        log = self.log
        if log is not None:
            log.drop_before(min(self._lowest, progress.log_flushed))

    def close(self) -> None:
        """Closes the files, and ends the thread."""
        if self._pool is not None:
            self._pool.shutdown()
        if self.wheel is not None:
            self.wheel.close()
        if self.log is not None:
            self.log.close()
