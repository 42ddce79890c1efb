"""Pulls whose records are all known to be valid: one after another, from units to one copy.

find ─► number, size and bounds ─► the caller encodes the head of its answer ─► copy

Anything unusual is left to the usual way (store/read/pulling.py).
"""

from typing import Final, final

from pocketmq.files.mapped_file import ColdRead, MappedFile
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.errors import ReadFailed
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.native.machine import i64, read_i64_be
from pocketmq.store.read.known_records import (
    are_of_queue,
    count_in_file,
    end_of,
    gathered,
    size_of,
)
from pocketmq.store.read.read_plan import BYTES_MAX
from pocketmq.store.read.record_check import asked_of, was_sound

SPAN_MAX: Final = 512 * 1024
"""Upper limit of bytes of old records, and between them, that are read by one call."""
_NOWHERE: Final = memoryview(b"")


@final
class KnownPull:
    """The records of one pull.

    count          number of records
    size_bytes     sum of their sizes
    lower, upper   bounds of the queue's offsets
    following      queue offset after the last record
    """

    __slots__ = (
        "_begin", "_file", "_log", "_queue", "_room", "_units", "count", "lower", "size_bytes",
        "upper",
    )  # fmt: skip

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._queue: ConsumeQueue | None = None
        self._file: MappedFile | None = None
        self._room = _NOWHERE
        """Receives old records; reused, as the system zeroes each new buffer of this size."""
        self._units = b""
        self._begin: i64 = 0
        self.count: i64 = 0
        self.size_bytes: i64 = 0
        self.lower: i64 = 0
        self.upper: i64 = 0

    @property
    def following(self) -> i64:
        """Queue offset after the last record."""
        return self._begin + self.count

    def find(self, queue: ConsumeQueue | None, wanted: ReadRange) -> bool:
        """Finds the records of a pull; returns whether it finds some, and all are known.

        Effects  replaces the results of the last call
        """
        if queue is None:
            return False
        _, _, begin, max_messages, max_bytes = wanted
        lower, upper = queue.min_offset, queue.shown_max
        if not lower <= begin < upper:
            return False
        try:
            units = queue.units.read_resident(begin, min(max_messages, upper - begin))
        except (ColdRead, ReadFailed):
            return False
        if not units:
            return False
        place = read_i64_be(units, 0)
        log = self._log
        file = log.files.file_at(place) if place >= 0 else None
        if file is None:
            return False
        if place < log.hot_begin:
            max_bytes = min(max_bytes, BYTES_MAX)
        count = count_in_file(units, max_bytes, file.base + file.size)
        if not count or not was_sound(file, place, asked_of(log, queue), begin, begin + int(count)):
            return False
        self._queue, self._file, self._units, self._begin = queue, file, units, begin
        self.count, self.size_bytes = count, size_of(units, count)
        self.lower, self.upper = lower, upper
        assert self.lower < self.following <= self.upper, "records outside of the queue"
        return True

    def result(self, records: bytes) -> PullResult:
        """Returns the records, joined, as the result of the pull."""
        lower, upper = int(self.lower), int(self.upper)
        following, count = int(self.following), int(self.count)
        return PullResult(PullStatus.FOUND, following, lower, upper, [records], count)

    def copy(self, head: bytes) -> bytes:
        """Returns `head` and the records that `find` found; empty: they are not as they should be.

        Shape    nothing was awaited since `find`, which returned true
        Cost     one copy if the records are among the newest, else two of all bytes between them
        """
        queue, file, units = self._queue, self._file, self._units
        assert queue is not None, "nothing was found"
        assert file is not None, "nothing was found"
        self._queue, self._file, self._units = None, None, b""
        log, count = self._log, self.count
        place = read_i64_be(units, 0)
        buffer, origin = file.view, i64(file.base)
        if place < log.hot_begin:
            span = end_of(units, count) - place
            if span > SPAN_MAX or not log.tells_resident:
                return b""
            if not len(self._room):
                self._room = memoryview(bytearray(SPAN_MAX))
            buffer = self._room[:span]
            try:
                file.fill_resident(int(place - origin), buffer)
            except (ColdRead, ReadFailed):
                return b""
            origin = place
        found = gathered(buffer, origin, units, count, head)
        asked = asked_of(log, queue)
        part, queue_id = asked.topic_part, asked.queue_id
        is_whole = are_of_queue(found, units, count, part, queue_id, self._begin, len(head))
        return found if is_whole else b""
