"""Brings a generation of a backup back as a store, every byte proved on the way.

Files are written to a draft directory beside the new one, which gets its name when all of them are
whole, durable and their log's records sound. A damaged object is named with the file that needs it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import zstandard

from broker.files.disk import Disk
from broker.format.names import ABORT_FILE, COMMIT_LOG_DIRECTORY, OWN_DIRECTORY
from broker.log.commit_log import CommitLog
from broker.log.store_manifest import MANIFEST_FILE
from broker.model.errors import Corruption, NotAStore
from broker.tools.backup import PIECE, Generation, StoredFile, object_path
from broker.tools.install import sync_tree

DRAFT_SUFFIX: Final = ".restoring"


def restore(
    disk: Disk, target: Path, generation: Generation, directory: Path, *,
    tell: Callable[[int], None] = lambda byte_count: None,
) -> int:  # fmt: skip
    """Write a generation's files as a store; returns the bytes of its log.

    Errors   NotAStore: the directory is there and not empty; Corruption: an object is missing or
             damaged, or the log is not sound; nothing is left behind
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NotAStore(path=str(directory), why="it is not empty")
    draft = directory.with_name(directory.name + DRAFT_SUFFIX)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for file in generation.files:
            _write(target, file, draft / file.path, tell)
        if not generation.is_whole:  # Opened as after a crash: the views are made again.
            (draft / ABORT_FILE).write_bytes(b"0")
            _forget_closing(draft)
        _check_log(disk, draft, generation)
        sync_tree(disk, draft)
        if directory.exists():
            directory.rmdir()
        disk.rename(draft, directory)
        disk.sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return generation.upto


def _write(target: Path, file: StoredFile, path: Path, tell: Callable[[int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, written = hashlib.sha256(), 0
    with path.open("wb") as sink:
        if file.object:
            source_path = object_path(target, file.object)
            try:
                with source_path.open("rb") as source:
                    reader = zstandard.ZstdDecompressor().stream_reader(source)
                    while piece := reader.read(PIECE):
                        digest.update(piece)
                        sink.write(piece)
                        written += len(piece)
                        tell(len(piece))
            except (OSError, zstandard.ZstdError) as error:
                raise _damaged(source_path, file, str(error)) from error
            if digest.hexdigest() != file.object or written != file.kept:
                raise _damaged(source_path, file, "its content has another sha256")
        sink.truncate(file.size)
    os.utime(path, ns=(file.changed_ns, file.changed_ns))


def _damaged(path: Path, file: StoredFile, why: str) -> Corruption:
    return Corruption(
        path=str(path), file_position=0, physical_offset=0, why=f"{why}; it holds {file.path}"
    )


def _forget_closing(draft: Path) -> None:
    """Take back what store.json says of views that are not part of the copy."""
    path = draft / OWN_DIRECTORY / MANIFEST_FILE
    if path.exists():
        fields = json.loads(path.read_bytes())
        fields["closed"] = None
        path.write_text(json.dumps(fields, indent=2))


def _check_log(disk: Disk, draft: Path, generation: Generation) -> None:
    """Make sure that the log's records are sound up to where the backup reached."""
    sizes = [f.size for f in generation.files if f.path.startswith(COMMIT_LOG_DIRECTORY)]
    if not sizes:
        return
    log = CommitLog(disk, draft / COMMIT_LOG_DIRECTORY, sizes[0])
    log.load(read_only=True)
    try:
        scan = log.scan(log.min_offset, generation.upto, crc=True)
        for _ in scan:
            pass
        if scan.position < generation.upto:
            raise Corruption(
                path=scan.path or str(draft), file_position=scan.position % sizes[0],
                physical_offset=scan.position, why=scan.reason or "the records end too soon",
            )  # fmt: skip
    finally:
        log.close()
