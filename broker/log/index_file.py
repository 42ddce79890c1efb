"""One index file: a hash table on disk (layout in format/index_layout.py).

    header · slots · entries 1, 2, … index_count - 1

Invariants
    1. An entry's `previous` is smaller than its own number: chains end.
    2. Entries lie in log order; undoing them from the newest restores every slot exactly.
    3. The header in memory is the header in the map.
Source: IndexFile.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.format.buffers import is_zero
from broker.format.index_chain import (
    ENTRY_TYPE,
    LINKED_MAX,
    link_entries,
    second_differences,
)
from broker.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeaderValues,
    second_difference,
)

ITEM_ALLOCATION_STEP: Final = 1024 * 1024
_SMALL: Final = 40
"""Below this many entries plain Python is quicker than numpy."""

Numbers = NDArray[np.int64]


class IndexFile:
    """A hash table of one file; the map is opened when first needed."""

    __slots__ = ("_entries", "_file", "_slots", "geometry", "header", "is_dirty")

    def __init__(self, disk: Disk, path: Path, geometry: IndexGeometry) -> None:
        self.geometry = geometry
        self._file = MappedFile(disk, path, 0, geometry.file_size)
        self._slots: NDArray[Any] | None = None
        self._entries: NDArray[Any] | None = None
        self.header = IndexHeaderValues()
        self.is_dirty = False

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._file.path

    @property
    def is_full(self) -> bool:
        """Whether the next entry goes to another file."""
        return self.header.index_count >= self.geometry.entry_count_max

    @property
    def entry_count(self) -> int:
        """Entries it holds."""
        return self.header.index_count - 1

    # -- opening -------------------------------------------------------------------------------
    def make(self, disk: Disk, previous: IndexHeaderValues | None) -> None:
        """Make the file on disk; a file behind a full one inherits its end.

        Errors   DiskFull, AllocationFailed; nothing stays behind
        Source   IndexService.getAndCreateLastIndexFile
        """
        self._file.adopt(disk.make_sparse_file(self.path, self.geometry.file_size))
        try:
            self._file.allocate(self.geometry.entries_position, self.geometry.entries_position)
        except BaseException:
            self._file.remove()
            raise
        if previous is not None:
            time = max(previous.end_timestamp, 0)
            place = max(previous.end_physical_offset, 0)
            self._write_header(IndexHeaderValues(time, time, place, place))
        self._bind()

    def hold(self) -> MappedFile:
        """Keep the file open until the one returned is let go, whatever becomes of it."""
        return self._file.hold()

    def load(self, *, read_only: bool = False) -> None:
        """Map the file and read its header."""
        self._file.open(read_only=read_only)
        header = IndexHeaderValues(*HEADER.unpack_from(self._file.view, 0))
        self.header = header._replace(index_count=max(header.index_count, 1))
        self._bind()

    def _bind(self) -> None:
        view, geometry = self._file.view, self.geometry
        self._slots = np.frombuffer(
            view, dtype=">i4", count=geometry.slot_count, offset=HEADER_SIZE
        )
        self._entries = np.frombuffer(
            view,
            dtype=ENTRY_TYPE,
            count=geometry.entry_count_max,
            offset=geometry.entries_position,
        )

    def is_sound(self) -> bool:
        """Return whether header, first, last and next entry agree; what a torn write breaks."""
        header, view = self.header, self._file.view
        if not 1 <= header.index_count <= self.geometry.entry_count_max:
            return False
        if header.index_count < self.geometry.entry_count_max:
            following = self._position(header.index_count)
            if not is_zero(view, following, following + ENTRY_SIZE):
                return False
        if header.index_count == 1:
            return True
        first, last = self.entry(1), self.entry(header.index_count - 1)
        slot = self._slot_value(last[0] % self.geometry.slot_count)
        return (
            first[1] == header.begin_physical_offset
            and last[1] == header.end_physical_offset
            and slot == header.index_count - 1
        )

    # -- writing -------------------------------------------------------------------------------
    def put_all(self, hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> int:
        """Add entries, as many as fit; returns how many that were.

        Shape    three arrays of one length, in log order; hashes are not negative
        Errors   DiskFull, AllocationFailed: nothing was added
        Cost     about 0.1 µs an entry from some hundred on
        Source   IndexFile.putKey
        """
        count = min(len(hashes), self.geometry.entry_count_max - self.header.index_count)
        if count <= 0:
            return 0
        end = self._position(self.header.index_count + count)
        self._file.allocate(end, ITEM_ALLOCATION_STEP)
        if count < _SMALL:
            self._put_few(hashes[:count], physical_offsets[:count], times_ms[:count])
        else:
            self._put_many(hashes[:count], physical_offsets[:count], times_ms[:count])
        self.is_dirty = True
        return count

    def put(self, key_hash: int, physical_offset: int, time_ms: int) -> int:
        """Add one entry; see `put_all`."""
        one = [
            np.array([number], dtype=np.int64) for number in (key_hash, physical_offset, time_ms)
        ]
        return self.put_all(*one)

    def _put_few(self, hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> None:
        """Add entries one after the other, writing the header once."""
        header, view = self.header, self._file.view
        begin, number, used = header.begin_timestamp, header.index_count, header.hash_slot_count
        first, slot_count = number, self.geometry.slot_count
        position = self._position(number)
        pack_entry, pack_slot, unpack_slot = ENTRY.pack_into, SLOT.pack_into, SLOT.unpack_from
        columns = zip(hashes.tolist(), physical_offsets.tolist(), times_ms.tolist(), strict=True)
        for key_hash, physical_offset, time_ms in columns:
            slot_position = HEADER_SIZE + key_hash % slot_count * SLOT_SIZE
            (previous,) = unpack_slot(view, slot_position)
            if not 0 < previous <= number:
                previous = 0
                used += 1
            seconds = second_difference(time_ms, begin)
            pack_entry(view, position, key_hash, physical_offset, seconds, previous)
            pack_slot(view, slot_position, number)
            if number <= 1:
                begin = time_ms
            number += 1
            position += ENTRY_SIZE
        begin_place = int(physical_offsets[0]) if first <= 1 else header.begin_physical_offset
        end_time, end_place = int(times_ms[-1]), int(physical_offsets[-1])
        self._write_header(IndexHeaderValues(begin, end_time, begin_place, end_place, used, number))

    def _put_many(self, hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> None:
        if self.header.index_count <= 1:
            # The first entry's time counts from the inherited begin, which it then replaces.
            self._put_few(hashes[:1], physical_offsets[:1], times_ms[:1])
            hashes, physical_offsets, times_ms = hashes[1:], physical_offsets[1:], times_ms[1:]
        assert self._slots is not None
        assert self._entries is not None
        for begin in range(0, len(hashes), LINKED_MAX):
            part = slice(begin, begin + LINKED_MAX)
            self._put_linked(hashes[part], physical_offsets[part], times_ms[part])

    def _put_linked(self, hashes: Numbers, physical_offsets: Numbers, times_ms: Numbers) -> None:
        assert self._slots is not None
        assert self._entries is not None
        header, number, count = self.header, self.header.index_count, len(hashes)
        previous, used = link_entries(hashes, self._slots, number)
        entries = self._entries[number : number + count]
        entries["hash"], entries["physical"], entries["previous"] = (
            hashes,
            physical_offsets,
            previous,
        )
        entries["second"] = second_differences(times_ms, header.begin_timestamp)
        self._write_header(
            header._replace(
                end_timestamp=int(times_ms[-1]),
                end_physical_offset=int(physical_offsets[-1]),
                hash_slot_count=header.hash_slot_count + used,
                index_count=number + count,
            )
        )

    def undo_from(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Take back the entries of records at or behind a physical offset.

        `time_of` returns the store time of a record by its physical offset.
        """
        assert self._slots is not None
        header, view = self.header, self._file.view
        number, used = header.index_count, header.hash_slot_count
        while number > 1:
            key_hash, place, _, previous = self.entry(number - 1)
            if place < physical_offset:
                break
            number -= 1
            self._slots[key_hash % self.geometry.slot_count] = previous
            used -= 1 if previous == 0 else 0
            view[self._position(number) : self._position(number + 1)] = bytes(ENTRY_SIZE)
        if number == header.index_count:
            return
        place = self.entry(number - 1)[1] if number > 1 else 0
        time = time_of(place) if number > 1 else 0
        self._write_header(
            header._replace(
                end_timestamp=time,
                end_physical_offset=place,
                hash_slot_count=used,
                index_count=number,
            )
        )
        self.is_dirty = True

    def _write_header(self, header: IndexHeaderValues) -> None:
        HEADER.pack_into(self._file.view, 0, *header)
        self.header = header

    # -- reading -------------------------------------------------------------------------------
    def _position(self, number: int) -> int:
        return self.geometry.entries_position + ENTRY_SIZE * number

    def _slot_value(self, slot: int) -> int:
        position = HEADER_SIZE + SLOT_SIZE * slot
        value = int.from_bytes(self._file.view[position : position + SLOT_SIZE], signed=True)
        return value if 0 < value <= self.header.index_count else 0

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Return (key hash, physical offset, second difference, previous) of an entry."""
        return ENTRY.unpack_from(self._file.view, self._position(number))

    def last_record_count(self) -> int:
        """Return how many of the newest entries are of one record."""
        place, number = self.header.end_physical_offset, self.entry_count
        while number and self.entry(number)[1] == place:
            number -= 1
        return self.entry_count - number

    def last_place_below(self, physical_offset: int) -> int:
        """Return the record of the newest entry that lies below an offset, -1 without one."""
        if self.header.begin_physical_offset >= physical_offset:
            return -1
        for number in range(self.entry_count, 0, -1):
            place = self.entry(number)[1]
            if place < physical_offset:
                return place
        return -1

    def walk(self, key_hash: int, below: int = 0) -> Iterator[tuple[int, int, int, bool]]:
        """Yield (entry number, physical offset, store time in ms, hash is equal), newest first.

        `below` > 0 goes on behind an entry that an earlier walk ended at. A link that does not lead
        to an older entry ends the walk: damaged files must not hold a reader.
        """
        upper = min(self.header.index_count, self.geometry.entry_count_max)
        number = self._slot_value(key_hash % self.geometry.slot_count)
        if below:
            upper, number = below, self.entry(below)[3] if 0 < below < upper else 0
        while 0 < number < upper:
            found, physical_offset, seconds, previous = self.entry(number)
            time_ms = self.header.begin_timestamp + seconds * 1000
            yield number, physical_offset, time_ms, found == key_hash
            upper, number = number, previous

    # -- closing -------------------------------------------------------------------------------
    def sync(self) -> None:
        """Make entries durable; blocks."""
        self.is_dirty = False
        self._file.sync()

    def close(self) -> None:
        """Unmap the file."""
        self._slots = self._entries = None
        self._file.close()

    def remove(self) -> None:
        """Unmap the file and take its name away."""
        self.close()
        self._file.remove()
