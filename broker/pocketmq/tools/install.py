"""Replaces a store's views with rebuilt ones; the store is consistent at every step.

    1. The staged views are made durable.
    2. The table of queue ends is removed. If the new views cover less than the old ones, the
       checkpoint is lowered to the records that the new views cover.
    3. consumequeue/ and index/ are exchanged with the staged directories, each atomically.
    4. The flushed mark, the checkpoint and store.json are rewritten for the new views.
    5. The old views are removed, or kept under pocketmq/replaced/.

After a kill at any point, each view is completely old or completely new, and the checkpoint covers
no more than the views contain. Installing again has the same result. The caller holds the store's
lock.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.consume_unit import UNIT, UNIT_SIZE, first_file_position
from pocketmq.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from pocketmq.format.names import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    MARK_FILE,
    OWN_DIRECTORY,
    VIEW_DIRECTORIES,
    offset_file_name,
    queue_directory,
)
from pocketmq.format.record import STORE_TIMESTAMP_FIELD, split_record
from pocketmq.log.checkpoint import (
    FlushedMark,
    QueueEnds,
    StoreCheckpoint,
    read_checkpoint,
)
from pocketmq.log.foreign import check_understood
from pocketmq.log.queue_places import expired_queues
from pocketmq.log.store_directory import ClosedState, ManifestFile, StoreDirectory, StoreManifest
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.model.topic import LMQ_PREFIX
from pocketmq.rebuild.log_files import KnownShape

STAGING_DIRECTORY: Final = "rebuild"
"""Directory below a store's pocketmq/ in which views are built."""
REPLACED_DIRECTORY: Final = "replaced"
EXTENSION_KEPT_AS: Final = "extension"
"""Directory that keeps a replaced extension if the other old views are removed."""
_VIEWS: Final = (CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY)


@dataclass(frozen=True, slots=True)
class StagedViews:
    """Views that are built, but not installed.

    queues   (first, end) queue offsets of each queue
    end      physical offset after the last record that the views cover
    """

    directory: Path
    queues: dict[QueueKey, tuple[int, int]]
    index_names: list[str]
    end: int


def stage_and_install(
    disk: Disk,
    directory: Path,
    sizes: KnownShape,
    stage: Callable[[Path], StagedViews],
    *,
    keep_as: str = "",
) -> Path | None:
    """Calls `stage` to build views in a store's staging directory, and installs them.

    Effects  holds the store's lock until it returns
    Errors   StoreLocked, and those of `stage`, `install_views` and `check_understood`
    """
    check_understood(disk, directory)
    store = StoreDirectory(disk, directory)
    store.acquire()
    try:
        staging = directory / OWN_DIRECTORY / STAGING_DIRECTORY
        return install_views(disk, directory, stage(staging), sizes, keep_as=keep_as)
    finally:
        store.release()


def carry_expired(disk: Disk, directory: Path, out: Path) -> None:
    """Copies to the built views the queues whose messages were all deleted from the log.

    Only their last files still show the next queue offsets.
    """
    for path in expired_queues(disk, directory):
        target = out / path.relative_to(directory)
        if not target.parent.exists():  # Else the log contains newer messages of the queue.
            target.parent.mkdir(parents=True)
            shutil.copyfile(path, target)


