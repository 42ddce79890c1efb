"""Copies a store, running or stopped, as a new generation of a backup target.

    tables that hold positions ─► end of the log ─► log ─► all other files ─► manifest

What is copied of a running store is its log up to what was flushed for certain, and its tables;
queues and index are views and are built again. The order keeps a copy consistent while messages
arrive: no consumer's position in it lies behind the end of its log, and no topic of its log lacks a
name. A file of the log that is full is stored once and not read again while its size, time of
change and inode stay. Nothing of the store is written to, and its lock is not taken.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.files.disk import Disk
from broker.format.names import ABORT_FILE, CHECKPOINT_FILE, COMMIT_LOG_DIRECTORY, LOCK_FILE
from broker.format.record import BLANK_SIZE, MAGIC_BLANK, SIZE_AND_MAGIC
from broker.format.table_json import decode_table
from broker.model.errors import NotAStore, StoreLocked
from broker.model.offsets import OFFSET_MAX
from broker.rebuild.log_files import LogFile, find_log_files, records_end
from broker.rebuild.range_pass import Told, tell_nobody
from broker.tools.backup_files import Turn, shown_left_out, turn_of, walk
from broker.tools.backup_manifest import (
    FRAME_SIZE,
    BackupTarget,
    Content,
    Generation,
    StoredFile,
    generation_name,
)
from broker.tools.store_access import Sizes, is_live
from broker.tools.verify.tables import flushed_upto
from broker.walk.reader import LogReader

LEVEL: Final = 3
"""Of zstd: a deeper one costs more time than it saves room."""
TABLE_TRIES: Final = 5
"""A running broker replaces its tables; between two renames there is none for a moment."""


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """What a backup is told.

    with_views    copy queues and index too; only of a store that is stopped
    level         of zstd, 1 to 19
    check         read sealed files and their objects again, and compare
    """

    with_views: bool = False
    level: int = LEVEL
    check: bool = False


@dataclass(slots=True)
class BackupResult:
    """What a backup did.

    bytes_read    of the store
    files_known   sealed files that were not copied again
    changed       files whose content is another although their size, time and inode are not
    """

    generation: Generation
    bytes_read: int = 0
    objects_new: int = 0
    object_bytes_new: int = 0
    files_known: int = 0
    changed: list[str] = field(default_factory=list)


def backup(
    disk: Disk, directory: Path, target: BackupTarget, sizes: Sizes, options: BackupOptions, *,
    now: datetime, tell: Told = tell_nobody,
) -> BackupResult:  # fmt: skip
    """Add a generation of a store to a target.

    now      names the generation; a clock that was set back is put right
    Errors   NotAStore: the target lies in the store, or holds another's backups; StoreLocked: views
             are asked for of a running store, it was started meanwhile, or the target is in use;
             WrongFileSize, StoreGap, DiskFull, FsyncFailed. The target is as it was
    Cost     about 150 MB/s of what is new, and a sync for each object
    """
    store = directory.resolve()
    if target.path.resolve().is_relative_to(store):
        raise NotAStore(path=str(target.path), why="it lies in the store that it is to hold")
    running, was_aborted = is_running(disk, directory), disk.exists(directory / ABORT_FILE)
    if running and options.with_views:
        raise StoreLocked(path=str(directory))
    with target.held():
        before = next(reversed(target.catalog().generations), None)
        _check_same_store(store, target, before)
        generation = Generation(
            generation_name(now, before.name if before else ""),
            int(now.timestamp() * 1000), str(store), is_live=running,
            is_whole=options.with_views and not was_aborted,
        )  # fmt: skip
        copy = _Copy(disk, directory, target, options, BackupResult(generation), before, tell)
        copy.files(Turn.EARLY)
        copy.log(find_log_files(directory, sizes.commit_log_file_bytes))
        copy.files(Turn.LATE)
        if not running and (is_live(directory) or _is_marked_anew(disk, directory, was_aborted)):
            raise StoreLocked(path=str(directory))
        target.add(generation)
    return copy.result


def is_running(disk: Disk, directory: Path) -> bool:
    """Return whether a broker has a store open; where its lock may not be asked, its mark tells."""
    lock = directory / LOCK_FILE
    if disk.exists(lock) and not os.access(lock, os.W_OK):
        return disk.exists(directory / ABORT_FILE)
    return is_live(directory)


def _is_marked_anew(disk: Disk, directory: Path, was_aborted: bool) -> bool:
    return not was_aborted and disk.exists(directory / ABORT_FILE)


def _check_same_store(store: Path, target: BackupTarget, before: Generation | None) -> None:
    """Raise unless a store is the one whose backups the target holds, wherever it lies now."""
    if before is None or before.store == str(store):
        return
    for file in reversed(before.log_files):
        path = store / file.path
        if file.taken and path.is_file():
            if _sha256(path, file.taken) == file.sha256:
                return
            break
    raise NotAStore(path=str(target.path), why=f"it holds backups of {before.store}")


def _sha256(path: Path, size: int) -> str:
    """Return the sha256 of a file's first bytes."""
    digest = sha256()
    with path.open("rb") as source:
        while size and (piece := source.read(min(FRAME_SIZE, size))):
            size -= len(piece)
            digest.update(piece)
    return digest.hexdigest()


