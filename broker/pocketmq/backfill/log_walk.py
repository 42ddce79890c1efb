"""Reads the log range by range over damage, so that every hole is reported.

    file 0 │ file 1  ▓▓ │ file 2     ▓▓ a hole: sound records follow it, here or in file 2
                                     bytes behind the last sound record of all are no hole

Whether records follow the end of a range's records is known before it is read: `survey` looks
at the first record of every file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pocketmq.backfill.row_filter import NUMBER_MAX, NUMBER_MIN
from pocketmq.model.errors import Corruption
from pocketmq.rebuild.log_files import LogFile, may_hold
from pocketmq.rebuild.plan import Range
from pocketmq.walk.log_walk import Hole, LogWalk
from pocketmq.walk.reader import NO_FILE, Chunk, LogReader
from pocketmq.walk.search import first_times


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Damaged bytes of a file.

    position          byte of the file
    physical_offset   of the log; in a view: the record its last sound row is about, 0 without one
    """

    path: str
    position: int
    physical_offset: int
    reason: str

    @property
    def error(self) -> Corruption:
        """The error raised for the damaged bytes."""
        return Corruption(
            path=self.path,
            file_position=self.position,
            physical_offset=self.physical_offset,
            why=self.reason,
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range, with the facts that it needs about the files around it.

    last_time_ms   no record behind a hole at its start counts that is older than this
    is_followed    a later file holds records
    """

    part: Range
    last_time_ms: int
    is_followed: bool


def may_hold_any(stretches: Sequence[Stretch], times: tuple[int, int]) -> set[LogFile]:
    """Returns the files that may hold records of these store times (ms), both ends included.

    Cost     two records read of each file, nothing where all times are wanted
    """
    files = list(dict.fromkeys(stretch.part.file for stretch in stretches))
    if times == (NUMBER_MIN, NUMBER_MAX):
        return set(files)
    held = may_hold(files, times[0], times[1] + 1)
    return {file for file, is_held in zip(files, held, strict=True) if is_held}


def survey(ranges: Sequence[Range]) -> list[Stretch]:
    """Returns the ranges, completed from the first records of all files.

    Cost     two records read of each file
    """
    times = {file: _first_times(file) for file in dict.fromkeys(part.file for part in ranges)}
    last_base = max((file.base for file, found in times.items() if found), default=0)
    stretches, newest = [], 0
    for part in ranges:
        stretches.append(Stretch(part, newest, part.file.base < last_base))
        # The lesser of two: a flipped time must not hide the records behind it.
        newest = max(newest, min(times[part.file], default=0))
    return stretches


def _first_times(file: LogFile) -> tuple[int, ...]:
    with file.opened() as source:
        return first_times(source)


def walk(stretch: Stretch, *, check_crc: bool) -> Iterator[Chunk | DamagedBytes]:
    """Yields the sound records of a stretch in chunks, and the holes between them, in order."""
    file, upto = stretch.part.file, stretch.part.end
    log_walk = LogWalk(LogReader(check_crc=check_crc))
    log_walk.resume((0, stretch.last_time_ms), NO_FILE)
    with file.opened() as source:
        for found in log_walk.over(source, stretch.part.begin, upto):
            if not isinstance(found, Hole):
                yield found
            elif found.is_followed or stretch.is_followed:
                yield DamagedBytes(file.path, found.begin - file.base, found.begin, found.reason)
