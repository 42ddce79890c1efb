"""Reads the durable offsets and the kind of the last stop from a store's small files."""

from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.json_text import read_object
from pocketmq.format.names import (
    ABORT_FILE,
    COMMIT_LOG_DIRECTORY,
    IDENTITY_FILE,
    MARK_FILE,
    OWN_DIRECTORY,
    TERMS_FILE,
    TIMER_WHEEL_FILE,
    offset_file_name,
)
from pocketmq.log.checkpoint import FlushedMark, read_checkpoint
from pocketmq.log.store_directory import BEHIND_SIZE, ManifestFile
from pocketmq.model.errors import StoreTooNew
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.replication import FOLLOWER


def index_time_ms(disk: Disk, directory: Path) -> int:
    """Returns the store time up to which full index files are durable; 0 without full files."""
    return read_checkpoint(disk, directory).index_msg_timestamp


def views_upto(disk: Disk, directory: Path) -> int:
    """Returns the offset below which the view files of a PocketMQ store are complete.

    Units and entries of later records may exist only in the broker's memory.
    """
    checkpoint = read_checkpoint(disk, directory)
    last_record = checkpoint.logics_physical_offset
    # Offset 0 is the first record's, if the checkpoint also has a time of it.
    return last_record + 1 if last_record > 0 or checkpoint.logics_msg_timestamp > 0 else 0


def flushed_upto(disk: Disk, directory: Path) -> int | None:
    """Returns the offset below which the log was certainly durable; None without a valid mark."""
    mark = _mark(disk, directory)
    if mark is None:
        return None
    return mark.valid_upto(encode_checkpoint(read_checkpoint(disk, directory)))


def oldest_base(disk: Disk, directory: Path) -> int | None:
    """Returns the base of the oldest file of the log that has not expired; None: unknown."""
    mark = _mark(disk, directory)
    if mark is None or not mark.valid_upto(encode_checkpoint(read_checkpoint(disk, directory))):
        return None
    return mark.oldest_base if mark.oldest_base < OFFSET_MAX else None


def marked_upto(disk: Disk, directory: Path) -> int | None:
    """Returns the flushed mark, also if another broker wrote later; None without a mark file."""
    mark = _mark(disk, directory)
    return None if mark is None else mark.flushed_upto


def _mark(disk: Disk, directory: Path) -> FlushedMark | None:
    own = directory / OWN_DIRECTORY
    if not disk.exists(own / MARK_FILE):
        return None
    mark = FlushedMark(disk, own)
    mark.look()
    return mark


def left_in_order(disk: Disk, directory: Path, log_file_bytes: int) -> bool:
    """Returns whether a start would find that the store's last broker stopped in order."""
    if not disk.exists(directory / ABORT_FILE):
        return True
    try:
        manifest = ManifestFile(disk, directory / OWN_DIRECTORY).read()
    except (ValueError, StoreTooNew):
        return False
    if manifest is None or manifest.closed is None:
        return False
    position = manifest.closed.log_end % log_file_bytes
    name = offset_file_name(manifest.closed.log_end - position)
    path = directory / COMMIT_LOG_DIRECTORY / name
    behind = disk.read_file(path, position, BEHIND_SIZE) if disk.exists(path) else b""
    checkpoint = encode_checkpoint(read_checkpoint(disk, directory))
    return manifest.closed.is_last_word(checkpoint, flushed_upto(disk, directory), behind)


def lacks_wheel_as_follower(disk: Disk, directory: Path) -> bool:
    """Returns whether the wheel may be behind the timer log, as its last broker was a follower.

    Without an operator's command only a setting decides the role. Then the wheel's absence in a
    store that took part in replication shows a follower.
    """
    own = directory / OWN_DIRECTORY
    try:
        terms = (
            read_object(disk.read_file(own / TERMS_FILE)) if disk.exists(own / TERMS_FILE) else {}
        )
    except ValueError:
        return False
    if terms.get("role"):
        return bool(terms["role"] == FOLLOWER)
    return disk.exists(own / IDENTITY_FILE) and not disk.exists(directory / TIMER_WHEEL_FILE)