class _Copy:
    """One generation in the making."""

    __slots__ = (
        "_before", "_directory", "_disk", "_known", "_options", "_target", "_tell", "result",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, target: BackupTarget, options: BackupOptions,
        result: BackupResult, before: Generation | None, tell: Told,
    ) -> None:  # fmt: skip
        self._disk = disk
        self._directory = directory
        self._target = target
        self._options = options
        self._tell = tell
        self._before = before.name if before else ""
        self._known = {file.path: file for file in before.files} if before else {}
        self.result = result

    # -- small files and views -----------------------------------------------------------------
    def files(self, turn: Turn) -> None:
        """Copy all files whose turn it is, and note what is left out."""
        generation = self.result.generation
        running, left_out = generation.is_live, set()
        for relative in walk(self._directory):
            found = turn_of(relative, running=running, with_views=self._options.with_views)
            if found is Turn.LEFT_OUT:
                left_out.add(shown_left_out(relative))
            elif found is turn:
                is_table = running and relative != CHECKPOINT_FILE
                stored = self._table(relative) if is_table else self._whole(relative)
                generation.files += [stored] if stored is not None else []
        generation.left_out = sorted(left_out)

    def _whole(self, relative: str) -> StoredFile:
        path = self._directory / relative
        stat = path.stat()
        content = self._put(_pieces(path, stat.st_size))
        return _stored(relative, stat, content)

    def _table(self, relative: str) -> StoredFile | None:
        """Copy a table of a running store; None when it is gone: its previous version is there."""
        path, content = self._directory / relative, None
        for _ in range(TABLE_TRIES):
            try:
                stat, content = path.stat(), path.read_bytes()
                decode_table(content)
            except (FileNotFoundError, ValueError):  # Is being replaced, or written over.
                continue
            break
        if content is None:
            return None
        stored = _stored(relative, stat, self._put(iter([content] if content else [])))
        return replace(stored, size=len(content))

    # -- the log -------------------------------------------------------------------------------
    def log(self, files: Sequence[LogFile]) -> None:
        """Copy the log up to where it counts as written."""
        generation = self.result.generation
        limit = OFFSET_MAX
        if generation.is_live:
            generation.flushed = flushed_upto(self._disk, self._directory)
        if generation.flushed is not None:
            limit = generation.flushed
        generation.upto = min(records_end(files, limit), limit)
        if generation.is_live and generation.flushed is None:
            limit = generation.upto
        first = len(generation.files)
        for file in files:
            if file.base >= limit:
                continue
            try:
                generation.files.append(self._log_file(file, limit))
            except FileNotFoundError:  # Retention took it, and with it all older ones.
                del generation.files[first:]
        begins = [file.base for file in generation.files[first:] if file.base is not None]
        generation.begin = min(begins, default=0)

    def _log_file(self, file: LogFile, limit: int) -> StoredFile:
        generation, path = self.result.generation, Path(file.path)
        relative = f"{COMMIT_LOG_DIRECTORY}/{path.name}"
        is_sealed = generation.upto >= file.end or _is_closed(file, generation.upto)
        stat = path.stat()
        known = self._known.get(relative)
        if known is not None and is_sealed and self._is_same(known, stat):
            if not self._options.check or self._is_still_so(path, known):
                self.result.files_known += 1
                self._tell(file.size)
                return known
        upper = file.size if is_sealed else min(limit - file.base, file.size)
        content = self._put(_pieces(path, upper))
        damage = first_damage(file, min(checked_upto(generation), file.end))
        if relative in self.result.changed and not damage:
            damage = f"its content is not what it was in {self._before}"
        return _stored(relative, stat, content, is_sealed=is_sealed, damage=damage)

    def _is_same(self, known: StoredFile, stat: os.stat_result) -> bool:
        found = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        return (
            known.is_sealed
            and (known.size, known.changed_ns, known.inode) == found
            and self._target.has_object(known)
        )

    def _is_still_so(self, path: Path, known: StoredFile) -> bool:
        """Return whether file and object still hold what they held; reads both."""
        if _sha256(path, known.taken) != known.sha256:
            self.result.changed.append(known.path)
            return False
        return self._target.is_sound(known)

    # -- content -------------------------------------------------------------------------------
    def _put(self, pieces: Iterator[bytes]) -> Content:
        content = self._target.put(self._counted(pieces), self._options.level)
        if content.is_new:
            self.result.objects_new += 1
            self.result.object_bytes_new += content.object_size
        return content

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.result.bytes_read += len(piece)
            self._tell(len(piece))
            yield piece


