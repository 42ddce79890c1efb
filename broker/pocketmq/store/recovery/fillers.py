"""Replaces damage in the log with fillers: copies the bytes aside, writes, syncs.

`pocketmq store repair` writes the same bytes; this is for damage that a start finds anyway. If it
is killed half-way, the next start repeats it: the copy is kept, and a filler is a sound record.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.filler_record import Style, size_min, stand_in, stand_in_to_file_end
from pocketmq.format.layout import is_zero
from pocketmq.format.record import BLANK_SIZE, ends_with_crc
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.quarantine import new_quarantine
from pocketmq.walk.log_walk import Hole

_PIECE: Final = 1024 * 1024

logger = logging.getLogger(__name__)


def fill_holes(
    log: CommitLog, disk: Disk, store: Path, holes: Sequence[Hole], time_ms: int, now_ms: int
) -> list[Hole]:
    """Replaces damage with filler records; returns the replaced ranges.

    Shape    holes are in log order; each is replaced whole, a short one with the record behind it
    time_ms  store time of the fillers: not later than that of any record behind
    Errors   DiskFull, AllocationFailed, FsyncFailed: the next start goes on
    """
    quarantine = new_quarantine(disk, store, now_ms)
    filled: list[Hole] = []
    for hole in holes:
        file = log.files.file_at(hole.begin)
        assert file is not None
        style = Style(time_ms, log.property_crc or ends_with_crc(file.view, hole.begin - file.base))
        end = _widened(log, file, hole, size_min(style))
        note = {"reason": hole.reason, "begin": hole.begin, "end": end}
        quarantine.keep(file.path, hole.begin, end, base=file.base, note=note)
        _write(disk, file, hole.begin, _replacement(file, hole, end, style))
        filled.append(Hole(hole.path, hole.begin, end, hole.reason, hole.is_followed))
        logger.warning(
            "log.quarantined",
            extra={
                "path": hole.path, "physical_offset": hole.begin, "bytes": end - hole.begin,
                "reason": hole.reason, "copy": str(quarantine.directory),
            },
        )  # fmt: skip
    return filled


def _widened(log: CommitLog, file: MappedFile, hole: Hole, least: int) -> int:
    """Returns the end of a hole that a filler fits: a short one takes the next record along."""
    end, file_end = hole.end, file.base + file.size
    while end < file_end and end - hole.begin < least:
        end += log.record_size_at(end) or file_end - end
    return end


def _replacement(file: MappedFile, hole: Hole, end: int, style: Style) -> Iterable[bytes]:
    if end < file.base + file.size or hole.is_followed:
        return stand_in(hole.begin, end, style)
    is_blank = _is_damaged_blank(file, hole.begin - file.base)
    return stand_in_to_file_end(hole.begin, end, style, holds_records=not is_blank)


def _is_damaged_blank(file: MappedFile, position: int) -> bool:
    """Returns whether at most a BLANK can have been there: zeros behind 8 other bytes."""
    if is_zero(file.view, position, min(position + BLANK_SIZE, file.size)):
        return False
    begins = range(position + BLANK_SIZE, file.size, _PIECE)
    return all(is_zero(file.view, begin, min(begin + _PIECE, file.size)) for begin in begins)


def _write(disk: Disk, file: MappedFile, begin: int, contents: Iterable[bytes]) -> None:
    descriptor = disk.open(file.path)
    try:
        position = begin - file.base
        for content in contents:
            disk.allocate(descriptor, position, len(content), file.path)
            disk.write_at(descriptor, position, content)
            position += len(content)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
