"""The timer wheel: for each second of two weeks, the chain of messages due in it.

    time ──► slot (time / precision) mod slot count ──► first, last: positions in the timer log

A slot contains its time; for any other time it counts as empty. A slot keeps its link to delivered
messages until another time needs the slot. The wheel is only an index of the timer log.
Source: TimerWheel.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.timer_layout import (
    NO_UNIT,
    SLOT_COUNT,
    SLOT_SIZE,
    SLOT_TYPE,
    link_slots,
    previous_units,
)

DRAFT_NAME: Final = "timerwheel.draft"
KEY_NAMES: Final = "it has 32 bytes for each second of two weeks"
TIME_MAX_MS: Final = 2**62
SEARCH_STEP: Final = 8_192
"""Upper limit of slots that one search for the next used slot examines."""
Numbers = NDArray[np.int64]


class Slot(NamedTuple):
    """The messages due in one second: its time in ms, its chain in the timer log, their count."""

    time_ms: int
    first: int
    last: int
    message_count: int


class TimerWheel:
    """The wheel of one store. Times are ms above 0, and multiples of the precision."""

    __slots__ = ("_disk", "_file", "_precision_ms", "_slots", "path", "slot_count")

    def __init__(
        self, disk: Disk, path: Path, *, precision_ms: int, slot_count: int = SLOT_COUNT
    ) -> None:
        assert precision_ms > 0
        self._disk = disk
        self.path = path
        self.slot_count = slot_count
        self._precision_ms = precision_ms
        self._file: MappedFile | None = None
        self._slots: NDArray[Any] = np.empty(0, SLOT_TYPE)

    @property
    def size_bytes(self) -> int:
        """Length of the wheel's file."""
        return self.slot_count * SLOT_SIZE

    @property
    def span_ms(self) -> int:
        """Smallest difference of two times that share a slot, ms."""
        return self.slot_count * self._precision_ms

    # -- its file ------------------------------------------------------------------------------
    def make(self, own_directory: Path) -> None:
        """Creates an empty wheel, which replaces an existing one; blocks some 50 ms.

        Errors   DiskFull, AllocationFailed: the old file is removed
        """
        self._disk.unlink(self.path)
        draft = own_directory / DRAFT_NAME
        self._disk.close(self._disk.make_allocated_file(draft, self.path, self.size_bytes))

    def found_size(self) -> int | None:
        """Returns the length of the existing file; None if there is none."""
        return self._disk.file_size(self.path) if self._disk.exists(self.path) else None

    def open(self) -> None:
        """Maps the file, whose length must be right.

        Errors   ReadFailed, Corruption; DiskFull: blocks could not be allocated for the whole file
        """
        assert self._file is None
        file = MappedFile(self._disk, self.path, 0, self.size_bytes).open()
        try:
            file.allocate(file.size, file.size)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._slots = np.frombuffer(file.view, SLOT_TYPE)

    @property
    def file(self) -> MappedFile:
        """The mapped file."""
        assert self._file is not None
        return self._file

    def close(self) -> None:
        """Closes the file."""
        self._slots = np.empty(0, SLOT_TYPE)
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # -- slots ---------------------------------------------------------------------------------
    def slot(self, time_ms: int) -> Slot | None:
        """Returns the slot of a time; None if no message is due at that time."""
        number = time_ms // self._precision_ms
        found, first, last, count, _ = self._slots[number % self.slot_count].item()
        return Slot(time_ms, first, last, count) if found == number and last >= 0 else None

    def next_used(self, begin_ms: int, end_ms: int) -> int:
        """Returns the first time of [begin, end) with a used slot, else `end`.

        Cost     some 10 ns a slot; after `SEARCH_STEP` slots without a used one, the search ends
                 and returns the time after them
        """
        begin, end = begin_ms // self._precision_ms, end_ms // self._precision_ms
        upper = min(end, begin + SEARCH_STEP)
        numbers = np.arange(begin, upper)
        slots = self._slots[numbers % self.slot_count]
        used = (slots["time"] == numbers) & (slots["last"] >= 0)
        if used.any():
            upper = begin + int(used.argmax())
        return upper * self._precision_ms if upper < end else end_ms

    def used_from(self, begin_ms: int) -> Numbers:
        """Returns all times from `begin_ms` on that have a used slot, ascending."""
        slots = self._slots
        begin = max(begin_ms // self._precision_ms, 1)
        numbers = np.flatnonzero((slots["time"] >= begin) & (slots["last"] >= 0))
        numbers = numbers[slots["time"][numbers] % self.slot_count == numbers]
        times: Numbers = np.sort(slots["time"][numbers].astype(np.int64)) * self._precision_ms
        return times

    def waiting_count(self, begin_ms: int, end_ms: int = TIME_MAX_MS) -> int:
        """Returns the number of messages due in [begin, end), according to the counts of slots."""
        slots = self._slots
        begin, end = max(begin_ms // self._precision_ms, 1), end_ms // self._precision_ms
        used = (slots["time"] >= begin) & (slots["time"] < end) & (slots["last"] >= 0)
        return int(slots["count"][used].sum(dtype=np.int64))

    def counts_until(self, begin_ms: int, ends_ms: list[int]) -> list[int]:
        """Returns the number of messages due in [begin, end), for each of several ascending ends.

        Shape    ends_ms is not empty
        Cost     some 20 ns a slot up to the last end
        """
        begin, last = begin_ms // self._precision_ms, ends_ms[-1] // self._precision_ms
        # A closed wheel has no slots: metrics may be read after the store was closed.
        numbers = np.arange(begin, max(min(last, begin + len(self._slots)), begin))
        slots = self._slots[numbers % self.slot_count]
        is_used = (slots["time"] == numbers) & (slots["last"] >= 0)
        upto = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(np.where(is_used, slots["count"], 0), dtype=np.int64, out=upto[1:])
        ends = np.array(ends_ms, np.int64) // self._precision_ms - begin
        found: list[int] = upto[np.clip(ends, 0, len(numbers))].tolist()
        return found

    def highest_last(self, begin_ms: int) -> int:
        """Returns the highest `last` position of slots from a time on; NO_UNIT if none is used."""
        is_later = self._slots["time"] >= max(begin_ms // self._precision_ms, 1)
        return int(self._slots["last"][is_later].max(initial=NO_UNIT))

    def before(self, times_ms: Numbers, places: Numbers) -> Numbers:
        """Returns the `previous` of units to be added; changes nothing.

        Shape    positions are ascending
        """
        return previous_units(self._slots, times_ms // self._precision_ms, places)

    def add(self, times_ms: Numbers, places: Numbers, counts: Numbers) -> None:
        """Links slots to units appended after all others; each count is 1 or -1."""
        link_slots(self._slots, times_ms // self._precision_ms, places, counts)

    def revise(self, times_ms: Numbers, places: Numbers, counts: Numbers, begin: int) -> None:
        """Links slots to units that a start found in the log, from position `begin` on.

        A slot may already link some of these units. It then links the newest one, and only units
        that it did not count are added to its count.
        """
        link_slots(self._slots, times_ms // self._precision_ms, places, counts, begin)

    def replace(self, slot: Slot) -> None:
        """Replaces the slot of a time; if `last` is NO_UNIT, the slot becomes empty."""
        number = slot.time_ms // self._precision_ms
        at = number % self.slot_count
        if slot.last < 0:
            self._slots[at] = np.zeros(1, SLOT_TYPE)[0]
        else:
            self._slots[at] = (number, slot.first, slot.last, slot.message_count, 0)

    def clear(self) -> None:
        """Empties all slots."""
        self._slots[:] = np.zeros(self.slot_count, SLOT_TYPE)
