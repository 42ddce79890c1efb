"""Finds the records of topics through their consume queues, without reading the rest of the log.

    log      ├── before the queues' first units ──┤── covered ──┤── not dispatched yet ──┤
                                                begin         upto

A task is a range of physical offsets and the queue files with units of that range. A worker finds
the units by bisection. It reads single records, or walks the log where most of it is wanted.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from pocketmq.backfill.arrow_views import QueueFile, find_index_files, find_queue_files
from pocketmq.backfill.log_walk import DamagedBytes, Stretch, walk
from pocketmq.backfill.queue_slice import QueueSlice
from pocketmq.backfill.row_filter import NUMBER_MAX, NUMBER_MIN, RowFilter
from pocketmq.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.format.columns.heads import BEHIND, FRONT, Heads, Numbers, read_heads
from pocketmq.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from pocketmq.format.names import ABORT_FILE
from pocketmq.format.record import RECORD_HEAD, SYSTEM_FLAG_POSITION, BadRecord, check_record
from pocketmq.model.message import FLAG_BORN_HOST_V6, QueueKey
from pocketmq.rebuild.log_files import CLOCK_STEP_MS, LogFile, bytes_at, may_hold
from pocketmq.rebuild.plan import Range

STEP_SIZE: Final = 256 * 1024 * 1024
"""Bytes of the log whose units are in memory at once."""
_ROOM: Final = 16 * 1024 * 1024
"""Bytes of single records that are read at once."""
_WALKED: Final = 8192
"""If records are wanted at closer intervals in bytes, the log is walked: single reads cost more."""
_QUEUE_OFFSET: Final = RECORD_HEAD.positions["queue_offset"]
_STORE_TIME: Final = RECORD_HEAD.positions["store_timestamp"]
_NUMBER_BYTES: Final = 8
_FLAG_BYTES: Final = 4
_LONGER: Final = IPV6_HOST_SIZE - IPV4_HOST_SIZE


class QueueRecords(NamedTuple):
    """A task: the records of queues whose physical offsets are in [begin, end).

    files   log files that overlap with the range
    times   least and largest store time (ms) that is wanted
    """

    files: list[LogFile]
    slices: list[QueueSlice]
    begin: int
    end: int
    times: tuple[int, int]

    def read(self, *, check_crc: bool) -> "Iterator[tuple[bytearray, Heads] | DamagedBytes]":
        """Yields records and their heads, among them some of other queues, and damage.

        Errors   OSError
        Cost     some 7 µs a record, or that of a walk where it is cheaper
        """
        for begin in range(self.begin, self.end, STEP_SIZE):
            units = self._units(begin, min(begin + STEP_SIZE, self.end))
            for file in self.files:
                inside = (units[0] >= file.base) & (units[0] < file.end)
                yield from self._of_file(file, units[:, inside], check_crc)

    def _units(self, begin: int, end: int) -> Numbers:
        """Returns physical offsets and sizes of wanted records, ascending."""
        found = [part.units(begin, end) for part in self.slices]
        places = np.concatenate([units["physical_offset"] for units in found]).astype(np.int64)
        sizes = np.concatenate([units["size"] for units in found]).astype(np.int64)
        places, first = np.unique(places, return_index=True)  # Several queues may have a record.
        kept = (places >= begin) & (places < end)
        return np.stack((places[kept], sizes[first][kept]))

    def _of_file(self, file: LogFile, units: Numbers, check_crc: bool) -> Iterator[Any]:
        units = self._timely(file, units)
        if not units.size:
            return
        places, sizes = units
        begin, end = int(places[0]), min(int(places[-1] + sizes[-1]), file.end)
        if len(places) * _WALKED > end - begin:
            dense = Stretch(Range(file, begin, end), 0, is_followed=True)
            for found in walk(dense, check_crc=check_crc):
                yield found if isinstance(found, DamagedBytes) else (found.buffer, found.heads)
            return
        lots = np.flatnonzero(np.diff(np.cumsum(sizes) // _ROOM)) + 1
        for part in np.split(units, lots, axis=1):
            yield from _records(file, *part.tolist(), check_crc=check_crc)

    def _timely(self, file: LogFile, units: Numbers) -> Numbers:
        """Leaves out units of times that are not wanted; times may step back as in `may_hold`."""
        least, largest = self.times
        if (least, largest) == (NUMBER_MIN, NUMBER_MAX) or not units.size:
            return units
        places = units[0].tolist()
        with Path(file.path).open("rb", buffering=0) as opened:
            descriptor = opened.fileno()

            def time_at(place: int) -> int:
                head = os.pread(descriptor, RECORD_HEAD.size + _LONGER, place - file.base)
                flags = int.from_bytes(head[SYSTEM_FLAG_POSITION:][:_FLAG_BYTES])
                at = _STORE_TIME + (_LONGER if flags & FLAG_BORN_HOST_V6 else 0)
                return _number(head[at : at + _NUMBER_BYTES])

            begin = bisect_left(places, least - CLOCK_STEP_MS, key=time_at)
            end = bisect_left(places, largest + 1 + CLOCK_STEP_MS, begin, key=time_at)
        return units[:, begin:end]


def _number(content: bytes) -> int:
    return int.from_bytes(content, signed=True)


def _records(
    file: LogFile, places: Sequence[int], sizes: Sequence[int], *, check_crc: bool
) -> Iterator[Any]:
    with Path(file.path).open("rb", buffering=0) as opened:
        descriptor = opened.fileno()
        records = [
            os.pread(descriptor, min(size, file.end - place), place - file.base)
            for place, size in zip(places, sizes, strict=True)
        ]
    reasons = [
        _fault(record, size, place, check_crc)
        for record, size, place in zip(records, sizes, places, strict=True)
    ]
    for place, reason in zip(places, reasons, strict=True):
        if reason:
            yield DamagedBytes(file.path, place - file.base, place, reason)
    sound = [record for record, reason in zip(records, reasons, strict=True) if not reason]
    if sound:
        buffer = bytearray(FRONT) + b"".join(sound) + bytes(BEHIND)
        begins = np.cumsum([FRONT, *map(len, sound)][:-1], dtype=np.int64)
        yield buffer, read_heads(buffer, begins)


def _fault(record: bytes, size: int, place: int, check_crc: bool) -> str:
    try:
        found = check_record(record, 0, place, crc=check_crc) if len(record) == size else -1
    except BadRecord as error:
        return str(error)
    return "" if found == size else f"no record of {size} bytes is here, as a consume queue says"


# -- planning ----------------------------------------------------------------------------------
def covered_upto(store: Path, files: Sequence[LogFile], *, is_open: bool) -> int:
    """Returns the physical offset below which the queues have a unit of every record.

    is_open   whether a process on this machine has the store open

    A store that was stopped in order is covered to its end. An open store is covered to the end of
    its index, because queues are dispatched before the index. After a kill nothing is covered until
    the next start has repaired the queues.
    """
    if not (store / ABORT_FILE).exists():
        return files[-1].end if files else 0
    paths = find_index_files(store) if is_open else []
    for path in reversed(paths):
        with Path(path).open("rb") as opened:
            content = opened.read(HEADER_SIZE).ljust(HEADER_SIZE, b"\0")
        header = IndexHeaderValues(*HEADER.unpack(content))
        if header.index_count > 1:
            return header.end_physical_offset
    return 0


class QueuePlan(NamedTuple):
    """Tasks that read records of [begin, upto); records before `begin` may have no units."""

    begin: int
    tasks: list[QueueRecords]


def plan_queue_records(
    store: Path, files: Sequence[LogFile], wanted: RowFilter, topics: Collection[str], workers: int
) -> QueuePlan | None:
    """Returns the tasks that read the records of topics below `covered_upto`.

    files     of the log
    workers   number of concurrent tasks
    Returns   None if the log has no file, or a topic has no queue: it may have been deleted
    Cost      a read of 20 bytes of each queue file of the topics, two more files of the log
    """
    queues: dict[QueueKey, list[QueueFile]] = {}
    for file in find_queue_files(store, topics):
        queues.setdefault((file.topic, file.queue_id), []).append(file)
    if {topic for topic, _ in queues} != set(topics) or not files:
        return None
    queues = {
        key: own for key, own in queues.items() if wanted.overlaps("queue_id", key[1], key[1])
    }
    least, largest = wanted.bound("physical_offset")
    first = max((_first_covered(own, files[0].base) for own in queues.values()), default=0)
    begin, end = max(least, first, files[0].base), min(largest, files[-1].end - 1) + 1
    slices = _slices(queues, files, wanted.bound("queue_offset"))
    step = max(STEP_SIZE // 4, -(-max(end - begin, 0) // (4 * workers)))
    times = wanted.bound("store_timestamp_ms")
    timely = _timely_files(files, times)
    tasks = []
    for low in range(begin, end, step):
        high = min(low + step, end)
        inside = [file for file in timely if file.base < high and file.end > low]
        own = [part for part, upto in slices if part.file.first_place < high and upto > low]
        if inside and own:
            tasks.append(QueueRecords(inside, own, low, high, times))
    return QueuePlan(first, tasks)


def _timely_files(files: Sequence[LogFile], times: tuple[int, int]) -> list[LogFile]:
    if times == (NUMBER_MIN, NUMBER_MAX):
        return list(files)
    held = may_hold(files, times[0], times[1] + 1)
    return [file for file, is_held in zip(files, held, strict=True) if is_held]


def _first_covered(own: Sequence[QueueFile], log_begin: int) -> int:
    """Returns the physical offset from which on a queue has a unit of each of its records.

    It is the begin of the log if the queue has unit 0. Otherwise it is the record of the first unit
    that is not pre-blank: the log may contain earlier records of the queue.
    """
    for file in own:
        part = QueueSlice(file, 0, NUMBER_MAX)
        number, end = part.numbers(0, NUMBER_MAX)
        if number < end:
            return part.place(number) if number else log_begin
    return log_begin


def _slices(
    queues: Mapping[QueueKey, Sequence[QueueFile]], files: Sequence[LogFile],
    bounds: tuple[int, int],
) -> list[tuple[QueueSlice, int]]:  # fmt: skip
    """Returns slices, each with the physical offset of the next file's first record."""
    found = []
    for own in queues.values():
        is_bounded = bounds != (NUMBER_MIN, NUMBER_MAX) and _is_regular(own, files)
        low, high = bounds if is_bounded else (0, NUMBER_MAX - 1)
        ends = [file.first_place for file in own[1:]] + [NUMBER_MAX]
        for file, upto in zip(own, ends, strict=True):
            if file.numbers[0] <= high and low <= file.numbers[1]:
                found.append((QueueSlice(file, max(low, 0), high + 1), upto))
    return found


def _is_regular(own: Sequence[QueueFile], files: Sequence[LogFile]) -> bool:
    """Returns whether the queue offset in the queue's last record fits its unit's position.

    It does not if a topic was deleted and created again while older records stayed.
    """
    for file in reversed(own):
        part = QueueSlice(file, 0, NUMBER_MAX)
        number, end = part.numbers(files[0].base, NUMBER_MAX)
        if number < end:
            place = part.place(end - 1)
            if not any(one.base <= place < one.end for one in files):
                return False
            return _number(bytes_at(files, place + _QUEUE_OFFSET, _NUMBER_BYTES)) == end - 1
    return True