def install_views(
    disk: Disk, directory: Path, staged: StagedViews, sizes: KnownShape, *, keep_as: str = ""
) -> Path | None:
    """Installs staged views in a store whose lock this process holds.

    keep_as    directory below pocketmq/replaced/ that keeps the old views; "" removes them
    Returns    the directory that keeps old views or a replaced extension; None if neither is kept
    Errors     DiskFull, AllocationFailed, FsyncFailed
    """
    _carry_over(directory / CONSUME_QUEUE_DIRECTORY, staged.directory / CONSUME_QUEUE_DIRECTORY)
    carry_expired(disk, directory, staged.directory)
    has_extension = disk.exists(staged.directory / CONSUME_QUEUE_EXTENSION_DIRECTORY)
    names = VIEW_DIRECTORIES if has_extension else _VIEWS
    for name in names:
        disk.make_directory(staged.directory / name)
        sync_tree(disk, staged.directory / name)
    _drop_others(disk, staged.directory)
    numbers = _Numbers(disk, directory)
    last_place, last_time_ms = _last_dispatched(disk, directory, staged, sizes)
    wanted = numbers.values._replace(
        logics_msg_timestamp=last_time_ms,
        index_msg_timestamp=_index_end(disk, staged),
        logics_physical_offset=last_place,
    )
    QueueEnds(disk, directory / OWN_DIRECTORY).remove()
    numbers.write(CheckpointValues(*map(min, numbers.values, wanted)))
    for name in names:
        disk.make_directory(directory / name)
        disk.exchange(staged.directory / name, directory / name)
    disk.sync_directory(directory)
    disk.sync_directory(staged.directory)
    numbers.write(wanted)
    _rewrite_manifest(disk, directory / OWN_DIRECTORY, staged, sizes, encode_checkpoint(wanted))
    extension = directory / CONSUME_QUEUE_EXTENSION_DIRECTORY
    if not has_extension and disk.exists(extension):  # No new unit refers to it.
        disk.rename(extension, staged.directory / CONSUME_QUEUE_EXTENSION_DIRECTORY)
        disk.sync_directory(directory)
    lone = () if has_extension else (CONSUME_QUEUE_EXTENSION_DIRECTORY,)
    replaced = (*names, *lone) if keep_as else lone
    return _put_away(disk, directory, staged.directory, keep_as, replaced)


def _carry_over(queues: Path, staged: Path) -> None:
    """Copies to the staged queues the light message queues that no log record names."""
    for topic in sorted(queues.glob(f"{LMQ_PREFIX}*")):
        for queue in sorted(topic.iterdir()) if topic.is_dir() else ():
            target = staged / topic.name / queue.name
            if queue.is_dir() and not target.exists():
                shutil.copytree(queue, target)


def sync_tree(disk: Disk, directory: Path) -> None:
    """Makes all files and names below a directory durable."""
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
    disk: Disk, directory: Path, staged: StagedViews, sizes: KnownShape
) -> tuple[int, int]:
    """Returns offset and store time of the last record with a unit; zeros without units."""
    last = -1
    for key, (_, end) in staged.queues.items():
        queue = queue_directory(staged.directory / CONSUME_QUEUE_DIRECTORY, *key)
        base = first_file_position(end - 1, sizes.consume_queue_file_size_bytes)
        position = (end - 1) * UNIT_SIZE - base
        unit = UNIT.unpack(disk.read_file(queue / offset_file_name(base), position, UNIT_SIZE))
        last = max(last, unit[0])
    if last < 0:
        return 0, 0
    base = last - last % sizes.commit_log_file_size_bytes
    path = directory / COMMIT_LOG_DIRECTORY / offset_file_name(base)
    size = int.from_bytes(disk.read_file(path, last - base, 4))
    head = split_record(disk.read_file(path, last - base, size), 0)[0]
    return last, head[STORE_TIMESTAMP_FIELD]


def _index_end(disk: Disk, staged: StagedViews) -> int:
    """Returns the last store time in the newest index file, ms; 0 without index files."""
    if not staged.index_names:
        return 0
    path = staged.directory / INDEX_DIRECTORY / staged.index_names[-1]
    return IndexHeaderValues(*HEADER.unpack(disk.read_file(path, 0, HEADER_SIZE))).end_timestamp


class _Numbers:
    """Checkpoint and flushed mark of a store; writing keeps a valid mark valid."""

    __slots__ = ("_directory", "_disk", "values")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        checkpoint = StoreCheckpoint(disk, directory / CHECKPOINT_FILE)
        checkpoint.load()
        self.values = checkpoint.values

    def write(self, values: CheckpointValues) -> None:
        """Writes the mark, then the checkpoint.

        Between the two writes, the mark's other slot is valid with the old checkpoint.
        """
        if values == self.values:
            return
        write_mark(
            self._disk, self._directory, encode_checkpoint(self.values), encode_checkpoint(values)
        )
        checkpoint = StoreCheckpoint(self._disk, self._directory / CHECKPOINT_FILE)
        checkpoint.save(values)
        checkpoint.close()
        checkpoint.load()
        assert checkpoint.values == values
        self.values = values


