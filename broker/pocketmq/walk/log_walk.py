"""Walks the files of a log, across damage.

    ──valid──┤ hole ├──valid──┤ hole … file's end ┤├── next file, valid ──┤ tail: torn, bad, zeros
                                                                          ^ end

After damage the walk continues with the next valid record of the file (`search.py`). If there is
none, the walk continues with the next file, whose first record must not be older than the last
record before the damage. Damage across the end of a file is therefore one hole in each file. Damage
after the last valid record is not a hole but the tail: zeros after the log's end, or bytes that a
crash left. `holes_and_tail` separates holes and tail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX
from pocketmq.walk.reader import NO_FILE, Chunk, LogReader, Stop
from pocketmq.walk.search import next_sound_record, store_time_at
from pocketmq.walk.source import LogSource

ORDERLY_END: Final = "no record up to the file's end"
"""Reason of a hole of zeros: the bytes after the last record of a log."""
TOO_OLD: Final = "a record older than those before it"
"""Reason of a hole that begins with a valid record, at the beginning of a file."""
PAUSE_MS_MAX: Final = 30 * 24 * 3_600_000
"""Longest plausible pause between two records. If a record is younger than the previous one by more
than this, and damage follows, its store time probably has a flipped bit: the CRC of the body does
not cover the store time."""
Times = tuple[int, ...]
"""Store times (ms) of the last two valid records of a walk; fewer if it began in the middle."""
NO_RECORD: Final[Times] = (0, 0)
"""Store times at the beginning of a log."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [begin, end) of the log without a valid record.

    is_followed   whether valid records follow in the same file
    """

    path: str
    begin: int
    end: int
    reason: str
    is_followed: bool


def oldest_behind(last_times: Times) -> int | None:
    """Returns the least store time (ms) that a record after damage may have.

    Returns  None if no record before the damage is known: the walk then does not search for records
             after the damage. They may be remains of a log that a broker truncated there.
    """
    if not last_times:
        return None
    before, last = last_times[0], last_times[-1]
    return before if before and last - before > PAUSE_MS_MAX else last


class LogWalk:
    """One walk; the caller passes files in order.

    end            physical offset after the last valid record; 0 without valid records
    last_times     store times of the last two valid records
    damaged_from   begin of the damage that the walk has reached; None after a valid record
    stop           end of the records of the last file, and its reason
    """

    __slots__ = ("_reader", "_search_below", "damaged_from", "end", "last_times", "stop")

    def __init__(self, reader: LogReader, *, search_below: int = OFFSET_MAX) -> None:
        """Begins a walk.

        search_below   damage at or after this physical offset ends the log: the rest of its file
                       is not part of the log
        """
        self._reader = reader
        self._search_below = search_below
        self.end = 0
        self.last_times: Times = NO_RECORD
        self.damaged_from: int | None = None
        self.stop = NO_FILE

    def resume(self, last_times: Times, stop: Stop) -> None:
        """Resumes where an earlier walk ended."""
        self.last_times = last_times
        self.stop = stop
        self.damaged_from = None if stop.is_orderly else stop.physical_offset

    def skip(self) -> None:
        """Skips a file; the end of its records is then unknown."""
        self.damaged_from = None

    def over(self, source: LogSource, begin: int, upto: int = OFFSET_MAX) -> Iterator[Chunk | Hole]:
        """Yields the records of a file that start in [begin, upto), and the holes between them.

        begin   start of a record, or of the file
        Cost    the reader's, and a search after each damaged record (`next_sound_record`)
        """
        assert begin >= max(source.base, self.end)
        while True:
            if self.damaged_from is not None and is_too_old(source, begin, self.last_times):
                self.stop = Stop(ScanEnd.BAD, begin, TOO_OLD)
            else:
                yield from self._chunks(source, begin, upto)
            if self.stop.is_orderly:
                return
            hole = self._hole_behind(source, upto)
            assert hole.begin < hole.end
            yield hole
            if hole.is_followed and hole.end >= upto:
                self.stop, self.damaged_from = Stop(ScanEnd.UPTO, upto), None
            if not hole.is_followed or hole.end >= upto:
                return
            begin, self.damaged_from = hole.end, None

    def _chunks(self, source: LogSource, begin: int, upto: int) -> Iterator[Chunk]:
        for chunk in self._reader.chunks(source, begin, upto):
            self.end, self.damaged_from = chunk.end, None
            times = chunk.heads.store_timestamp_ms[-len(NO_RECORD) :].tolist()
            self.last_times = (*self.last_times, *times)[-len(NO_RECORD) :]
            yield chunk
        self.stop = self._reader.stop

    def _hole_behind(self, source: LogSource, upto: int) -> Hole:
        """Returns the bytes between the last valid record and the next valid record of the file."""
        _, begin, reason = self.stop
        if self.damaged_from is None:
            self.damaged_from = begin
        following, oldest_ms = None, oldest_behind(self.last_times)
        if oldest_ms is not None and self.damaged_from < self._search_below:
            following = next_sound_record(source, begin, oldest_ms)
        end = source.end if following is None else min(following, upto)
        return Hole(source.path, begin, end, reason or ORDERLY_END, following is not None)


def is_too_old(source: LogSource, begin: int, last_times: Times) -> bool:
    """Returns whether a valid record at `begin` is older than those before the damage."""
    time_ms, oldest_ms = store_time_at(source, begin), oldest_behind(last_times)
    return time_ms is not None and oldest_ms is not None and time_ms < oldest_ms


def holes_and_tail(holes: Sequence[Hole], end: int) -> tuple[list[Hole], Hole | None]:
    """Returns the holes inside a log, and the bytes after its last valid record.

    A file that begins with a TOO_OLD record may follow damage. Possibly only the store time of this
    record is wrong, so the file is part of the log: its hole and those before it are inside. If
    such a file follows zeros, a broker truncated the log before it, and the file is not part of the
    log.

    holes   all holes of a walk
    end     physical offset after the last valid record
    """
    inside = sum(hole.begin < end for hole in holes)
    if inside < len(holes) and holes[inside].reason not in (ORDERLY_END, TOO_OLD):
        hidden = [number for number, hole in enumerate(holes) if hole.reason == TOO_OLD]
        inside = max([inside, *(number + 1 for number in hidden)])
    behind = [hole for hole in holes[inside:] if hole.reason != ORDERLY_END]
    return list(holes[:inside]), behind[0] if behind else None
