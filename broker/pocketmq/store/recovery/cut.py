"""Cuts a closed store's log where it has diverged from its leader's, before it is opened.

    copy what is cut to pocketmq/diverged ─► distrust the views ─► zero the log's end ─► open

A crash at any point leaves a store that an ordinary start recovers, and that can be cut again.
"""

import logging
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.names import OWN_DIRECTORY
from pocketmq.log.quarantine import NOTE_SUFFIX, Quarantine
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.settings import StoreSettings

DIVERGED_DIRECTORY: Final = "diverged"

logger = logging.getLogger(__name__)


def cut_log(settings: StoreSettings, disk: Disk, begin: int) -> None:
    """Sets everything from a physical offset on aside; blocks.

    begin    the end of a record, or the log's first offset
    Errors   those of a start; DiskFull, AllocationFailed, FsyncFailed: it can be repeated
    """
    parts = StoreComponents(settings, disk)
    try:
        log, own = parts.log, parts.own_directory
        log.load()
        parts.checkpoint.load()
        parts.mark.open()
        end = _set_aside(parts, begin)
        parts.directory.mark_running(disk.own_process_id())
        _distrust(parts, begin)
        log.truncate(begin)
        logger.warning(
            "log.diverged",
            extra={"physical_offset": begin, "bytes": end - begin,
                   "copy": str(own / DIVERGED_DIRECTORY)},
        )  # fmt: skip
    finally:
        parts.close()


def diverged_bytes(disk: Disk, store_directory: Path) -> int:
    """Returns the size of what was set aside and not removed since; blocks."""
    directory = store_directory / OWN_DIRECTORY / DIVERGED_DIRECTORY
    if not disk.exists(directory):
        return 0
    copies = (name for name in disk.names(directory) if not name.endswith(NOTE_SUFFIX))
    return sum(disk.file_size(directory / name) for name in copies)


def _set_aside(parts: StoreComponents, begin: int) -> int:
    """Copies the bytes from an offset on; returns the end of the last byte that is not zero."""
    directory = parts.own_directory / DIVERGED_DIRECTORY
    parts.disk.make_directory(directory)
    copies, found = Quarantine(parts.disk, directory), begin
    for file in parts.log.files_between(begin, 2**63 - 1):
        first = max(begin, file.base)
        end = file.base + file.open().data_end()
        if first < end:
            copies.keep(file.path, first, end, base=file.base, note={"reason": "diverged"})
            found = end
    parts.disk.sync_directory(directory)
    return found


def _distrust(parts: StoreComponents, begin: int) -> None:
    mark, before = parts.mark, parts.checkpoint.values
    values = before._replace(
        logics_physical_offset=min(before.logics_physical_offset, begin),
        confirm_physical_offset=min(before.confirm_physical_offset, begin),
    )
    parts.ends.remove()
    if mark.valid_upto(encode_checkpoint(before)) is not None:
        mark.write(min(mark.flushed_upto, begin), encode_checkpoint(values))
        mark.sync()
    parts.checkpoint.save(values)
