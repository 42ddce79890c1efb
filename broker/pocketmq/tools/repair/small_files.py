"""Repairs or removes damaged tables, checkpoint and mark.

A copy of each is in the quarantine by then.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from pocketmq.format.names import BACKUP_SUFFIX, CHECKPOINT_FILE, OWN_DIRECTORY
from pocketmq.log.store_directory import ManifestFile
from pocketmq.tools.install import write_mark


def backup_of(path: Path) -> Path:
    """Returns the name of a table's previous version."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def lower_checkpoint(
    disk: Disk, directory: Path, *, log_end: int, last_time_ms: int, last_place: int
) -> dict[str, Any]:
    """Lowers checkpoint and mark to the log's end; returns their old and new values.

    log_end, last_…   end of the log's sound records; store time and place of the last one
    """
    path = directory / CHECKPOINT_FILE
    content = disk.read_file(path) if disk.exists(path) else b""
    before = decode_checkpoint(content)
    limits = CheckpointValues(
        physic_msg_timestamp=last_time_ms,
        logics_msg_timestamp=last_time_ms,
        index_msg_timestamp=last_time_ms,
        master_flushed_offset=before.master_flushed_offset,
        confirm_physical_offset=last_place,
        logics_physical_offset=last_place,
    )
    after = CheckpointValues(*(max(0, min(pair)) for pair in zip(before, limits, strict=True)))
    packed = encode_checkpoint(before), encode_checkpoint(after)
    mark = write_mark(disk, directory, *packed, log_end=log_end)
    wanted = packed[1].ljust(CHECKPOINT_FILE_SIZE, b"\0")
    if content and content != wanted:
        disk.replace_file(path, wanted)
        _follow(disk, directory, *packed)
    return {"checkpoint": {"before": before._asdict(), "after": after._asdict()}, "mark": mark}


def _follow(disk: Disk, directory: Path, before: bytes, after: bytes) -> None:
    """Writes the new checkpoint into the manifest's record of the last orderly stop."""
    file = ManifestFile(disk, directory / OWN_DIRECTORY)
    try:
        manifest = file.read()
    except ValueError:
        return
    if manifest is None or manifest.closed is None or manifest.closed.checkpoint != before.hex():
        return
    file.write(replace(manifest, closed=replace(manifest.closed, checkpoint=after.hex())))
