"""Plans the tasks that read a store's messages, as few bytes of the log as options allow.

topic and keys   records that index files name, and the parts of the log they do not cover
topic            records that consume queues name, and the parts of the log they do not cover
other options    ranges of the log, without files of other offsets and times
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from pocketmq.backfill.key_places import KeyPlaces, RecordPlaces, find_key_places
from pocketmq.backfill.log_walk import Stretch, may_hold_any, survey
from pocketmq.backfill.queue_places import covered_upto, plan_queue_records
from pocketmq.backfill.request import Request
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import LogFile, find_log_files
from pocketmq.rebuild.plan import PIECE_SIZE_MIN, Range, map_here, plan_ranges

PARTITIONS_PER_WORKER: Final = 4
"""Number of partitions for each concurrent task, if there are many small files."""


def plan_messages(request: Request, wanted: RowFilter) -> list[list[Any]]:
    """Returns the tasks that read the messages, by partition.

    Errors   NotAStore, WrongFileSize, StoreGap
    """
    if wanted.keys is not None and wanted.topics is not None and request.ranges is None:
        found = find_key_places(request.store, wanted.topics, wanted.keys, request.geometry)
        if found is not None:
            return _plan_places(found, request, wanted)
    if wanted.topics is not None and request.ranges is None and request.by_queues:
        lots = _plan_queues(request, wanted, wanted.topics)
        if lots is not None:
            return lots
    return _by_size(_wanted_stretches(request, wanted), request)


def _wanted_stretches(request: Request, wanted: RowFilter) -> list[Stretch]:
    stretches = planned_log(request) if request.ranges is None else [
        stretch_from(document) for document in request.ranges
    ]  # fmt: skip
    timely = may_hold_any(stretches, wanted.bound(request.table.time))
    return [
        stretch
        for stretch in stretches
        if stretch.part.file in timely
        and wanted.overlaps("physical_offset", stretch.part.begin, stretch.part.end - 1)
    ]


def _plan_queues(
    request: Request, wanted: RowFilter, topics: Collection[str]
) -> list[list[Any]] | None:
    """Returns the records that queues name, and the end of the log that they do not cover."""
    files = find_log_files(request.store)
    covered = covered_upto(request.store, files, is_open=request.is_open)
    if not covered:
        return None
    inside = wanted.within("physical_offset", largest=covered - 1)
    plan = plan_queue_records(request.store, files, inside, topics, request.workers)
    if plan is None:
        return None
    parts = _parts(files, ((0, plan.begin), (max(plan.begin, covered), OFFSET_MAX)), wanted)
    return [[task] for task in plan.tasks] + _by_size(survey(parts), request)


def _parts(
    files: Sequence[LogFile], spans: Sequence[tuple[int, int]], wanted: RowFilter
) -> list[Range]:
    """Returns the parts of the log in spans [begin, end) that the filter's offsets overlap."""
    least, largest = wanted.bound("physical_offset")
    upto = largest + 1
    return [
        Range(file, max(file.base, begin), min(file.end, end, upto))
        for begin, end in spans
        for file in files
        if max(file.base, begin) < min(file.end, end, upto) > least
    ]


def _plan_places(found: KeyPlaces, request: Request, wanted: RowFilter) -> list[list[Any]]:
    """Returns the records that the index names, and the ends of the log that it does not cover."""
    files = find_log_files(request.store)
    upto = wanted.bound("physical_offset")[1] + 1
    parts = _parts(files, ((0, found.begin), (found.end, OFFSET_MAX)), wanted)
    places = [place for place in found.places if place < upto]
    return [[RecordPlaces(files, places), *survey(parts)]]


def _by_size(stretches: Sequence[Stretch], request: Request) -> list[list[Any]]:
    """Groups adjacent small ranges into partitions, so that each worker gets some ranges."""
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
    """Returns the ranges of a store's log, cut for `request.workers` concurrent tasks.

    Errors   NotAStore, WrongFileSize, StoreGap
    """
    files = find_log_files(request.store)
    end = files[-1].end if files else 0
    upto = min(end, request.wanted.bound("physical_offset")[1] + 1)
    workers, piece_size = request.workers, request.piece_size
    return survey(plan_ranges(files, upto, mapper, workers=workers, piece_size=piece_size))


def stretch_from(document: dict[str, Any]) -> Stretch:
    """Rebuilds a stretch from its `asdict` document."""
    part = document["part"]
    span = Range(LogFile(**part["file"]), part["begin"], part["end"])
    return Stretch(span, document["last_time_ms"], document["is_followed"])
