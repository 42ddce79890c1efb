"""Cuts the log into ranges: whole files, or pieces if there are too few files for the workers.

A piece begins at a record's start. Only a walk from the file's start finds record starts, as a body
may contain bytes that look like a record.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any, Final, TypeVar

import numpy as np

from pocketmq.rebuild.log_files import LogFile
from pocketmq.walk.reader import LogReader

PIECES_PER_WORKER: Final = 4
"""Number of pieces for each worker, if files are cut."""
IDLE_MAX: Final = 1 / 3
"""Largest share by which idle workers may prolong the rebuild. Above it, files are cut, which takes
an extra pass over the log."""
PIECE_SIZE_MIN: Final = 64 * 1024 * 1024

Task = TypeVar("Task")
Answer = TypeVar("Answer")

TRIES: Final = 4
"""Maximum attempts of a mapper at a task; losing the worker ends an attempt."""

Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to every task, on any worker, and returns results in the tasks' order.

A task may run more than once, even concurrently, and writes the same bytes each time. A mapper that
repeats failed tasks raises TaskFailed if all attempts at a task fail."""


class TaskFailed(Exception):
    """Every attempt at a task failed; the text is the last error's text."""


def map_here(function: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterable[Answer]:
    """Runs tasks one after the other in this process."""
    return map(function, tasks)


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one file that start in [begin, end); `begin` is a record's start."""

    file: LogFile
    begin: int
    end: int

    @property
    def name(self) -> str:
        """The base name of the range's files."""
        return f"{self.begin:020d}"


def whole_files(files: Sequence[LogFile], upto: int) -> list[Range]:
    """Returns one range for each file of the log below `upto`."""
    return [Range(file, file.base, min(file.end, upto)) for file in files if file.base < upto]


def plan_ranges(
    files: Sequence[LogFile], upto: int, mapper: Mapper, *, workers: int, piece_size: int = 0
) -> list[Range]:
    """Returns the ranges of the log below `upto`, in order.

    piece_size   approximate bytes of a piece; 0: files are cut only if workers would be idle
    """
    whole = whole_files(files, upto)
    rounds = ceil(len(whole) / workers)
    if not piece_size and rounds * workers > (1 + IDLE_MAX) * len(whole):
        total = sum(part.file.size for part in whole)
        piece_size = max(total // (PIECES_PER_WORKER * workers), PIECE_SIZE_MIN)
    if not piece_size or all(part.file.size <= piece_size for part in whole):
        return whole
    ranges = []
    cuts = mapper(cut_points, [(part, piece_size) for part in whole])
    for part, points in zip(whole, cuts, strict=True):
        ranges += [Range(part.file, *pair) for pair in pairwise([part.begin, *points, part.end])]
    return ranges


def cut_points(task: tuple[Range, int]) -> list[int]:
    """Returns the cuts of a file: each is the first record `piece_size` bytes after the last cut.

    Returns  starts of records, ascending, without the file's start; no cut is after damage, so that
             damaged bytes belong to the range in which they begin
    Cost     0.3 µs a record
    """
    whole, piece_size = task
    points: list[int] = []
    wanted = whole.begin + piece_size
    with whole.file.opened() as source:
        for chunk in LogReader().chunks(source, whole.begin, whole.end):
            places = chunk.heads.physical_offset
            while wanted < min(chunk.end, whole.end):
                number = int(np.searchsorted(places, wanted))
                if number == len(places):
                    break
                points.append(int(places[number]))
                wanted = points[-1] + piece_size
    return points
