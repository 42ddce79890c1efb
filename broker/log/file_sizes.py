"""How long the files of an existing log and of its queues are, told by the files themselves.

Files in a row are of one length, and each is named by the offset of its first byte: two names that
follow on each other tell the length too. A file that was cut short is outvoted by the others.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path

from broker.files.disk import Disk
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    offset_from_file_name,
)


def commit_log_file_size(disk: Disk, store: Path) -> int:
    """Return the bytes of each commit-log file of a store, 0 when it has none."""
    return _row_file_size(disk, store / COMMIT_LOG_DIRECTORY)


def consume_queue_file_size(disk: Disk, store: Path) -> int:
    """Return the bytes of each consume-queue file of a store, 0 when it has none.

    Cost     reads names up to the first queue that has a file
    """
    return _queue_file_size(disk, store / CONSUME_QUEUE_DIRECTORY)


def extension_file_size(disk: Disk, store: Path) -> int:
    """Return the bytes of each consume-queue extension file of a store, 0 when it has none."""
    return _queue_file_size(disk, store / CONSUME_QUEUE_EXTENSION_DIRECTORY)


def _queue_file_size(disk: Disk, root: Path) -> int:
    for topic in disk.names(root):
        for queue_id in disk.names(root / topic):
            size = _row_file_size(disk, root / topic / queue_id)
            if size:
                return size
    return 0


def _row_file_size(disk: Disk, directory: Path) -> int:
    bases = {name: offset_from_file_name(name) for name in disk.names(directory)}
    places = sorted(base for base in bases.values() if base is not None)
    lengths = [disk.file_size(directory / name) for name, base in bases.items() if base is not None]
    counts = Counter(length for length in lengths if length)
    if not counts:
        return 0
    step = min((after - before for before, after in pairwise(places)), default=0)
    if step in counts:
        return step
    ((size, _),) = counts.most_common(1)
    return size
