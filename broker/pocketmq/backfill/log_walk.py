"""Reads the log range by range across damage, and reports every hole.

    file 0 │ file 1  ▓▓ │ file 2     ▓▓ a hole: valid records follow in file 1 or file 2
                                     bytes after the log's last valid record are not a hole

Before any range is read, `survey` reads the first records of every file. So it is known for each
range whether records follow in a later file.
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
    physical_offset   in a log file: offset of the damage; in a view: offset of the record of the
                      last valid unit or entry before the damage; 0 if there is none
    """

    path: str
    position: int
    physical_offset: int
    reason: str

    @property
    def error(self) -> Corruption:
        """The error that reports the damaged bytes."""
        return Corruption(
            path=self.path,
            file_position=self.position,
            physical_offset=self.physical_offset,
            why=self.reason,
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range, with facts about the files around it.

    last_time_ms   least store time (ms) that a record after damage at the range's start may have
    is_followed    whether a later file contains records
    """

    part: Range
    last_time_ms: int
    is_followed: bool


def may_hold_any(stretches: Sequence[Stretch], times: tuple[int, int]) -> set[LogFile]:
    """Returns the files that may contain records of store times (ms) in `times`, ends included.

    Cost     a read of two records of each file; no read if `times` is unbounded
    """
    files = list(dict.fromkeys(stretch.part.file for stretch in stretches))
    if times == (NUMBER_MIN, NUMBER_MAX):
        return set(files)
    held = may_hold(files, times[0], times[1] + 1)
    return {file for file, is_held in zip(files, held, strict=True) if is_held}


def survey(ranges: Sequence[Range]) -> list[Stretch]:
    """Returns each range with the facts that the first records of all files show.

    Cost     two records read of each file
    """
    times = {file: _first_times(file) for file in dict.fromkeys(part.file for part in ranges)}
    last_base = max((file.base for file, found in times.items() if found), default=0)
    stretches, newest = [], 0
    for part in ranges:
        stretches.append(Stretch(part, newest, part.file.base < last_base))
        # The lesser of two times: a flipped bit in a time must not hide later records.
        newest = max(newest, min(times[part.file], default=0))
    return stretches


def _first_times(file: LogFile) -> tuple[int, ...]:
    with file.opened() as source:
        return first_times(source)


def walk(stretch: Stretch, *, check_crc: bool) -> Iterator[Chunk | DamagedBytes]:
    """Yields the valid records of a stretch in chunks, and the holes between them, in order."""
    file, upto = stretch.part.file, stretch.part.end
    log_walk = LogWalk(LogReader(check_crc=check_crc))
    log_walk.resume((0, stretch.last_time_ms), NO_FILE)
    with file.opened() as source:
        for found in log_walk.over(source, stretch.part.begin, upto):
            if not isinstance(found, Hole):
                yield found
            elif found.is_followed or stretch.is_followed:
                yield DamagedBytes(file.path, found.begin - file.base, found.begin, found.reason)
