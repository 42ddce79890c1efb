"""Tables, checkpoint and mark: what of them is damaged is mended or taken away.

A copy of each lies in the quarantine by then.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.files.disk import Disk
from broker.files.table_file import DRAFT_SUFFIX
from broker.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from broker.format.names import BACKUP_SUFFIX, CHECKPOINT_FILE, OWN_DIRECTORY
from broker.log.store_directory import ManifestFile
from broker.tools.install import write_mark
from broker.tools.repair.actions import FileAct, FileAction
from broker.tools.repair.neighbours import Neighbour


def repair_file(disk: Disk, directory: Path, action: FileAction) -> None:
    """Put a table's previous version in its place, or remove the file and its .bak.

    Errors   DiskFull, AllocationFailed, FsyncFailed
    """
    path = directory / action.file
    backup = backup_of(path)
    if action.act is FileAct.RESTORE:
        replace_file(disk, path, disk.read_file(backup))
        return
    for name in (path, backup):
        disk.unlink(name)
    disk.sync_directory(path.parent)


def backup_of(path: Path) -> Path:
    """Return the name of a table's previous version."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def replace_file(disk: Disk, path: Path, content: bytes) -> None:
    """Replace a file as a whole, durably."""
    draft = path.with_name(path.name + DRAFT_SUFFIX)
    disk.write_file(draft, content)
    disk.rename(draft, path)
    disk.sync_directory(path.parent)


def lower_checkpoint(
    disk: Disk, directory: Path, *, log_end: int, last: Neighbour | None
) -> dict[str, Any]:
    """Bring checkpoint and mark down to what the log holds; returns what they said and say now.

    log_end, last   end and last record of the log's sound records
    """
    path = directory / CHECKPOINT_FILE
    content = disk.read_file(path) if disk.exists(path) else b""
    before = decode_checkpoint(content)
    after = _lowered(before, last)
    packed = encode_checkpoint(before), encode_checkpoint(after)
    mark = write_mark(disk, directory, *packed, log_end=log_end)
    wanted = packed[1].ljust(CHECKPOINT_FILE_SIZE, b"\0")
    if content and content != wanted:
        replace_file(disk, path, wanted)
        _follow(disk, directory, *packed)
    return {"checkpoint": {"before": before._asdict(), "after": after._asdict()}, "mark": mark}


def _lowered(values: CheckpointValues, last: Neighbour | None) -> CheckpointValues:
    time_ms, place = (last.time_ms, last.physical_offset) if last is not None else (0, 0)
    return CheckpointValues(
        physic_msg_timestamp=_within(values.physic_msg_timestamp, time_ms),
        logics_msg_timestamp=_within(values.logics_msg_timestamp, time_ms),
        index_msg_timestamp=_within(values.index_msg_timestamp, time_ms),
        master_flushed_offset=max(values.master_flushed_offset, 0),
        confirm_physical_offset=_within(values.confirm_physical_offset, place),
        logics_physical_offset=_within(values.logics_physical_offset, place),
    )


def _within(value: int, limit: int) -> int:
    return max(min(value, limit), 0)


def _follow(disk: Disk, directory: Path, before: bytes, after: bytes) -> None:
    """Let the list of the last orderly stop go with the new checkpoint."""
    file = ManifestFile(disk, directory / OWN_DIRECTORY)
    try:
        manifest = file.read()
    except ValueError:
        return
    if manifest is None or manifest.closed is None or manifest.closed.checkpoint != before.hex():
        return
    file.write(replace(manifest, closed=replace(manifest.closed, checkpoint=after.hex())))
