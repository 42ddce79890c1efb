"""Records of one queue by their physical offsets, as the timer log keeps them.

Each is checked as those of a pull are; others than sound records of the queue are left out.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.store.read.record_check import asked_of, is_sound

GAP_MAX: Final = 4 * 1024
"""Bytes between two records up to which both are read at once."""
RUN_MAX: Final = 1024 * 1024
_NUMBER: Final = slice(20, 28)

Place = tuple[int, int]
"""(physical offset, size)."""


def placed_records(log: CommitLog, queue: ConsumeQueue, places: Sequence[Place]) -> list[bytes]:
    """Returns the records at places that rise, empty for one that is none of the queue, or damaged.

    Cost     about 1.5 µs a record, and the CRC of its body where this process did not write it
    Errors   ColdRead: not all of it is in memory
    """
    assert all(before[0] <= after[0] for before, after in pairwise(places))
    records: list[bytes] = []
    for run in _runs(places, log.file_size_bytes):
        records += _read(log, queue, run)
    assert len(records) == len(places)
    return records


def _runs(places: Sequence[Place], file_size_bytes: int) -> list[list[Place]]:
    """Returns places near each other in one file together."""
    runs: list[list[Place]] = []
    begin = end = file_end = -1
    for place, size in places:
        is_near = place < file_end and place - end <= GAP_MAX and place - begin < RUN_MAX
        if is_near and runs:
            runs[-1].append((place, size))
        else:
            runs.append([(place, size)])
            begin, file_end = place, place - place % file_size_bytes + file_size_bytes
        end = max(place + size, end)
    return runs


def _read(log: CommitLog, queue: ConsumeQueue, run: list[Place]) -> list[bytes]:
    begin = run[0][0]
    file = log.files.file_at(begin) if begin >= 0 else None
    if file is None:
        return [b""] * len(run)
    content: bytes | memoryview = file.view
    origin = file.base
    if begin < log.hot_begin:
        last, size = run[-1]
        content, origin = file.read_resident(begin - origin, last + size - begin), begin
    asked, known_from = asked_of(log, queue), file.base + file.written_from
    records = []
    for place, size in run:
        position = place - origin
        record = bytes(content[position : position + size])
        number = int.from_bytes(record[_NUMBER])
        is_whole = len(record) == size >= RECORD_SIZE_MIN
        is_known = place >= known_from
        is_it = is_whole and is_sound(record, 0, place, size, asked, number, is_known=is_known)
        records.append(record if is_it else b"")
    return records
