"""Finds the file sizes of a store's log and queues from names and lengths.

All files of a mapped file queue have one length, and each name is the offset of the file's first
byte. If a file is as long as the smallest difference of two names, its length is used. Otherwise
the most frequent length is used, so that one truncated file does not matter. If the only log file
ends within a record, it is truncated, and no size is reported.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    offset_from_file_name,
)
from pocketmq.format.record import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from pocketmq.format.record_scan import RecordScan

_TAIL: Final = 8
"""A file that is not full, or whose BLANK is longer than its head, ends with this many zeros."""


def shown_sizes(disk: Disk, store: Path) -> dict[str, Any]:
    """Returns the file sizes of a store's log, queues and extension, by names of settings.

    Cost     reads names up to the first queue with a file, and a log file that is single and full
    """
    extension_size = _queue_file_size(disk, store / CONSUME_QUEUE_EXTENSION_DIRECTORY)
    found = {
        "commit_log_file_size_bytes": _log_file_size(disk, store / COMMIT_LOG_DIRECTORY),
        "consume_queue_file_size_bytes": _queue_file_size(disk, store / CONSUME_QUEUE_DIRECTORY),
        "consume_queue_extension": extension_size > 0,
        "consume_queue_extension_file_size_bytes": extension_size,
    }
    return {name: value for name, value in found.items() if value}


def _queue_file_size(disk: Disk, root: Path) -> int:
    queues = (
        root / topic / name for topic in disk.names(root) for name in disk.names(root / topic)
    )
    return next((size for queue in queues if (size := _row_file_size(disk, queue))), 0)


def _log_file_size(disk: Disk, directory: Path) -> int:
    size = _row_file_size(disk, directory)
    lone = [name for name in disk.names(directory) if offset_from_file_name(name) is not None]
    return 0 if len(lone) == 1 and size and _is_cut(disk, directory / lone[0], size) else size


def _row_file_size(disk: Disk, directory: Path) -> int:
    bases = {name: offset_from_file_name(name) for name in disk.names(directory)}
    places = sorted(base for base in bases.values() if base is not None)
    lengths = [disk.file_size(directory / name) for name, base in bases.items() if base is not None]
    counts = Counter(length for length in lengths if length)
    if not counts:
        return 0
    step = min((after - before for before, after in pairwise(places)), default=0)
    return step if step in counts else counts.most_common(1)[0][0]


def _is_cut(disk: Disk, path: Path, size: int) -> bool:
    if disk.is_directory(path) or not any(disk.read_file(path, max(size - _TAIL, 0), _TAIL)):
        return False
    with (
        disk.opened(path) as descriptor,
        disk.map(descriptor, size, read_only=True) as mapped,
        memoryview(mapped) as content,
    ):
        scan = RecordScan(content, int(path.name))
        for _ in scan:
            pass
        left = size - scan.position
        if scan.blank or left < SIZE_AND_MAGIC.size:
            return not scan.blank and left > 0
        record_size, magic = SIZE_AND_MAGIC.unpack_from(content, scan.position)
        return magic in (MAGIC_V1, MAGIC_V2) and bool(record_size > left)
