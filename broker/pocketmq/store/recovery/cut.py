"""Cuts a closed store's log where it has diverged from its leader's, before it is opened.

    copy the cut part to pocketmq/diverged ─► distrust the views ─► zero the log's end ─► open
                                                              └──► all is cut: remove log and views

A crash at any point leaves a store that an ordinary start recovers, and that can be cut again.
"""

import logging
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.json_text import read_object
from pocketmq.format.names import DIVERGED_DIRECTORY, OWN_DIRECTORY, VIEW_DIRECTORIES
from pocketmq.log.quarantine import NOTE_SUFFIX, Quarantine
from pocketmq.model.errors import DiskFull
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.settings import StoreSettings


class Aside(NamedTuple):
    """Size of pocketmq/diverged; the count lacks messages that earlier versions set aside."""

    size_bytes: int
    message_count: int


NOTHING_ASIDE: Final = Aside(0, 0)

logger = logging.getLogger(__name__)


def cut_log(settings: StoreSettings, disk: Disk, begin: int) -> None:
    """Sets everything from a physical offset on aside; blocks.

    begin    the end of a record, or the log's first offset
    Errors   those of a start; DiskFull, StoreFailed: the caller may try again
    """
    parts = StoreComponents(settings, disk)
    try:
        log, own = parts.log, parts.own_directory
        log.load()
        parts.checkpoint.load()
        parts.mark.open()
        end = _set_aside(parts, begin)
        parts.directory.mark_running(disk.own_process_id())
        is_whole = begin <= log.min_offset
        _distrust(parts, 0 if is_whole else begin)
        if is_whole:  # The next log may begin at any file, and with any queue offset.
            for name in VIEW_DIRECTORIES:
                _remove_files(disk, settings.directory / name)
            log.files.cut(0)
            log.begin_at(0)
            disk.sync_directory(log.files.directory)
        else:
            log.truncate(begin)
        logger.warning(
            "log.diverged",
            extra={"physical_offset": begin, "bytes": end - begin,
                   "copy": str(own / DIVERGED_DIRECTORY)},
        )  # fmt: skip
    finally:
        parts.close()


def cut_if_room(settings: StoreSettings, disk: Disk, begin: int) -> None:
    """Cuts a log like `cut_log`; if the disk is full, leaves it as it is.

    A follower then asks its leader again, and cuts its log once there is room.
    Errors   those of a start; StoreFailed
    """
    try:
        cut_log(settings, disk, begin)
    except DiskFull as full:
        logger.error("disk.full", extra={"path": full.path})


def set_aside(disk: Disk, store_directory: Path) -> Aside:
    """Returns the size of what was set aside and not removed since; blocks."""
    directory = store_directory / OWN_DIRECTORY / DIVERGED_DIRECTORY
    size_bytes = message_count = 0
    for name in disk.names(directory) if disk.exists(directory) else ():
        if not name.endswith(NOTE_SUFFIX):
            size_bytes += disk.file_size(directory / name)
            note = directory / (name + NOTE_SUFFIX)
            found = read_object(disk.read_file(note)) if disk.exists(note) else {}
            message_count += int(found.get("messages", 0))
    return Aside(size_bytes, message_count)


def _remove_files(disk: Disk, directory: Path) -> None:
    """Removes all files durably: a crash must not restore them under the names of new files."""
    names = disk.names(directory) if disk.exists(directory) else []
    for name in names:
        path = directory / name
        if disk.is_directory(path):
            _remove_files(disk, path)
        else:
            disk.unlink(path)
    if names:
        disk.sync_directory(directory)


def _set_aside(parts: StoreComponents, begin: int) -> int:
    """Copies the bytes from an offset on; returns the end of the last byte that is not zero."""
    directory = parts.own_directory / DIVERGED_DIRECTORY
    parts.disk.make_directory(directory)
    copies, found = Quarantine(parts.disk, directory), begin
    for file in parts.log.files_between(begin, 2**63 - 1):
        first = max(begin, file.base)
        end = file.base + file.open().data_end()
        if first < end:
            count = sum(1 for _ in parts.log.scan(first, end))
            note = {"reason": "diverged", "messages": count}
            copies.keep(file.path, first, end, base=file.base, note=note)
            found = end
    parts.disk.sync_directory(directory)
    return found


def _distrust(parts: StoreComponents, begin: int) -> None:
    mark, before = parts.mark, parts.checkpoint.values
    values = before._replace(
        logics_physical_offset=min(before.logics_physical_offset, begin),
        confirm_physical_offset=min(before.confirm_physical_offset, begin),
    )
    mark.confirmed_upto = min(mark.confirmed_upto, begin)
    mark.is_confirmed = True  # Both brokers have what is left.
    parts.ends.remove()
    if mark.valid_upto(encode_checkpoint(before)) is not None:
        mark.write(min(mark.flushed_upto, begin), encode_checkpoint(values))
        mark.sync()
    parts.checkpoint.save(values)