def _stored(
    relative: str, stat: os.stat_result, content: Content, *, is_sealed: bool = False,
    damage: str = "",
) -> StoredFile:  # fmt: skip
    return StoredFile(
        relative, stat.st_size, content.taken, content.sha256, content.object, content.object_size,
        stat.st_mtime_ns, stat.st_ino, is_sealed, damage,
    )  # fmt: skip


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """Yield a file's first bytes up to the last that is not zero."""
    zeros = 0
    with path.open("rb", buffering=0) as source:
        while size and (piece := source.read(min(FRAME_SIZE, size))):
            size -= len(piece)
            content = piece.rstrip(b"\0")
            if not content:
                zeros += len(piece)
                continue
            for begin in range(0, zeros, FRAME_SIZE):
                yield bytes(min(FRAME_SIZE, zeros - begin))
            yield content
            zeros = len(piece) - len(content)


# -- how far the log reaches -----------------------------------------------------------------------
def checked_upto(generation: Generation) -> int:
    """Return up to where the log of a generation must be sound records."""
    return generation.upto if generation.flushed is None else generation.flushed


def first_damage(file: LogFile, upto: int) -> str:
    """Return where and why the records of a file are not sound up to an offset, "" if they are.

    Cost     about 1 s a million records, CRCs included
    """
    reader = LogReader(check_crc=True)
    with file.opened() as source:
        for _ in reader.chunks(source, file.base, upto):
            pass
    stop = reader.stop
    if stop.is_orderly:
        return ""
    return f"at {stop.physical_offset}: {stop.reason or 'no record'}"


def _is_closed(file: LogFile, end: int) -> bool:
    """Return whether a BLANK, or too little room for one, follows on the last record of a file."""
    left = file.end - end
    if not BLANK_SIZE <= left < file.size:
        return 0 <= left < BLANK_SIZE
    with Path(file.path).open("rb") as opened:
        opened.seek(end - file.base)
        return bool(SIZE_AND_MAGIC.unpack(opened.read(BLANK_SIZE)) == (left, MAGIC_BLANK))
