"""Up to where a store is durable, as its checkpoint and its mark say."""

from pathlib import Path

from broker.files.disk import Disk
from broker.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from broker.format.names import CHECKPOINT_FILE, MARK_FILE, OWN_DIRECTORY
from broker.log.checkpoint import FlushedMark


def index_time_ms(disk: Disk, directory: Path) -> int:
    """Return the store time up to which full index files are durable, 0 where none ever was."""
    path = directory / CHECKPOINT_FILE
    content = disk.read_file(path) if disk.exists(path) else b""
    return decode_checkpoint(content).index_msg_timestamp


def views_upto(disk: Disk, directory: Path) -> int:
    """Return below which offset the records of a store of ours have units and entries in files.

    What its broker dispatched since the checkpoint may still be in its memory.
    """
    checkpoint = directory / CHECKPOINT_FILE
    content = disk.read_file(checkpoint) if disk.exists(checkpoint) else b""
    last_record = decode_checkpoint(content).logics_physical_offset
    return last_record + 1 if last_record > 0 else 0


def flushed_upto(disk: Disk, directory: Path) -> int | None:
    """Return up to where the log was durable for certain, None where nothing valid says so."""
    own, checkpoint = directory / OWN_DIRECTORY, directory / CHECKPOINT_FILE
    if not disk.exists(own / MARK_FILE):
        return None
    mark = FlushedMark(disk, own)
    try:
        mark.open()
    except OSError:  # A directory that may not be written to.
        return None
    finally:
        mark.close()
    content = disk.read_file(checkpoint) if disk.exists(checkpoint) else b""
    return mark.valid_upto(encode_checkpoint(decode_checkpoint(content)))
