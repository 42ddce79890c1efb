"""Finds the end and the damage of a store's log, and the files of its timer log."""

from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    TIMER_CHECK_FILE,
    TIMER_LOG_DIRECTORY,
    offset_from_file_name,
)
from pocketmq.format.timer_layout import decode_progress
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import LogFile, records_end
from pocketmq.tools.durable import flushed_upto
from pocketmq.walk.reader import CHUNK_SIZE, LogReader, Stop
from pocketmq.walk.source import LogSource


def durable_end(disk: Disk, directory: Path, files: list[LogFile], known: int) -> int:
    """Returns the durable end of a log, or without a mark the end of its last record.

    known   an offset at which a record begins, up to which nothing needs to be read
    """
    flushed = flushed_upto(disk, directory)
    if not files:
        return max(known, 0) if flushed is None else flushed
    if flushed is not None:
        return min(flushed, files[-1].end)
    if known <= files[-1].base:
        return records_end(files)
    with files[-1].opened() as source:
        return _walked(source, known, OFFSET_MAX).physical_offset


def damage_between(files: list[LogFile], begin: int, end: int) -> str:
    """Returns path, offset and reason of the first damage in [begin, end); "" without damage."""
    for file in files:
        at, upto = max(file.base, begin), min(file.end, end)
        if at >= upto:
            continue
        try:
            with file.opened() as source:
                stop = _walked(source, at, upto)
        except FileNotFoundError:
            continue
        if not stop.is_orderly:
            return f"{file.path} at {stop.physical_offset}: {stop.reason or 'no record'}"
    return ""


def _walked(source: LogSource, begin: int, upto: int) -> Stop:
    # A round of each second has few bytes, for which a whole chunk's buffer would cost more.
    reader = LogReader(check_crc=True, chunk_size=min(CHUNK_SIZE, upto - begin))
    for _ in reader.chunks(source, begin, upto):
        pass
    return reader.stop


def timer_files(disk: Disk, directory: Path) -> list[LogFile]:
    """Returns the files of the timer log, in order."""
    place = directory / TIMER_LOG_DIRECTORY
    found = ((offset_from_file_name(name), place / name) for name in sorted(disk.names(place)))
    return [
        LogFile(str(path), base, disk.file_size(path)) for base, path in found if base is not None
    ]


def timer_end(check: bytes, files: list[LogFile]) -> int:
    """Returns the position below which the timer log is durable, by the content of `timercheck`."""
    progress = decode_progress(check)
    return 0 if progress is None else min(progress.log_flushed, files[-1].end)


def timer_end_now(disk: Disk, directory: Path, files: list[LogFile]) -> int:
    """Returns the position below which a store's timer log is durable; 0 without one."""
    path = directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE
    if not files or not disk.exists(path):
        return 0
    return timer_end(disk.read_file(path), files)
