"""Verifies index files, first each file by itself, then all of them against the log.

In each file, the entries of a slot must be linked, header and entries must agree, and only zeros
may follow the last entry. Against the log, every key of every record must have exactly one entry,
and no other entries may exist. Entries are in log order, so index and log are read in parallel.
A broker that dispatched records twice leaves entries out of order; these are sorted separately.

The header's hash_slot_count is not checked: old versions counted it differently, and no version
reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.index_entries import ENTRY_TYPE, link_entries, second_differences
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.names import is_index_file_name
from pocketmq.model.message import OFFSET_MAX
from pocketmq.tools.verify.collector import Collector
from pocketmq.tools.verify.doubts import OTHER_KEYS

BLOCK: Final = 500_000
"""Number of entries in one block."""
ZERO_BLOCK: Final = 4 * 1024 * 1024
_PLACE_TYPE: Final = np.dtype(
    [("physical", "<i8"), ("hash", "<i4"), ("second", "<i4"), ("file", "<i4"), ("number", "<i4")]
)
"""An entry with its file and its number in the file."""


@dataclass(slots=True)
class OpenIndexFile:
    """One mapped index file.

    count          number of entries; the first entry has number 1
    inherited_ms   end timestamp of the previous file
    is_growing     whether a broker may be writing the file: header, slots and the bytes after entry
                   `count` may already belong to later entries, and are not checked
    """

    path: Path
    geometry: IndexGeometry
    collector: Collector
    header: IndexHeaderValues
    entries: NDArray[Any]
    slots: NDArray[Any]
    octets: NDArray[np.uint8]
    inherited_ms: int
    count: int
    is_growing: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the file is full, so that another file follows."""
        return self.header.index_count >= self.geometry.entry_count_max

    def tell(self, kind: str, position: int, expected: str, found: str) -> None:
        """Reports a fault at a byte of the file."""
        self.collector.add(kind, self.path, position, expected=expected, found=found)

    def tell_entry(self, kind: str, number: int, expected: str, found: str) -> None:
        """Reports a fault of an entry."""
        self.tell(kind, self.geometry.entries_position + ENTRY_SIZE * number, expected, found)

    # -- within the file -----------------------------------------------------------------------
    def check(self, *, is_newest: bool) -> None:
        """Verifies the file without the log.

        is_newest   whether no file follows
        Cost        0.1 µs an entry, 10 ms for five million slots
        """
        count, full = self.header.index_count, self.geometry.entry_count_max
        if not 1 <= count <= full:
            self.tell("index_count", 36, f"1 to {full}", str(count))
        if not is_newest and count != full:
            self.tell("index_count", 36, f"{full}, as another file follows", str(count))
        self._check_chains()
        if self.is_growing:
            return
        self._check_zeros()
        if self.count:
            first, last = (int(self.entries["physical"][n]) for n in (1, self.count))
            self.check_header(16, "offset", self.header.begin_physical_offset, first)
            self.check_header(24, "offset", self.header.end_physical_offset, last)

    def check_header(self, position: int, what: str, found: int, expected: int) -> None:
        """Compares a field of the header."""
        if found != expected:
            self.tell("index_header", position, f"{what} {expected}", f"{what} {found}")

    def _check_chains(self) -> None:
        table = np.zeros(self.geometry.slot_count, dtype=np.int32)
        for number, block in self.blocks():
            hashes = block["hash"].astype(np.int64)
            is_negative = hashes < 0
            previous, _ = link_entries(np.where(is_negative, 0, hashes), table, number)
            found = block["previous"].astype(np.int64)
            for at in np.flatnonzero(is_negative | (previous != found)).tolist():
                self.tell_entry(
                    "index_chain", number + at, f"previous {int(previous[at])}",
                    f"hash {int(hashes[at])}, previous {int(found[at])}",
                )  # fmt: skip
        for slot in () if self.is_growing else np.flatnonzero(table != self.slots).tolist():
            position = HEADER_SIZE + SLOT_SIZE * slot
            self.tell("index_slot", position, str(int(table[slot])), str(int(self.slots[slot])))

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yields all entries in blocks: (number of the block's first entry, entries)."""
        for number in range(1, self.count + 1, BLOCK):
            yield number, self.entries[number : min(number + BLOCK, self.count + 1)]

    def _check_zeros(self) -> None:
        begin = self.geometry.entries_position
        behind = begin + ENTRY_SIZE * (self.count + 1)
        for lower, upper in ((begin, begin + ENTRY_SIZE), (behind, len(self.octets))):
            for position in range(lower, upper, ZERO_BLOCK):
                part = self.octets[position : min(position + ZERO_BLOCK, upper)]
                if part.any():
                    first = int(np.flatnonzero(part)[0])
                    self.tell(
                        "index_unused", position + first, "zeros", f"0x{int(part[first]):02X}"
                    )


def open_index_files(
    directory: Path, geometry: IndexGeometry, collector: Collector
) -> list[OpenIndexFile]:
    """Maps all files of an index; reports files with another name or size instead."""
    opened: list[OpenIndexFile] = []
    inherited_ms = 0
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        size = path.stat().st_size
        if not is_index_file_name(path.name):
            collector.add("stray_file", path, 0, expected="an index file", found="another name")
        elif size != geometry.file_size:
            expected = f"{geometry.file_size} bytes"
            collector.add("file_size", path, 0, expected=expected, found=f"{size} bytes")
        else:
            file = _open(path, geometry, collector, inherited_ms)
            inherited_ms = max(file.header.end_timestamp, 0)
            opened.append(file)
    return opened


def _open(
    path: Path, geometry: IndexGeometry, collector: Collector, inherited_ms: int
) -> OpenIndexFile:
    octets: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
    header = IndexHeaderValues(*HEADER.unpack(octets[:HEADER_SIZE].tobytes()))
    count = min(max(header.index_count, 1), geometry.entry_count_max) - 1
    return OpenIndexFile(
        path=path,
        geometry=geometry,
        collector=collector,
        header=header,
        entries=np.ndarray(geometry.entry_count_max, ENTRY_TYPE, octets, geometry.entries_position),
        slots=np.ndarray(geometry.slot_count, ">i4", octets, HEADER_SIZE),
        octets=octets,
        inherited_ms=inherited_ms,
        count=count,
    )


class IndexCheck:
    """Compares the entries that the log requires with those in the files.

    may_end   whether records after the newest entry may have no entries: another broker may have
              been configured not to index
    """

    __slots__ = (
        "_block",
        "_collector",
        "_dangling",
        "_directory",
        "_files",
        "_lacking",
        "_late",
        "_log_begin",
        "_main",
        "_repeated_count",
        "_unindexed_count",
        "_unindexed_from",
        "doubted",
        "entries",
    )  # fmt: skip

    def __init__(
        self, directory: Path, files: Sequence[OpenIndexFile], collector: Collector, *,
        log_begin: int, log_end: int, may_end: bool = False,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._files = files
        self._collector = collector
        self._log_begin = log_begin
        self._unindexed_from = _open_end(files) if may_end else OFFSET_MAX
        self._unindexed_count = 0
        self._repeated_count = 0
        self.entries = 0
        self._dangling: list[Any] = []
        self._lacking: set[int] = set()
        self.doubted: set[int] = set()
        """Physical offsets of records whose entries have other hashes."""
        self._late = self._out_of_order(log_end)
        self._main = self._in_order()
        self._block = np.zeros(0, dtype=_PLACE_TYPE)

    def _blocks(self) -> Iterator[NDArray[Any]]:
        for file_number, file in enumerate(self._files):
            for number, block in file.blocks():
                rows = np.zeros(len(block), dtype=_PLACE_TYPE)
                rows["physical"], rows["hash"] = block["physical"], block["hash"]
                rows["second"], rows["file"] = block["second"], file_number
                rows["number"] = np.arange(number, number + len(block))
                yield rows

    def _out_of_order(self, log_end: int) -> NDArray[Any]:
        """Returns entries that follow an entry of a later record, or refer to no offset of the log.

        The entries are sorted by physical offset.
        """
        highest, late = -1, [np.zeros(0, dtype=_PLACE_TYPE)]
        for rows in self._blocks():
            places = rows["physical"]
            is_wild = (places < 0) | (places >= log_end)
            kept = np.where(is_wild, -1, places)
            before = np.maximum.accumulate(np.concatenate(([highest], kept)))
            highest = int(before[-1])
            late.append(rows[(kept < before[:-1]) | is_wild])
        found = np.concatenate(late)
        return found[np.argsort(found["physical"], kind="stable")]

    def _in_order(self) -> Iterator[NDArray[Any]]:
        late = set(zip(self._late["file"].tolist(), self._late["number"].tolist(), strict=True))
        for rows in self._blocks():
            if late:
                both = zip(rows["file"].tolist(), rows["number"].tolist(), strict=True)
                rows = rows[[pair not in late for pair in both]]
            yield rows

    def take(self, wanted: NDArray[np.void]) -> None:
        """Compares the required entries of the next records with the files.

        wanted   rows of `columns.records.ENTRY_TYPE`
        """
        self.entries += len(wanted) if self._files else 0
        upper = int(wanted["physical_offset"][-1])
        there = self._upto(upper)
        if len(there) == len(wanted) and self._agrees(wanted, there):
            return
        self._compare(wanted, there)

    def _upto(self, place: int) -> NDArray[Any]:
        """Returns, in log order, the next entries of records up to a physical offset."""
        parts = []
        while True:
            end = int(np.searchsorted(self._block["physical"], place, side="right"))
            parts.append(self._block[:end])
            self._block = self._block[end:]
            if len(self._block):
                break
            following = next(self._main, None)
            if following is None:
                break
            self._block = following
        end = int(np.searchsorted(self._late["physical"], place, side="right"))
        late, self._late = self._late[:end], self._late[end:]
        found = np.concatenate([*parts, late])
        assert int(found["physical"].max(initial=place)) <= place
        return found[np.argsort(found["physical"], kind="stable")] if len(late) else found

    def _agrees(self, wanted: NDArray[Any], there: NDArray[Any]) -> bool:
        if not (
            np.array_equal(wanted["physical_offset"], there["physical"])
            and np.array_equal(wanted["hash"], there["hash"])
        ):
            return False
        self._check_seconds(there, wanted["time_ms"])
        return True

    def _check_seconds(self, there: NDArray[Any], times_ms: NDArray[Any]) -> None:
        for file_number in np.unique(there["file"]).tolist():
            file = self._files[file_number]
            mine = np.flatnonzero(there["file"] == file_number)
            rows, times = there[mine], times_ms[mine].astype(np.int64)
            expected = second_differences(times, file.header.begin_timestamp)
            is_first = rows["number"] == 1
            expected[is_first] = second_differences(times[is_first], file.inherited_ms)
            for at in np.flatnonzero(expected != rows["second"]).tolist():
                self._report_entry(
                    "index_time", rows[at], f"{int(expected[at])} s", f"{int(rows['second'][at])} s"
                )
            self._check_header_times(file, rows, times)

    def _check_header_times(
        self, file: OpenIndexFile, rows: NDArray[Any], times_ms: NDArray[Any]
    ) -> None:
        header = file.header
        for number, position, found in (
            (1, 0, header.begin_timestamp),
            (file.count, 8, header.end_timestamp),
        ):
            for at in () if file.is_growing else np.flatnonzero(rows["number"] == number).tolist():
                file.check_header(position, "time", found, int(times_ms[at]))

    def _compare(self, wanted: NDArray[Any], there: NDArray[Any]) -> None:
        """Pairs required and found entries by record and hash; reports unpaired entries."""
        left: dict[tuple[int, int], list[Any]] = {}
        for row in there:
            left.setdefault((int(row["physical"]), int(row["hash"])), []).append(row)
        pairs, times = [], []
        for key_hash, place, time_ms in wanted.tolist():
            rows = left.get((place, key_hash))
            if rows:
                pairs.append(rows.pop(0))
                times.append(time_ms)
            else:
                self._missing(place, key_hash)
        if pairs:
            self._check_seconds(np.array(pairs, dtype=_PLACE_TYPE), np.array(times, dtype=np.int64))
        asked = {(place, key_hash) for key_hash, place, _ in wanted.tolist()}
        for key, rows in left.items():
            if key in asked:
                self._repeated_count += len(rows)
            else:
                self._dangling += rows

    def _missing(self, place: int, key_hash: int) -> None:
        if place > self._unindexed_from:
            self._unindexed_count += 1
            return
        if self._collector.is_unbuilt(place):
            return
        path = self._directory
        for file in self._files:
            if file.header.begin_physical_offset <= place <= file.header.end_physical_offset:
                path = file.path
        if self._lacks_file(place):
            self._collector.add_absent(self._directory, "entries of the log", 1)
            return
        self._lacking.add(place)
        self._collector.add(
            "missing_key", path, 0, expected=f"hash {key_hash} of record {place}", found="nothing"
        )

    def _lacks_file(self, place: int) -> bool:
        """Returns whether the entries of a record, which are in no file, were in a missing file.

        The missing file followed a full file, or was the first file.
        """
        before = [file for file in self._files if file.header.end_physical_offset <= place]
        behind = self._files[len(before) :]
        is_between = not behind or behind[0].header.begin_physical_offset >= place
        return is_between and all(file.is_full for file in before)

    def _report_surplus(self, kind: str, row: Any) -> None:
        self._report_entry(
            kind, row, "nothing", f"hash {int(row['hash'])}, record {int(row['physical'])}"
        )

    def _report_entry(self, kind: str, row: Any, expected: str, found: str) -> None:
        self._files[int(row["file"])].tell_entry(kind, int(row["number"]), expected, found)

    def finish(self, holes: Sequence[tuple[int, int]], upto: int) -> None:
        """Reports entries without a record.

        Entries of damaged records, of deleted records, and of records from `upto` on are ignored.
        """
        rest = np.concatenate([self._block, *self._main, self._late])
        for row in (*self._dangling, *rest):
            place = int(row["physical"])
            in_hole = any(begin <= place < end for begin, end in holes)
            is_old = 0 <= place < self._log_begin  # Retention deleted the entry's record.
            if not in_hole and not is_old and place < upto:
                self._report_surplus("dangling_entry", row)
                self.doubted.add(place)  # `doubts_of` leaves out places without a record.
                if place in self._lacking:
                    self._collector.remark(OTHER_KEYS)
        self._tell_unindexed(has_holes=bool(holes))
        if self._repeated_count:
            self._collector.remark(
                f"{self._repeated_count} index entries exist twice: a start after a crash "
                "dispatched their records again; a search shows each message once"
            )

    def _tell_unindexed(self, *, has_holes: bool) -> None:
        """Reports records after the newest entry that have no entries.

        If the log has holes, such records are reported as a fault: a start may have skipped them
        after damage. Otherwise they are reported as a note.
        """
        count, place = self._unindexed_count, self._unindexed_from
        if count and has_holes:
            path = self._files[-1].path if self._files else self._directory
            expected = f"entries of records after {place}"
            self._collector.add(
                "missing_key", path, 0, expected=expected, found="nothing", count=count
            )
        elif count and not self._files:
            self._collector.remark(
                "there is no index: nothing is found by key (messageIndexEnable=false?)"
            )
        elif count:
            self._collector.remark(
                f"records after {place} have no index entries ({count}): nothing finds them by "
                "key (messageIndexEnable=false?)"
            )


def _open_end(files: Sequence[OpenIndexFile]) -> int:
    """Returns the physical offset of the last record in the newest file.

    Returns OFFSET_MAX if that file is full or has no entries, and -1 if there are no files.
    """
    if not files:
        return -1
    newest = files[-1]
    return OFFSET_MAX if newest.is_full or not newest.count else newest.header.end_physical_offset