def write_mark(
    disk: Disk, directory: Path, before: bytes, after: bytes, *, log_end: int = OFFSET_MAX
) -> dict[str, int] | None:
    """Rewrites a store's valid flushed mark to match a checkpoint that the caller writes next.

    before, after   the current and the next checkpoint, encoded
    log_end         end of the log, to which a higher mark is lowered
    Returns         the mark's old and new values; None without a valid mark
    """
    own = directory / OWN_DIRECTORY
    if not disk.exists(own / MARK_FILE):
        return None
    mark = FlushedMark(disk, own)
    mark.open()
    try:
        upto = mark.valid_upto(before)
        if upto is None:
            upto = mark.valid_upto(after)  # An earlier run was killed after it wrote the mark.
        if upto is None:
            return None
        lowered = min(upto, log_end)
        if (mark.flushed_upto, mark.checkpoint) != (lowered, after):
            mark.write(lowered, after)
        mark.sync()
    finally:
        mark.close()
    assert lowered <= upto
    return {"before": upto, "after": lowered}


def mark_oldest(disk: Disk, directory: Path, base: int) -> None:
    """Rewrites a store's valid flushed mark: the oldest file of the log begins at `base`."""
    mark = FlushedMark(disk, directory / OWN_DIRECTORY)
    mark.open()
    try:
        if mark.valid_upto(encode_checkpoint(read_checkpoint(disk, directory))) is not None:
            mark.oldest_base = base
            mark.write(mark.flushed_upto)
            mark.sync()
    finally:
        mark.close()


def _rewrite_manifest(
    disk: Disk, own: Path, staged: StagedViews, sizes: KnownShape, checkpoint: bytes
) -> None:
    """Writes the new views to the manifest as the state of the last orderly stop."""
    file = ManifestFile(disk, own)
    try:
        before = file.read()
    except ValueError:
        before = None
    queues: dict[str, dict[str, list[int]]] = {}
    for (topic, queue_id), ends in sorted(staged.queues.items()):
        queues.setdefault(topic, {})[str(queue_id)] = list(ends)
    manifest = StoreManifest(
        commit_log_file_size_bytes=sizes.commit_log_file_size_bytes,
        consume_queue_file_size_bytes=sizes.consume_queue_file_size_bytes,
        index_slot_count=sizes.geometry.slot_count,
        index_entry_count_max=sizes.geometry.entry_count_max,
        index_style=sizes.index_style,
        time_zone=sizes.time_zone,
        cluster=before.cluster if before is not None else "",
        broker=before.broker if before is not None else "",
        made_here=before.made_here if before is not None else False,
        property_crc_from=before.property_crc_from if before is not None else None,
        closed=ClosedState(staged.end, checkpoint.hex(), queues, staged.index_names),
    )
    if manifest != before:
        file.write(manifest)


def _drop_others(disk: Disk, staging: Path) -> None:
    """Removes everything but views from the staging directory, durably.

    Otherwise a later rebuild would continue from files that the exchange made obsolete.
    """
    for name in disk.names(staging):
        if name not in VIEW_DIRECTORIES:
            path = staging / name
            if disk.is_directory(path):
                shutil.rmtree(path)
            else:
                disk.unlink(path)
    disk.sync_directory(staging)


def _put_away(
    disk: Disk, directory: Path, staging: Path, keep_as: str, names: Sequence[str]
) -> Path | None:
    """Moves replaced directories to pocketmq/replaced/, and removes the staging directory.

    names     directories to keep
    Returns   the directory in which they are kept; None if none of them exists
    """
    kept = [name for name in names if disk.exists(staging / name)]
    target = None
    if kept:
        target = _unused(disk, directory / OWN_DIRECTORY / REPLACED_DIRECTORY, keep_as)
        disk.make_directory(target)
        for name in kept:
            disk.rename(staging / name, target / name)
        disk.sync_directory(target)
    shutil.rmtree(staging)
    return target


def _unused(disk: Disk, root: Path, keep_as: str) -> Path:
    """Returns the path of a new directory for replaced views."""
    number, name = 1, keep_as or EXTENSION_KEPT_AS
    while disk.exists(root / name):
        number += 1
        name = f"{keep_as or EXTENSION_KEPT_AS}-{number}"
    return root / name
