"""Walks the log to its end, across damage that valid records follow.

    ──valid──┤ hole ├──valid──┤ hole … file's end ┤├── next file, valid ──┤ tail: torn, bad, zeros
                                                                          ^ end

Records above the flushed mark were never acknowledged as durable, so the first damage among them
ends the log.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.columns.heads import first_with_zeros
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX
from pocketmq.walk.log_walk import Hole, LogWalk
from pocketmq.walk.reader import Chunk, LogReader, Stop
from pocketmq.walk.source import LogSource

CHUNK_SIZE: Final = 4 * 1024 * 1024
_UNWRITTEN: Final = Stop(ScanEnd.TORN, 0, "zeros in its topic or properties")


class Known(NamedTuple):
    """The known extent of the log.

    mark       flushed offset; None without a valid mark
    view_end   end of the views after an orderly stop of RocketMQ: it abandoned all later records.
               None after a crash
    """

    mark: int | None
    view_end: int | None = None

    @property
    def upto(self) -> int | None:
        """Physical offset from which on damage ends the log.

        None: damage ends the log only if no valid record follows the damage
        """
        return self.mark if self.mark is not None else self.view_end


@dataclass(slots=True)
class Survey:
    """Result of the walk.

    end, scan_end            end of valid records, and the cause of the end
    reason, path             what follows the end, and in which file; "" for nothing
    holes                    damage that valid records follow, one hole per file
    last_record, last_time   physical offset and store time (ms) of the last valid record
    """

    end: int
    scan_end: ScanEnd = ScanEnd.END_OF_DATA
    reason: str = ""
    path: str = ""
    holes: list[Hole] = field(default_factory=list)
    last_record: int = 0
    last_time: int = 0

    @property
    def is_torn(self) -> bool:
        """Whether invalid bytes follow the end."""
        return self.scan_end is not ScanEnd.END_OF_DATA


def log_sources(log: CommitLog, disk: Disk, begin: int) -> Iterator[LogSource]:
    """Yields the sources for a walk, from the file that contains `begin` on."""
    file = log.files.file_at(max(begin, log.min_offset))
    while file is not None:
        read_into = partial(disk.read_into, file.descriptor)
        data_end = file.data_end()
        yield LogSource(str(file.path), file.base, file.size, file.view, read_into, data_end)
        file = log.files.file_at(file.base + file.size)


def survey_log(
    log: CommitLog, disk: Disk, begin: int, known: Known, *, crc: bool,
    chunk_size: int = CHUNK_SIZE, take: Callable[[Chunk], object] | None = None,
) -> Generator[float, None, Survey]:  # fmt: skip
    """Walks from a record start to the end of valid records; yields the finished share (0..1).

    crc      whether to verify the CRC of each body
    take     called with each chunk of valid records before the first damage; the last chunk may
             contain records after the log's end
    Cost     0.3 µs a record, plus its CRC; after damage a search of the rest of the file, at 0.2 s
             per GiB
    """
    found = Survey(max(begin, log.min_offset))
    upto = OFFSET_MAX if known.upto is None else known.upto
    reader = LogReader(check_crc=crc, property_crc=log.property_crc, chunk_size=chunk_size)
    walk = LogWalk(reader, search_below=upto)
    damage: list[tuple[Hole, Stop]] = []
    for source in log_sources(log, disk, begin):
        for step in walk.over(source, max(begin, source.base)):
            if isinstance(step, Hole):
                damage.append((step, walk.stop))
                continue
            if take is not None and not damage:
                take(step)
            yield (step.end - begin) / (log.appended - begin)
            if not _take_last(found, step, known.mark):
                damage.append((Hole(source.path, found.end, step.end, "", False), _UNWRITTEN))
                return _ended(found, damage)
        if walk.damaged_from is not None and walk.damaged_from >= upto:
            break
    return _ended(found, damage)


def first_file_holes(log: CommitLog, disk: Disk) -> Generator[float, None, list[Hole]]:
    """Walks the oldest file with all CRCs; returns its damage.

    A replicated broker must not lead, or be copied, with damage. The files between the oldest one
    and the last checkpoint are not read: that would take minutes.
    """
    reader = LogReader(check_crc=True, property_crc=log.property_crc, chunk_size=CHUNK_SIZE)
    walk, holes = LogWalk(reader), list[Hole]()
    source = next(log_sources(log, disk, log.min_offset))
    for step in walk.over(source, source.base):
        if isinstance(step, Hole):
            holes.append(step)
        yield 0.0
    return holes


def _take_last(found: Survey, chunk: Chunk, mark: int | None) -> bool:
    """Extends the result by a chunk, up to the first record after the mark with a lost page.

    The CRC covers only the body. A lost page after the body leaves zeros in topic or properties,
    where PocketMQ writes no zeros. Records before the mark are durable and have no lost page.

    Returns  whether no record of the chunk has a lost page
    Cost     0.1 µs a record after the mark
    """
    heads, buffer = chunk.heads, chunk.buffer
    count = len(heads)
    first = count if mark is None else int(heads.physical_offset.searchsorted(mark))
    if first < count:
        tail = heads.take(slice(first, count))
        block_size = tail.begin + tail.size - tail.block_begin
        lost_topic = first_with_zeros(buffer, tail.topic_begin, tail.topic_size)
        lost_block = first_with_zeros(buffer, tail.block_begin, block_size)
        count = first + min(lost_topic, lost_block)
    if count:
        found.last_record = int(heads.physical_offset[count - 1])
        found.last_time = int(heads.store_timestamp_ms[count - 1])
        found.end = found.last_record + int(heads.size[count - 1])
    return count == len(heads)


def _ended(found: Survey, damage: list[tuple[Hole, Stop]]) -> Survey:
    """Separates holes from the damage after the last record, which ends the log."""
    found.holes = [hole for hole, _ in damage if hole.begin < found.end]
    for hole, stop in damage[len(found.holes) : len(found.holes) + 1]:
        found.end, found.scan_end = hole.begin, stop.kind
        found.reason, found.path = stop.reason, hole.path
    return found


def stretches(holes: Sequence[Hole], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges [lower, upper) between the holes in [begin, end)."""
    for hole in holes:
        if begin < min(hole.begin, end):
            yield begin, min(hole.begin, end)
        begin = max(begin, hole.end)
    if begin < end:
        yield begin, end
