"""Cuts the log into ranges: whole files, or pieces of files that are large for their number.

A piece begins where a record begins, and only hopping along the chain from the file's start finds
that: bodies may hold what looks like records.
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
"""How many pieces each worker gets where files are cut."""
IDLE_MAX: Final = 1 / 3
"""Files are cut where, whole, they would take so much longer for the workers that wait for the
last of them: to find where to cut is a pass over the log of its own."""
PIECE_SIZE_MIN: Final = 64 * 1024 * 1024

Task = TypeVar("Task")
Answer = TypeVar("Answer")

TRIES: Final = 4
"""How often a mapper tries a task before the job fails; a lost worker costs a try."""

Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to every task, anywhere, and returns the answers in the tasks' order.

A task may be run more than once, also at the same time: it writes the same bytes each time. One
that fails as often as it is tried is a TaskFailed."""


class TaskFailed(Exception):
    """A task failed as often as it was tried; the text is the last error."""


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
        """The base name of its files."""
        return f"{self.begin:020d}"


def whole_files(files: Sequence[LogFile], upto: int) -> list[Range]:
    """Returns the files of the log below `upto` as a range each."""
    return [Range(file, file.base, min(file.end, upto)) for file in files if file.base < upto]


def plan_ranges(
    files: Sequence[LogFile], upto: int, mapper: Mapper, *, workers: int, piece_size: int = 0
) -> list[Range]:
    """Returns the ranges of the log below `upto`, in order.

    piece_size   cut files at about this many bytes; 0: only where whole ones leave workers idle
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
    """Returns where a file is cut at the first record at or behind each multiple of a size.

    Returns  starts of records, rising, the file's own start left out; behind damage nothing is cut:
             the bytes there belong to the range before
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
