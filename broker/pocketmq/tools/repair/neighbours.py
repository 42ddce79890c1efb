"""Finds the valid records next to damage, from which fillers copy fields."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pocketmq.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.format.record import (
    BLANK_SIZE,
    RECORD_HEAD,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
    ends_with_crc,
)
from pocketmq.model.message import FLAG_BORN_HOST_V6
from pocketmq.rebuild.log_files import LogFile
from pocketmq.walk.log_walk import Hole, LogWalk, Times
from pocketmq.walk.reader import Chunk, LogReader
from pocketmq.walk.search import store_time_at

TIME_SIZE: Final = 8
"""Bytes of a store time."""


class Neighbour(NamedTuple):
    """A valid record."""

    physical_offset: int
    size: int
    time_ms: int
    property_crc: bool

    @property
    def end(self) -> int:
        """Physical offset after the record."""
        return self.physical_offset + self.size


class _Walked(NamedTuple):
    """Progress of the last search in `_last_before`, from which the next search continues.

    base         physical offset of the file's first byte
    begin, end   physical offsets of the last record found
    times        store times of the last two records before `end`
    """

    base: int
    begin: int
    end: int
    times: Times


class Neighbours:
    """Finds valid records in a damaged log; ignores all records inside `damage`.

    Cost     about 1 µs a record of the walked file; searches at ascending offsets walk a file once
    """

    __slots__ = ("_begins", "_damage", "_files", "_property_crc", "_walked")

    def __init__(
        self, files: Sequence[LogFile], damage: Sequence[Hole] = (), *, property_crc: bool = False
    ) -> None:
        self._files = files
        self._damage = sorted(damage, key=lambda hole: hole.begin)
        self._begins = [hole.begin for hole in self._damage]
        self._walked: _Walked | None = None
        self._property_crc = property_crc

    def at(self, physical_offset: int) -> Neighbour | None:
        """Returns the record that starts at a physical offset; None if no valid record does."""
        for file in self._files:
            if file.base <= physical_offset <= file.end - BLANK_SIZE:
                return _read(file, physical_offset)
        return None

    def before(self, physical_offset: int) -> Neighbour | None:
        """Returns the last record that starts below a physical offset; None if no record does."""
        for file in reversed(self._files):
            last = self._last_before(file, physical_offset)
            if last is not None:
                return _read(file, last)
        return None

    def _last_before(self, file: LogFile, upto: int) -> int | None:
        """Returns the offset of the last record of a file that starts below `upto`."""
        walk, begin, last, walked = self._walk(), file.base, None, self._walked
        if walked is not None and walked.base == file.base and walked.end <= upto:
            begin, last, walk.last_times = walked.end, walked.begin, walked.times
        for chunk in self._chunks(walk, file, begin, upto):
            last = int(chunk.heads.physical_offset[-1])
            assert last < upto, "the record does not start below the limit"
            self._walked = _Walked(file.base, last, chunk.end, walk.last_times)
        return last

    def after(self, physical_offset: int) -> Neighbour | None:
        """Returns the first record at or after an offset at which a record or damage starts."""
        for file in self._files:
            begin = max(physical_offset, file.base)
            for chunk in self._chunks(self._walk(), file, begin, file.end):
                return _read(file, int(chunk.heads.physical_offset[0]))
        return None

    def _walk(self) -> LogWalk:
        return LogWalk(LogReader(check_crc=True, property_crc=self._property_crc))

    def _chunks(self, walk: LogWalk, file: LogFile, begin: int, upto: int) -> Iterator[Chunk]:
        """Yields the records of a file that start in [begin, upto), and skips damage."""
        if begin < min(upto, file.end):
            with file.opened() as source:
                for found in walk.over(source, begin, upto):
                    if isinstance(found, Chunk) and not self._is_known(found):
                        yield found

    def _is_known(self, chunk: Chunk) -> bool:
        """Returns whether records are inside known damage: valid records there may be too old."""
        begin = int(chunk.heads.physical_offset[0])
        number = bisect_right(self._begins, begin)
        return number > 0 and begin < self._damage[number - 1].end


def _read(file: LogFile, physical_offset: int) -> Neighbour | None:
    with file.opened() as source:
        time_ms = store_time_at(source, physical_offset)
        if time_ms is None:
            return None
        position = physical_offset - file.base
        size: int = SIZE_AND_MAGIC.unpack_from(source.view, position)[0]
        has_crc = ends_with_crc(source.view, position + size)
    return Neighbour(physical_offset, size, time_ms, has_crc)


def store_time_position(record: bytes) -> int:
    """Returns the position of a record's store time within it."""
    (flag,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    wider = IPV6_HOST_SIZE - IPV4_HOST_SIZE if flag & FLAG_BORN_HOST_V6 else 0
    return RECORD_HEAD.positions["store_timestamp"] + wider
