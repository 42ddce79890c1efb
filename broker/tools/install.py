"""Puts rebuilt views in the place of a store's own, so that the store is whole at every moment.

    1. everything below the staging directory is made durable
    2. consumequeue/ and index/ change places with the staged ones, each in one step
    3. checkpoint, watermark and store.json are made to agree
    4. the old views are removed, or kept under pocketmq/replaced/

Killed anywhere, the store has old or new views, both complete; what the small files say is then a
matter of the broker's next start. The store's lock is held by the caller.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.checkpoint_layout import encode_checkpoint
from broker.format.consume_unit import UNIT, UNIT_SIZE, first_file_position
from broker.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from broker.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    OWN_DIRECTORY,
    offset_file_name,
    queue_directory,
)
from broker.format.record import split_record
from broker.log.checkpoint import Checkpoint
from broker.log.flushed_mark import MARK_FILE, FlushedMark
from broker.log.store_manifest import ClosedState, ManifestFile
from broker.model.offsets import QueueKey
from broker.tools.store_access import Sizes

REPLACED_DIRECTORY: Final = "replaced"
_VIEWS: Final = (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY)
_STORE_TIMESTAMP_FIELD: Final = 10


@dataclass(frozen=True, slots=True)
class StagedViews:
    """Views that wait to be installed.

    queues   (first, end) queue offsets by queue
    end      physical offset behind the last record they tell of
    """

    directory: Path
    queues: dict[QueueKey, tuple[int, int]]
    index_names: list[str]
    end: int


def install_views(
    disk: Disk, directory: Path, staged: StagedViews, sizes: Sizes, *, keep_as: str = ""
) -> Path | None:
    """Install staged views in a store whose lock this process holds.

    keep_as    name below pocketmq/replaced/ to keep the old views under; "" removes them
    Returns    where the old views are kept
    Errors     DiskFull, AllocationFailed, FsyncFailed
    """
    for name in _VIEWS:
        disk.make_directory(staged.directory / name)
        sync_tree(disk, staged.directory / name)
    last_place, last_time_ms = _last_dispatched(disk, directory, staged, sizes)
    ended_ms = _index_end(disk, staged)
    for name in _VIEWS:
        disk.make_directory(directory / name)
        disk.exchange(staged.directory / name, directory / name)
    disk.sync_directory(directory)
    disk.sync_directory(staged.directory)
    _agree(disk, directory, staged, last_place, last_time_ms, ended_ms)
    extension = directory / CONSUME_QUEUE_EXTENSION_DIRECTORY
    if disk.exists(extension):  # No unit leads there any more.
        disk.rename(extension, staged.directory / CONSUME_QUEUE_EXTENSION_DIRECTORY)
        disk.sync_directory(directory)
    return _put_away(disk, directory, staged.directory, keep_as)


def sync_tree(disk: Disk, directory: Path) -> None:
    """Make all files and names below a directory durable."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = disk.open(path)
            try:
                disk.sync(descriptor)
            finally:
                disk.close(descriptor)
        elif path.is_dir():
            disk.sync_directory(path)
    disk.sync_directory(directory)


def _last_dispatched(
    disk: Disk, directory: Path, staged: StagedViews, sizes: Sizes
) -> tuple[int, int]:
    """Return start and store time of the last record that has a unit, zeros without one."""
    last = -1
    for key, (_, end) in staged.queues.items():
        queue = queue_directory(staged.directory / CONSUME_QUEUE_DIRECTORY, *key)
        base = first_file_position(end - 1, sizes.consume_queue_file_bytes)
        position = (end - 1) * UNIT_SIZE - base
        unit = UNIT.unpack(_read(disk, queue / offset_file_name(base), position, UNIT_SIZE))
        last = max(last, unit[0])
    if last < 0:
        return 0, 0
    base = last - last % sizes.commit_log_file_bytes
    path = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
    size = int.from_bytes(_read(disk, path, last - base, 4))
    head = split_record(_read(disk, path, last - base, size), 0)[0]
    return last, head[_STORE_TIMESTAMP_FIELD]


def _read(disk: Disk, path: Path, position: int, size: int) -> bytes:
    descriptor = disk.open_read_only(path)
    try:
        return disk.read_at(descriptor, position, size)
    finally:
        disk.close(descriptor)


def _index_end(disk: Disk, staged: StagedViews) -> int:
    """Return the store time the newest index file ends with, ms."""
    if not staged.index_names:
        return 0
    path = staged.directory / INDEX_DIRECTORY / staged.index_names[-1]
    return IndexHeaderValues(*HEADER.unpack(_read(disk, path, 0, HEADER_SIZE))).end_timestamp


def _agree(
    disk: Disk, directory: Path, staged: StagedViews, last_place: int, last_time_ms: int,
    ended_ms: int,
) -> None:  # fmt: skip
    """Write down in checkpoint, mark and manifest what the views now hold."""
    own = directory / OWN_DIRECTORY
    checkpoint = Checkpoint(disk, directory / CHECKPOINT_FILE)
    checkpoint.load()
    before = encode_checkpoint(checkpoint.values)
    values = checkpoint.values._replace(
        logics_msg_timestamp=last_time_ms,
        index_msg_timestamp=ended_ms,
        logics_physical_offset=last_place,
        physic_msg_timestamp=max(checkpoint.values.physic_msg_timestamp, last_time_ms),
    )
    mark = FlushedMark(disk, own) if disk.exists(own / MARK_FILE) else None
    upto = None
    if mark is not None:
        mark.open()
        upto = mark.valid_upto(before)
    checkpoint.save(values)
    checkpoint.close()
    if mark is not None:
        if upto is not None:
            mark.write(upto, encode_checkpoint(values))
            mark.sync()
        mark.close()
    _rewrite_manifest(disk, own, staged, encode_checkpoint(values))


def _rewrite_manifest(disk: Disk, own: Path, staged: StagedViews, checkpoint: bytes) -> None:
    """List the new views as what the store held when it was last closed, if it was."""
    file = ManifestFile(disk, own)
    manifest = file.read()
    if manifest is None:
        return
    queues: dict[str, dict[str, list[int]]] = {}
    for (topic, queue_id), ends in sorted(staged.queues.items()):
        queues.setdefault(topic, {})[str(queue_id)] = list(ends)
    closed = ClosedState(staged.end, checkpoint.hex(), queues, staged.index_names)
    file.write(replace(manifest, closed=closed))


def _put_away(disk: Disk, directory: Path, staging: Path, keep_as: str) -> Path | None:
    if not keep_as:
        shutil.rmtree(staging)
        return None
    target = directory / OWN_DIRECTORY / REPLACED_DIRECTORY / keep_as
    disk.make_directory(target)
    for name in (*_VIEWS, CONSUME_QUEUE_EXTENSION_DIRECTORY):
        if disk.exists(staging / name):
            disk.rename(staging / name, target / name)
    disk.sync_directory(target)
    shutil.rmtree(staging)
    return target
