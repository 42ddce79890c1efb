"""Restores a store from a backup and checks every byte.

All files are copied to a draft directory beside the target and compared with the digests in
`backup.json`. Then the draft is made durable and renamed to the target. After an error before the
rename, the target is unchanged. If a restore is killed, the next restore to the same target removes
the draft.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, LOCK_FILE
from pocketmq.log.store_directory import StoreDirectory
from pocketmq.model.errors import Corruption, NotAStore
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.copies import BACKUP_FILE, Backup, CopiedFile, copy_file, read_backup
from pocketmq.tools.install import sync_tree
from pocketmq.tools.store_access import in_use, is_live

RESTORING_SUFFIX: Final = ".restoring"


def restore(disk: Disk, copy: Path, directory: Path, *, advance: Advance = no_advance) -> Backup:
    """Copies a backup to a new store; returns the content of `backup.json`.

    After an error the target is unchanged, unless the sync after the rename failed. Then the target
    is the whole restored store, but a crash of the machine may undo the rename.

    Errors   NotAStore: the target is not empty, or the backup is unfinished
             StoreLocked: the backup is in use, or another restore writes to the same target
             Corruption: a file of the backup is missing, or was changed since it was copied, for
             example by a broker that opened the copy
             DiskFull, AllocationFailed, FsyncFailed
    Cost     about 300 MB/s
    """
    disk.enclosure.add(copy)
    found = read_backup(disk, copy)
    if found is None:
        raise NotAStore(path=str(copy), why=f"it has no {BACKUP_FILE}: no backup was finished")
    if is_live(copy):
        raise in_use(copy)
    if found.log_gap:
        raise _changed(copy / BACKUP_FILE, found.log_gap)
    with drafted(disk, directory) as draft:
        disk.make_directory(draft / COMMIT_LOG_DIRECTORY)
        for file in found.files:
            _copy(disk, copy, file, draft, advance)
    return found


@contextmanager
def drafted(disk: Disk, directory: Path) -> Iterator[Path]:
    """Yields an empty, locked draft beside a new store; renames it to the store on success.

    Errors   NotAStore: the store's place is not empty
             StoreLocked: another restore writes to the same place
             FsyncFailed
    """
    directory = directory.resolve()
    _check_place(directory)
    draft = directory.with_name(directory.name + RESTORING_SUFFIX)
    lock = StoreDirectory(disk, draft)
    lock.acquire()
    try:
        for name in set(disk.names(draft)) - {LOCK_FILE}:
            path = draft / name
            is_tree = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path) if is_tree else path.unlink()
        yield draft
        sync_tree(disk, draft)
        disk.rename(draft, directory)
        disk.sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        lock.release()


def _check_place(directory: Path) -> None:
    if not directory.exists():
        return
    why = ""
    if not directory.is_dir():
        why = "it is a file"
    elif any(directory.iterdir()):
        why = "it is not empty"
    elif directory.is_mount():
        why = "a disk is mounted there, so that no directory can take its place"
    if why:
        raise NotAStore(path=str(directory), why=why)


def _copy(disk: Disk, copy: Path, file: CopiedFile, draft: Path, advance: Advance) -> None:
    """Copies one file and compares it with the backup's digest."""
    source, target, why = copy / file.path, draft / file.path, ""
    if not target.resolve().is_relative_to(draft):
        why = "it is outside of the copy"
    elif not source.is_file():
        why = "it is missing"
    else:
        disk.add_directory(target.parent)
        size = source.stat().st_size
        digest = copy_file(disk, source, target, upto=size, size=size, advance=advance)
        why = "" if digest == file.sha256 else f"its sha256 is {digest}, not that of {BACKUP_FILE}"
    if why:
        raise _changed(source, why)
    os.utime(target, ns=(file.changed_ns, file.changed_ns))


def _changed(path: Path, why: str) -> Corruption:
    return Corruption(path=str(path), file_position=0, physical_offset=0, why=why)
