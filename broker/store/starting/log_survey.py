"""Walking the log to its end, over damage where sound records go on behind it.

    ──sound──┤ hole ├──sound──┤ hole … file's end ┤├── next file, sound ──┤ tail: torn, bad, zeros
                                                                          ^ end

How far damage is walked over follows from what is known of the log (`Known`): behind the flushed
mark nothing was acknowledged as durable, and what lies behind damage there is no part of the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.format.record import BLANK_SIZE, split_record
from broker.format.record_scan import dispatch_entry, is_sound_at, next_sound_position
from broker.log.commit_log import CommitLog
from broker.model.delay_levels import DelayLevels
from broker.model.results import ScanEnd
from broker.rebuild.holes import ORDERLY_END, Hole
from broker.store.starting.log_columns import LogColumns, Piece, Single


class Known(NamedTuple):
    """Up to where the log must hold records.

    mark       flushed offset, None without a valid one
    view_end   where views end that an orderly stop of another broker left, None after a crash:
               records behind it were given up by that broker
    """

    mark: int | None
    view_end: int | None = None

    @property
    def upto(self) -> int | None:
        """Offset from which on damage ends the log, None: wherever no sound record follows."""
        return self.mark if self.mark is not None else self.view_end


@dataclass(slots=True)
class Survey:
    """What the walk found.

    end, scan_end     where sound records end, and why they do
    holes             damage with sound records behind it, one for each file it lies in
    last_record, last_time   start and store time (ms) of the last sound record
    """

    end: int
    scan_end: ScanEnd = ScanEnd.END_OF_DATA
    reason: str = ""
    path: str = ""
    holes: list[Hole] = field(default_factory=list)
    last_record: int = 0
    last_time: int = 0


def survey_log(
    log: CommitLog, disk: Disk, levels: DelayLevels, begin: int, known: Known, *, crc: bool
) -> Survey:
    """Walk from a record start to the end of sound records.

    Cost     about 0.3 µs a record, with `crc` that of their bodies too; a search of the rest of a
             file where it is damaged, some 0.2 s a GiB
    """
    found = Survey(begin)
    while True:
        columns = LogColumns(log, disk, begin, crc=crc)
        unwritten = _note_last(found, columns, levels, known.mark)
        scan = columns.scan
        found.end, found.scan_end = scan.position, scan.end
        found.reason, found.path = scan.reason, scan.path
        if known.upto is not None and scan.position >= known.upto:
            if unwritten is not None:
                _end_before(found, log, disk, levels, unwritten)
            return found
        holes = _holes_from(log, disk, scan.position, scan.reason, found.last_time)
        if not holes:
            return found
        found.holes += holes
        begin = holes[-1].end


def _note_last(
    found: Survey, columns: LogColumns, levels: DelayLevels, mark: int | None
) -> int | None:
    """Walk to the end of sound records, noting the last one.

    Returns  where the first record behind the mark starts that lacks its last pages, None without
             one: no such record is known to be durable. Its CRC is that of its body; a page lost
             behind it leaves zeros in topic or properties, where this broker writes none
    """
    last: Single | None = None
    unwritten: int | None = None
    for step in columns:
        if isinstance(step, Piece):
            last = None
            found.last_record = int(step.heads.physical_offset[-1])
            found.last_time = int(step.heads.store_timestamp_ms[-1])
            if unwritten is None and mark is not None and step.end > mark:
                unwritten = _unwritten_in(step, mark)
        else:
            last = step
            if unwritten is None and mark is not None and step[0] >= mark and _lacks_pages(step):
                unwritten = step[0]
    if last is not None:
        found.last_record = last[0]
        found.last_time = dispatch_entry(last[1].view, last[2], levels)[3]
    return unwritten


def _unwritten_in(piece: Piece, mark: int) -> int | None:
    """Return the first record of a piece, from the mark on, with zeros in topic or properties.

    Cost     about 0.3 µs a record
    """
    heads, find = piece.heads, piece.buffer.find
    first = int(heads.physical_offset.searchsorted(mark))
    spans = zip(
        heads.topic_begin[first:].tolist(),
        (heads.topic_begin + heads.topic_size)[first:].tolist(),
        heads.block_begin[first:].tolist(),
        (heads.begin + heads.size)[first:].tolist(),
        strict=True,
    )
    for number, (topic, topic_end, block, end) in enumerate(spans, first):
        if find(0, topic, topic_end) >= 0 or find(0, block, end) >= 0:
            return int(heads.physical_offset[number])
    return None


def _lacks_pages(record: Single) -> bool:
    """Return whether a record has zeros in topic or properties."""
    _, file, position, _ = record
    _, _, topic_begin, topic_end, block_begin, block_end = split_record(file.view, position)
    names = (file.view[topic_begin:topic_end], file.view[block_begin:block_end])
    return any(0 in bytes(name) for name in names)


def _end_before(
    found: Survey, log: CommitLog, disk: Disk, levels: DelayLevels, physical_offset: int
) -> None:
    """Let the log end before a record that lacks its last pages."""
    file = log.files.file_at(physical_offset)
    assert file is not None
    _note_last(found, LogColumns(log, disk, file.base, physical_offset), levels, None)
    found.end, found.scan_end = physical_offset, ScanEnd.TORN
    found.reason, found.path = "zeros in its topic or properties", str(file.path)


def _holes_from(
    log: CommitLog, disk: Disk, begin: int, reason: str, last_time_ms: int
) -> list[Hole]:
    """Return the damage from an offset to the next sound record, none where none follows."""
    holes: list[Hole] = []
    reason = reason or ORDERLY_END
    file = log.files.file_at(begin)
    while file is not None:
        position, file_end = begin - file.base, file.base + file.size
        following = _next_in(file, disk, position, last_time_ms, is_first=not holes)
        if following is not None:
            if file.base + following > begin:
                holes.append(Hole(str(file.path), begin, file.base + following, reason, True))
            return holes
        if begin < file_end:
            holes.append(Hole(str(file.path), begin, file_end, reason, False))
        begin = file_end
        file = log.files.file_at(begin)
    return []


def _next_in(
    file: MappedFile, disk: Disk, position: int, last_time_ms: int, *, is_first: bool
) -> int | None:
    """Return the position of the first sound record at or behind one that is damaged."""
    data_end = file.data_end()
    if not is_first and is_sound_at(file.view, file.base, position, last_time_ms):
        return position
    if data_end - position < BLANK_SIZE:
        return None

    def read_piece(begin: int, size: int) -> bytes:
        return disk.read_at(file.descriptor, begin, min(size, max(data_end - begin, 0)))

    return next_sound_position(file.view, file.base, position, last_time_ms, read_piece)


def stretches(holes: Sequence[Hole], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what lies between holes in [begin, end), as [lower, upper) of the log."""
    for hole in holes:
        if begin < min(hole.begin, end):
            yield begin, min(hole.begin, end)
        begin = max(begin, hole.end)
    if begin < end:
        yield begin, end
