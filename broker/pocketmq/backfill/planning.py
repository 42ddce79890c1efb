"""Into which tasks the reading of a store is shared out.

messages   ranges of the log          units   files of queues          index   index files
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from pocketmq.backfill.arrow_views import find_index_files, find_queue_files
from pocketmq.backfill.log_walk import Stretch, may_hold_any, survey
from pocketmq.backfill.request import INDEX, MESSAGES, UNITS, Request
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.rebuild.log_files import LogFile, find_log_files
from pocketmq.rebuild.plan import PIECE_SIZE_MIN, Range, map_here, plan_ranges

PARTITIONS_PER_WORKER: Final = 4
"""Into how many partitions many small files are put for each task that runs at once."""


def _plan_messages(request: Request, wanted: RowFilter) -> list[list[Any]]:
    stretches = planned_log(request) if request.ranges is None else [
        stretch_from(document) for document in request.ranges
    ]  # fmt: skip
    timely = may_hold_any(stretches, wanted.bound(request.table.time))
    chosen = [
        stretch
        for stretch in stretches
        if stretch.part.file in timely
        and wanted.overlaps("physical_offset", stretch.part.begin, stretch.part.end - 1)
    ]
    return _by_size(chosen, request)


def _by_size(stretches: Sequence[Stretch], request: Request) -> list[list[Any]]:
    """Returns ranges in lots, small neighbours together, as many as keep all workers busy."""
    total = sum(stretch.part.end - stretch.part.begin for stretch in stretches)
    enough = min(PIECE_SIZE_MIN, total // (PARTITIONS_PER_WORKER * request.workers))
    if request.piece_size:
        enough = min(enough, request.piece_size)
    lots: list[list[Any]] = []
    room = 0
    for stretch in stretches:
        if room <= 0:
            lots.append([])
            room = enough
        lots[-1].append(stretch)
        room -= stretch.part.end - stretch.part.begin
    return lots


def planned_log(request: Request, mapper: Any = map_here) -> list[Stretch]:
    """Returns the ranges of a store's log, cut for as many tasks as run at once.

    Errors   NotAStore, WrongFileSize, StoreGap
    """
    files = find_log_files(request.store)
    end = files[-1].end if files else 0
    upto = min(end, request.wanted.bound("physical_offset")[1] + 1)
    workers, piece_size = request.workers, request.piece_size
    return survey(plan_ranges(files, upto, mapper, workers=workers, piece_size=piece_size))


def _plan_units(request: Request, wanted: RowFilter) -> list[list[Any]]:
    files = [
        file
        for file in find_queue_files(request.store)
        if wanted.has_topic(file.topic)
        and wanted.overlaps("queue_id", file.queue_id, file.queue_id)
        and wanted.overlaps("queue_offset", *file.numbers)
    ]
    return _shared(files, request.workers)


def _plan_entries(request: Request, wanted: RowFilter) -> list[list[Any]]:
    return _shared(find_index_files(request.store), request.workers)


def _shared(tasks: Sequence[Any], workers: int) -> list[list[Any]]:
    """Returns tasks in a few lots, neighbours together."""
    count = min(len(tasks), PARTITIONS_PER_WORKER * workers)
    borders = [len(tasks) * number // count for number in range(count + 1)] if count else [0]
    return [list(tasks[begin:end]) for begin, end in pairwise(borders)]


PLANNERS: Final[Mapping[str, Callable[[Request, RowFilter], list[list[Any]]]]] = {
    MESSAGES: _plan_messages,
    UNITS: _plan_units,
    INDEX: _plan_entries,
}
"""Makes the tasks of a table, by partition."""


def stretch_from(document: dict[str, Any]) -> Stretch:
    """Returns the stretch that `asdict` took apart."""
    part = document["part"]
    span = Range(LogFile(**part["file"]), part["begin"], part["end"])
    return Stretch(span, document["last_time_ms"], document["is_followed"])
