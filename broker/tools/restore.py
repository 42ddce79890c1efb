"""Brings a generation of a backup back as a store, every byte proved on the way.

    1. all files are written to a draft directory beside the new one, under a lock of its own
    2. a copy that lacks its views, or was not of a store stopped in order, gets the abort mark
    3. the log's records are checked up to where the copy reaches
    4. everything is made durable, and the draft gets the name asked for

Whatever goes wrong, no store of that name appears. A restore that was killed leaves the draft; the
next one of the same name clears it away.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from broker.files.directory_lock import DirectoryLock
from broker.files.disk import Disk
from broker.files.disk_errors import FullDisk
from broker.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from broker.format.names import CHECKPOINT_FILE, LOCK_FILE
from broker.log.flushed_mark import MARK_FILE, FlushedMark
from broker.log.store_directory import StoreDirectory
from broker.log.store_manifest import MANIFEST_FILE, ManifestFile
from broker.model.errors import Corruption, NotAStore, StoreTooNew
from broker.rebuild.log_files import LogFile
from broker.rebuild.range_pass import Told, tell_nobody
from broker.tools.backup import checked_upto, first_damage
from broker.tools.backup_manifest import BackupTarget, Generation, StoredFile, write_all
from broker.tools.install import sync_tree

RESTORING_SUFFIX: Final = ".restoring"
BLOCK_SIZE: Final = 64 * 1024
"""Zeros of this size are left out of a file: it stays sparse."""


def restore(
    disk: Disk, target: BackupTarget, generation: Generation, directory: Path, *,
    tell: Told = tell_nobody,
) -> None:  # fmt: skip
    """Write a generation's files as a store that does not exist yet.

    Errors   NotAStore: the directory is not empty; StoreLocked: another restore is at it;
             Corruption: an object is missing or damaged, or the log is not sound; DiskFull,
             FsyncFailed. No store appears
    Cost     about 150 MB/s; the log is read once more
    """
    directory = directory.resolve()
    _check_place(directory)
    disk.make_directory(directory.parent)
    with _draft(disk, directory.with_name(directory.name + RESTORING_SUFFIX)) as draft:
        for file in generation.files:
            _write(target, file, draft / file.path, tell)
        if not generation.is_whole:
            _make_as_after_crash(disk, draft, generation)
        _check_log(generation, draft, directory)
        sync_tree(disk, draft)
        disk.rename(draft, directory)
        disk.sync_directory(directory.parent)


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


@contextmanager
def _draft(disk: Disk, draft: Path) -> Iterator[Path]:
    """Make the directory to write to, empty and locked; it is removed if it is not renamed."""
    StoreDirectory(disk, draft).check()
    disk.make_directory(draft)
    lock = DirectoryLock(draft / LOCK_FILE)
    lock.acquire()
    try:
        for path in draft.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK_FILE:
                path.unlink()
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        lock.release()


def _write(target: BackupTarget, file: StoredFile, path: Path, tell: Told) -> None:
    """Write one file at its full length; blocks of zeros take no room."""
    with FullDisk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sink = path.open("wb", buffering=0)
    with sink:
        for piece in target.content(file):
            tell(len(piece))
            for begin in range(0, len(piece), BLOCK_SIZE):
                block = piece[begin : begin + BLOCK_SIZE]
                if block.count(0) == len(block):
                    sink.seek(len(block), os.SEEK_CUR)
                else:
                    write_all(sink, block, path)
        with FullDisk(path):
            sink.truncate(file.size)
    os.utime(path, ns=(file.changed_ns, file.changed_ns))


def _make_as_after_crash(disk: Disk, draft: Path, generation: Generation) -> None:
    """Let the store open as one that was killed: it finds its end and builds its views.

    What was flushed is written down anew, so that a loss below it would be noticed.
    """
    store = StoreDirectory(disk, draft)
    store.mark_running(disk.own_process_id())
    _forget_closing(disk, store.own_directory)
    if disk.exists(store.own_directory / MARK_FILE):
        return
    path = draft / CHECKPOINT_FILE
    checkpoint = decode_checkpoint(disk.read_file(path) if disk.exists(path) else b"")
    disk.make_directory(store.own_directory)
    mark = FlushedMark(disk, store.own_directory)
    mark.open()
    try:
        mark.write(checked_upto(generation), encode_checkpoint(checkpoint))
        mark.sync()
    finally:
        mark.close()


def _forget_closing(disk: Disk, own_directory: Path) -> None:
    """Take back what store.json lists of views that are not part of the copy."""
    try:
        manifest = ManifestFile(disk, own_directory).read()
    except (ValueError, StoreTooNew):
        return  # As it was in the store.
    if manifest is not None and manifest.closed is not None:
        content = json.dumps(asdict(replace(manifest, closed=None)), indent=2)
        disk.write_file(own_directory / MANIFEST_FILE, content.encode())


def _check_log(generation: Generation, draft: Path, directory: Path) -> None:
    """Raise unless the log's records are sound up to where the copy reaches.

    A file that was damaged in the store already is as it was, and stays so.
    """
    for file in generation.log_files:
        base = file.base
        assert base is not None
        log_file = LogFile(str(draft / file.path), base, file.size)
        upto = min(checked_upto(generation), log_file.end)
        found = "" if file.damage else first_damage(log_file, upto)
        if found:
            raise Corruption(
                path=str(directory / file.path), file_position=0, physical_offset=base,
                why=f"no sound record {found}",
            )  # fmt: skip
