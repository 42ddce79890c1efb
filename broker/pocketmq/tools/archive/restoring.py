"""Restores a store from an archive, as it was at a moment; every byte is checked."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import zstandard

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FullDisk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, TIMER_LOG_DIRECTORY, offset_file_name
from pocketmq.model.errors import Corruption
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.archive.catalog import (
    LOG,
    TIMER,
    LogPart,
    Moment,
    StoredFile,
    covering,
    parts_of,
)
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.backup import make_as_after_crash
from pocketmq.tools.restore import drafted

_WRONG_BYTES: Final = "its bytes do not match the sha256 in its name"


def restore_moment(
    disk: Disk, objects: Objects, moment: Moment, directory: Path, *, advance: Advance = no_advance
) -> None:
    """Makes a store of a moment; the first start rebuilds its queues and index.

    After an error the target is unchanged, unless the sync after the final rename failed.

    Errors   NotAStore: the target is not empty
             Corruption: an object is missing, or its bytes do not match the digest in its name
             StoreLocked, DiskFull, AllocationFailed, FsyncFailed; OSError: the archive fails
    Cost     about 200 MB/s from a local directory
    """
    with drafted(disk, directory) as draft:
        disk.make_directory(draft / COMMIT_LOG_DIRECTORY)
        sizes = KnownShape(**moment.shape)
        logs = _Logs(disk, objects, advance)
        logs.restore(
            LOG, draft / COMMIT_LOG_DIRECTORY, moment.begin, moment.upto,
            sizes.commit_log_file_size_bytes,
        )  # fmt: skip
        if moment.timer_file_bytes:
            logs.restore(
                TIMER, draft / TIMER_LOG_DIRECTORY, moment.timer_begin, moment.timer_upto,
                moment.timer_file_bytes,
            )  # fmt: skip
        for file in moment.files:
            _restore_file(disk, objects, moment, file, draft)
        make_as_after_crash(disk, draft, moment.upto, sizes)


class _Logs:
    def __init__(self, disk: Disk, objects: Objects, advance: Advance) -> None:
        self._disk, self._objects, self._advance = disk, objects, advance

    def restore(self, prefix: str, place: Path, begin: int, upto: int, file_size: int) -> None:
        """Writes the files of a log's range; the bytes after `upto` are zeros."""
        self._disk.make_directory(place)
        for base in range(begin, upto, file_size):
            self._disk.close(self._disk.make_sparse_file(place / offset_file_name(base), file_size))
        parts = covering(parts_of(self._objects.names(prefix)), begin, upto)
        for part in parts:
            self._write(prefix, part, place, begin, upto, file_size)

    def _write(
        self, prefix: str, part: LogPart, place: Path, begin: int, upto: int, file_size: int
    ) -> None:
        """Writes a part's bytes, which are all in one file."""
        base = begin + (part.begin - begin) // file_size * file_size
        path = place / offset_file_name(base)
        at, digest, name = part.begin, sha256(), f"{prefix}/{part.name}"
        descriptor = self._disk.open(path)
        try:
            for piece in _got(self._objects, name):
                digest.update(piece)
                kept = piece[: max(upto - at, 0)]
                with FullDisk(path):
                    self._disk.write_at(descriptor, at - base, kept)
                at += len(piece)
                self._advance(len(kept))
        finally:
            self._disk.close(descriptor)
        if (at, digest.hexdigest()) != (part.end, part.digest):
            raise _changed(self._objects, name, part.begin, _WRONG_BYTES)


def _restore_file(
    disk: Disk, objects: Objects, moment: Moment, file: StoredFile, draft: Path
) -> None:
    target, name = draft / file.path, moment.file_object(file)
    if not target.resolve().is_relative_to(draft):
        raise _changed(objects, moment.name, 0, f"{file.path} is outside of the store")
    try:
        content = zstandard.decompress(b"".join(_got(objects, name)))
    except zstandard.ZstdError as error:
        raise _changed(objects, name, 0, str(error)) from error
    if sha256(content).hexdigest() != file.digest:
        raise _changed(objects, name, 0, _WRONG_BYTES)
    disk.add_directory(target.parent)
    disk.write_file(target, content)


def _got(objects: Objects, name: str) -> Iterable[bytes]:
    try:
        yield from objects.get(name)
    except FileNotFoundError as error:
        why = "it is missing; `pocketmq archive ship` may have replaced it: try again"
        raise _changed(objects, name, 0, why) from error


def _changed(objects: Objects, name: str, physical_offset: int, why: str) -> Corruption:
    path = f"{objects.target}/{name}"
    return Corruption(path=path, file_position=0, physical_offset=physical_offset, why=why)
