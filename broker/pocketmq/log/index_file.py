"""One index file: a hash table on disk (layout in format/index_layout.py).

    header · slots · entries 1, 2, … index_count - 1

Invariants
    1. An entry's `previous` is smaller than its own number: chains end.
    2. Entries are in log order; undoing them from the newest restores every slot exactly.
    3. The header in memory equals the header in the map, except that its `index_count` is never 0.
Source: IndexFile.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.columns.heads import Numbers
from pocketmq.format.index_entries import (
    ENTRY_TYPE,
    LINKED_MAX,
    PACKED,
    link_entries,
    second_differences,
    unpacked,
)
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.index_links import chained, slots_of
from pocketmq.format.layout import is_zero
from pocketmq.model.errors import WrongFileSize

KEY_NAMES: Final = "maxHashSlotNum and maxIndexNum"
"""Settings that determine the length of index files, for error messages."""
ITEM_ALLOCATION_STEP: Final = 1024 * 1024
BROKEN: Final = -1
"""Value in place of a physical offset where a chain is damaged."""
FEW_ENTRIES: Final = 4_096 if isinstance(chained, BuiltinFunctionType) else 40
"""Number of entries below which a loop is faster than numpy; it depends on compilation."""


class IndexFile:
    """One index file; `make` or `load` maps it."""

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
        """Path of the file."""
        return self._file.path

    @property
    def is_full(self) -> bool:
        """Whether the file has no room for another entry."""
        return self.header.index_count >= self.geometry.entry_count_max

    @property
    def entry_count(self) -> int:
        """Number of the file's entries."""
        return self.header.index_count - 1

    # -- opening -------------------------------------------------------------------------------
    def make(self, disk: Disk, previous: IndexHeaderValues | None) -> None:
        """Creates the file.

        previous   header of the previous file, which is full; its end time and end offset become
                   this file's begin and end
        Errors     DiskFull, AllocationFailed; no file remains
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
        """Holds the file: it stays open until the caller releases the result, even if removed."""
        return self._file.hold()

    def wrong_size(self, found_bytes: int) -> WrongFileSize:
        """Returns the error for a file length that differs from the geometry's."""
        return WrongFileSize(
            path=str(self.path),
            expected_bytes=self.geometry.file_size,
            found_bytes=found_bytes,
            key_names=KEY_NAMES,
        )

    def load(self, *, read_only: bool = False) -> None:
        """Maps the file and reads its header.

        Errors   those of `MappedFile.open`
        """
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
        """Returns whether the header agrees with the first and last entry, and zeros follow.

        A torn write breaks this.
        """
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
    def put_all(self, entries: bytes) -> int:
        """Adds entries in log order until the file is full; returns how many were added.

        Shape    as in `Written.entries`
        Errors   DiskFull, AllocationFailed: no entry was added
        Cost     about 6 µs, and for each entry 0.04 µs if compiled, 1 µs if not compiled, or 0.1 µs
                 for at least FEW_ENTRIES entries
        Source   IndexFile.putKey
        """
        header = self.header
        assert header.index_count >= 1
        count = self.geometry.entry_count_max - header.index_count
        count = min(len(entries) // PACKED.size, count)
        if count <= 0:
            return 0
        self._file.allocate(self._position(header.index_count + count), ITEM_ALLOCATION_STEP)
        if count * PACKED.size < len(entries):
            entries = entries[: count * PACKED.size]
        if count < FEW_ENTRIES:
            self._put_few(entries)
        else:
            self._put_many(entries)
        self.is_dirty = True
        return count

    def _put_few(self, entries: bytes) -> None:
        assert self._slots is not None
        header, view, slot_count = self.header, self._file.view, self.geometry.slot_count
        number = header.index_count
        slots = np.frombuffer(slots_of(entries, slot_count), dtype=">i8")
        heads = self._slots[slots].tobytes()
        rows, numbers, used = chained(entries, heads, slot_count, number, header.begin_timestamp)
        position = self._position(number)
        view[position : position + len(rows)] = rows
        self._slots[slots] = np.frombuffer(numbers, dtype=">i4")  # Of equal slots the last counts.
        begin, begin_place = header.begin_timestamp, header.begin_physical_offset
        if number <= 1:
            _, begin_place, begin = PACKED.unpack_from(entries)
        _, end_place, end = PACKED.unpack_from(entries, len(entries) - PACKED.size)
        self._write_header(
            IndexHeaderValues(
                begin, end, begin_place, end_place, header.hash_slot_count + used,
                number + len(entries) // PACKED.size,
            )
        )  # fmt: skip

    def _put_many(self, entries: bytes) -> None:
        if self.header.index_count <= 1:
            # The first entry's time is relative to the inherited begin, which it then replaces.
            self._put_few(entries[: PACKED.size])
            entries = entries[PACKED.size :]
        columns = unpacked(entries)
        for begin in range(0, len(columns[0]), LINKED_MAX):
            part = slice(begin, begin + LINKED_MAX)
            self._put_linked(*(column[part] for column in columns))

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

    def truncate(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Removes the entries of records at or after a physical offset.

        time_of   returns the store time of a record by its physical offset
        """
        number = self._first_behind(physical_offset)
        if number < self.header.index_count:
            self._keep_below(number, time_of)

    def repair(self, physical_offset: int, time_of: Callable[[int], int]) -> None:
        """Keeps the entries of records below an offset, and adapts slots and header.

        Repairs a file of which a power cut kept some pages and lost others. The entries of records
        below the offset were durable; the rest of the file may be old or new.
        """
        end_time = self.header.end_timestamp
        self._keep_below(
            self._durable_end(physical_offset), lambda place: time_of(place) or end_time
        )

    def _keep_below(self, number: int, time_of: Callable[[int], int]) -> None:
        """Keeps the entries below a number, and adapts slots and header.

        Cost     some 20 ms for a million entries
        """
        assert self._slots is not None
        assert self._entries is not None
        self._file.allocate(self._position(number), ITEM_ALLOCATION_STEP)
        slots = np.zeros(self.geometry.slot_count, dtype=">i4")
        hashes = self._entries["hash"][1:number].astype(np.int64)
        slots[hashes % self.geometry.slot_count] = np.arange(1, number)
        if not np.array_equal(slots, self._slots):
            self._slots[:] = slots
        self._file.zero_from(self._position(number))
        header = self.header._replace(
            end_timestamp=0,
            end_physical_offset=0,
            hash_slot_count=int(np.count_nonzero(slots)),
            index_count=number,
        )
        if number > 1:
            begin, end = self.entry(1)[1], self.entry(number - 1)[1]
            header = header._replace(
                end_timestamp=time_of(end), begin_physical_offset=begin, end_physical_offset=end
            )
        self._write_header(header)
        self.is_dirty = True

    def _durable_end(self, physical_offset: int) -> int:
        assert self._entries is not None
        data_size = self._file.data_end() - self.geometry.entries_position
        entries = self._entries[1 : max(-(-data_size // ENTRY_SIZE), 1)]
        places = entries["physical"].astype(np.int64)
        is_end = (places >= physical_offset) | (np.diff(places, prepend=0) < 0)
        is_end |= (entries["hash"] == 0) & (entries["previous"] == 0) & (places == 0)
        return 1 + (int(is_end.argmax()) if is_end.any() else len(entries))

    def begins_below(self, physical_offset: int) -> bool:
        """Returns whether the first entry exists and refers to a record below a physical offset."""
        key_hash, place, _, previous = self.entry(1)
        return 0 <= place < physical_offset and any((key_hash, place, previous))

    def _write_header(self, header: IndexHeaderValues) -> None:
        HEADER.pack_into(self._file.view, 0, *header)
        self.header = header

    # -- reading -------------------------------------------------------------------------------
    def _position(self, number: int) -> int:
        return self.geometry.entries_position + ENTRY_SIZE * number

    def _slot_value(self, slot: int) -> int:
        position = HEADER_SIZE + SLOT_SIZE * slot
        return int.from_bytes(self._file.view[position : position + SLOT_SIZE], signed=True)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Returns (key hash, physical offset, second difference, previous) of an entry."""
        return ENTRY.unpack_from(self._file.view, self._position(number))

    def last_record_count(self) -> int:
        """Returns how many entries the last record has; 0 if the header is invalid."""
        if self.header.index_count > self.geometry.entry_count_max:
            return 0
        place, number = self.header.end_physical_offset, self.entry_count
        while number and self.entry(number)[1] == place:
            number -= 1
        return self.entry_count - number

    def last_place_below(self, physical_offset: int) -> int:
        """Returns the highest physical offset of an entry below an offset; -1 if there is none."""
        if self.header.begin_physical_offset >= physical_offset:
            return -1
        number = self._first_behind(physical_offset)
        return self.entry(number - 1)[1] if number > 1 else -1

    def _first_behind(self, physical_offset: int) -> int:
        entries = range(1, max(self.header.index_count, 1))
        return 1 + bisect_left(entries, physical_offset, key=lambda number: self.entry(number)[1])

    def walk(self, key_hash: int, below: int = 0) -> Iterator[tuple[int, int, int, bool]]:
        """Yields (entry number, physical offset, store time in ms, hash is equal), newest first.

        below   if above 0, the entry number at which an earlier walk ended, to continue after it
        An entry that is older than the first entry has the first entry's store time.
        A link that refers to no older entry of its slot is reported as physical offset BROKEN:
        damaged files must neither trap a reader in a loop nor seem complete.
        """
        upper = min(self.header.index_count, self.geometry.entry_count_max)
        slot_count = self.geometry.slot_count
        slot = key_hash % slot_count
        number = self._slot_value(slot)
        if below:
            upper, number = below, self.entry(below)[3] if 0 < below < upper else 0
        while 0 < number < upper:
            found, physical_offset, seconds, previous = self.entry(number)
            # The first entry's seconds count from the end of the file before.
            time_ms = self.header.begin_timestamp + (seconds * 1000 if number > 1 else 0)
            # An all-zero entry would hash to slot 0; only the first entry can consist of zeros.
            is_written = found > 0 or physical_offset or previous or number == 1
            if not is_written or found % slot_count != slot:
                physical_offset = BROKEN
            yield number, physical_offset, time_ms, found == key_hash
            upper, number = number, previous
        if number:
            yield upper, BROKEN, 0, False

    # -- closing -------------------------------------------------------------------------------
    def sync(self) -> None:
        """Makes entries durable; blocks."""
        self.is_dirty = False
        self._file.sync()

    def close(self) -> None:
        """Closes the file."""
        self._slots = self._entries = None
        self._file.close()

    def remove(self) -> None:
        """Closes and unlinks the file."""
        self.close()
        self._file.remove()
