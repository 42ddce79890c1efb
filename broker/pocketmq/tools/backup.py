"""Copies a store, running or stopped, as a plain store directory that opens as it is.

    what changed in order ─► tables that hold positions ─► end of the log ─► log
                                                  COPY/backup.json ◄─ all other files ◄─┘

Of a running store the log is copied up to the durable offset, with the tables;
queues and index are views and are built again. The order keeps a copy consistent while messages
arrive: no consumer's position in it is behind the end of its log, and no topic of its log lacks a
name. A copy that lacks its views opens as after a crash. Nothing of the store is written to, and
its lock is not taken.

backup.json names every file with its sha256. It is written last: a copy without it was not
finished, and the next run continues from `backup.json.before`. Complete files, such as full ones of
the log, are not copied again while size and time of change stay.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.names import (
    ABORT_FILE,
    BACKUP_SUFFIX,
    COMMIT_LOG_DIRECTORY,
    LEFT_OVER_FILE,
    LOCK_FILE,
    MARK_FILE,
    OWN_DIRECTORY,
)
from pocketmq.format.table_json import decode_file
from pocketmq.log.checkpoint import FlushedMark, read_checkpoint
from pocketmq.log.deleted_topics import left_over_now
from pocketmq.log.foreign import check_understood
from pocketmq.log.queue_places import expired_queues
from pocketmq.log.store_directory import MANIFEST_FILE, ManifestFile, StoreDirectory, StoreManifest
from pocketmq.model.errors import NotAStore, StoreLocked, StoreTooNew
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_log_files, records_end
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.copies import (
    BACKUP_FILE,
    BEFORE_FILE,
    DRAFT_FILE,
    RUNNING,
    STOPPED,
    WITH_VIEWS,
    Backup,
    CopiedFile,
    Turn,
    copy_file,
    is_of_a_store,
    read_backup,
    shown_left_out,
    turn_of,
    walk,
    write_backup,
)
from pocketmq.tools.durable import flushed_upto
from pocketmq.tools.install import sync_tree
from pocketmq.tools.store_access import check_access, is_live
from pocketmq.walk.reader import LogReader

_TABLES: Final = (".json", BACKUP_SUFFIX)
"""How the names of tables end."""
TABLE_TRIES: Final = 5
"""A running broker replaces its tables; between two renames there is none for a moment."""
_MADE: Final = (
    ABORT_FILE,
    f"{OWN_DIRECTORY}/{MARK_FILE}",
    f"{OWN_DIRECTORY}/{MANIFEST_FILE}",
    f"{OWN_DIRECTORY}/{LEFT_OVER_FILE}",
)
"""Files that are rewritten in a copy that is to open as after a crash."""


def backup(
    disk: Disk, directory: Path, copy: Path, sizes: KnownShape, *, now_ms: int,
    with_views: bool = False, advance: Advance = no_advance,
) -> Backup:  # fmt: skip
    """Copies a store, or bring its copy up to date.

    with_views   copy queues and index too; only of a store that is stopped
    Errors       NotAStore: other things are there; Corruption: its backup.json was changed;
                 StoreLocked: views are asked for of a running store, it was started meanwhile, or
                 the copy is in use; WrongFileSize, StoreGap, DiskFull, FsyncFailed. A copy
                 that was begun then lacks backup.json; those of `check_understood`: none was begun
    Cost         about 300 MB/s of what is new
    """
    check_understood(disk, directory)
    check_access(disk, directory, read_only=True)
    disk.enclosure.add(copy)
    store, place = directory.resolve(), copy.resolve()
    if place.is_relative_to(store) or store.is_relative_to(place):
        raise NotAStore(path=str(copy), why="it lies in the store, or around it")
    running, was_aborted = is_running(disk, directory), disk.exists(directory / ABORT_FILE)
    if running and with_views:
        raise StoreLocked(path=str(directory))
    made = Backup(str(store), now_ms, is_live=running, is_whole=with_views and not was_aborted)
    column = RUNNING if running else WITH_VIEWS if with_views else STOPPED
    with _begun(disk, copy, str(store)) as before:
        earlier = {file.path: file for file in before.files}
        copying = _Copying(
            disk, directory, copy, made, earlier, column, sizes.commit_log_file_size_bytes, advance
        )
        copying.files(Turn.FIRST)
        copying.files(Turn.EARLY)
        copying.log(find_log_files(directory, sizes.commit_log_file_size_bytes))
        copying.files(Turn.LATE)
        was_marked = not was_aborted and disk.exists(directory / ABORT_FILE)
        if not running and (is_live(directory) or was_marked):
            raise StoreLocked(path=str(directory))
        copying.finish(sizes)
    return made


def is_running(disk: Disk, directory: Path) -> bool:
    """Returns whether a broker has a store open: by its lock, else by its abort mark."""
    lock = directory / LOCK_FILE
    if disk.exists(lock) and not os.access(lock, os.W_OK):
        return disk.exists(directory / ABORT_FILE)
    return is_live(directory)


@contextmanager
def _begun(disk: Disk, copy: Path, store: str) -> Iterator[Backup]:
    """Keeps others out of a copy, which is unfinished from now on; yields the earlier backup.

    Errors   NotAStore, StoreLocked, Corruption; then nothing is changed
    """
    said = [read_backup(disk, copy, name) for name in (BACKUP_FILE, BEFORE_FILE)]
    before = said[0] or said[1]
    if before is None:
        names = set(disk.names(copy)) - {LOCK_FILE, DRAFT_FILE, "lost+found"}
        if COMMIT_LOG_DIRECTORY in names and not disk.names(copy / COMMIT_LOG_DIRECTORY):
            names.remove(COMMIT_LOG_DIRECTORY)  # All that a first backup made before it was killed.
        if names:
            raise NotAStore(path=str(copy), why=f"other things lie there ({min(names)} …)")
        before = Backup(store)
    if before.store != store:
        raise NotAStore(path=str(copy), why=f"it is a copy of {before.store}")
    disk.make_directory(copy / COMMIT_LOG_DIRECTORY)
    lock = disk.directory_lock(copy / LOCK_FILE)
    lock.acquire()
    try:
        write_backup(disk, copy, before, BEFORE_FILE)
        disk.unlink(copy / BACKUP_FILE)
        disk.sync_directory(copy)
        yield before
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class _Copying:
    """One run in progress.

    earlier   files that earlier runs copied, by path
    column    which turns files have: RUNNING, STOPPED or WITH_VIEWS
    """

    _disk: Disk
    _directory: Path
    _copy: Path
    _made: Backup
    _earlier: dict[str, CopiedFile]
    _column: int
    _log_file_bytes: int
    _advance: Advance

    def files(self, turn: Turn) -> None:
        """Copies all files whose turn it is, and lists those left out."""
        left_out = set()
        for relative in walk(self._directory):
            found = turn_of(relative, self._column)
            if found is turn and self._made.is_live and relative.endswith(_TABLES):
                self._made.files += self._table(relative)
            elif found is turn:
                self._made.files.append(self._put(relative, is_complete=not self._made.is_live))
            elif found is Turn.OUT:
                left_out.add(shown_left_out(relative))
        self._made.left_out = sorted(left_out)

    def _table(self, relative: str) -> list[CopiedFile]:
        """Copies a table of a running store; when it is gone, its previous version is there."""
        copied: list[CopiedFile] = []
        for _ in range(TABLE_TRIES):
            with suppress(FileNotFoundError, ValueError):  # Is being replaced, or written over.
                copied = [self._put(relative, is_complete=False)]
                decode_file(Path(relative).name, self._disk.read_file(self._copy / relative))
                break
        return copied

    def log(self, files: Sequence[LogFile]) -> None:
        """Copies the log up to where it counts as written."""
        made = self._made
        if made.is_live:
            made.flushed = flushed_upto(self._disk, self._directory)
        limit = OFFSET_MAX if made.flushed is None else made.flushed
        made.upto = min(records_end(files, limit), limit)
        if made.is_live:
            limit = made.checked_upto
        copied: list[CopiedFile] = []
        for file in files:
            if file.base < limit:
                try:
                    copied.append(self._log_file(file, limit))
                except FileNotFoundError:  # Retention took it, and with it all older ones.
                    copied.clear()
        made.begin = int(Path(copied[0].path).name) if copied else made.upto
        made.files += copied

    def _log_file(self, file: LogFile, limit: int) -> CopiedFile:
        made = self._made
        is_complete = not made.is_live or made.upto >= file.end
        relative = f"{COMMIT_LOG_DIRECTORY}/{Path(file.path).name}"
        size = file.size if is_complete else min(limit - file.base, file.size)
        copied = self._put(relative, size, is_complete=is_complete)
        if copied is self._earlier.get(relative):
            return copied
        copy = LogFile(str(self._copy / relative), file.base, file.size)
        return replace(copied, damage=first_damage(copy, min(made.checked_upto, file.end)))

    def _put(self, relative: str, upto: int | None = None, *, is_complete: bool) -> CopiedFile:
        """Copies a file, or its first bytes, unless it is known; zeros replace the rest."""
        source, target = self._directory / relative, self._copy / relative
        known = self._earlier.get(relative)
        if is_complete and known is not None and known.is_complete:
            if known.is_at(source) and known.is_at(target):
                self._made.files_known += 1
                self._advance(known.size)
                return known
        stat = source.stat()
        upto, draft = stat.st_size if upto is None else upto, self._copy / DRAFT_FILE
        digest = copy_file(
            self._disk, source, draft, upto=upto, size=stat.st_size, advance=self._advance
        )
        os.utime(draft, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        self._disk.make_directory(target.parent)
        self._disk.rename(draft, target)
        self._made.bytes_copied += upto
        return CopiedFile(relative, stat.st_size, digest, stat.st_mtime_ns, is_complete)

    def finish(self, sizes: KnownShape) -> None:
        """Makes a store of the copy: removes files that are no part of it, and marks it durably."""
        made, copy = self._made, self._copy
        if not made.is_whole:
            self._keep_what_queues_tell()
            _make_as_after_crash(self._disk, copy, made, sizes)
            made.files = [file for file in made.files if file.path not in _MADE]
            made.files += [_recorded(copy, name) for name in _MADE if (copy / name).exists()]
        names = {file.path for file in made.files}
        assert len(names) == len(made.files)
        names |= {LOCK_FILE, BEFORE_FILE}
        for relative in list(walk(copy, follows_log=False)):
            if relative not in names and (relative in self._earlier or is_of_a_store(relative)):
                self._remove(relative)
        sync_tree(self._disk, copy)
        write_backup(self._disk, copy, made, BACKUP_FILE)
        self._disk.unlink(copy / BEFORE_FILE)
        self._disk.sync_directory(copy)

    def _keep_what_queues_tell(self) -> None:
        """Keeps facts that no record has: left-over records, and next offsets of empty queues."""
        disk, store, copy = self._disk, self._directory, self._copy
        found = left_over_now(disk, store, self._log_file_bytes)
        upto = self._made.checked_upto
        found = found._replace(topics=tuple((min(at, upto), known) for at, known in found.topics))
        disk.make_directory(copy / OWN_DIRECTORY)
        disk.replace_file(copy / OWN_DIRECTORY / LEFT_OVER_FILE, found.text.encode())
        for path in expired_queues(disk, store):
            relative = path.relative_to(store).as_posix()
            self._made.files.append(self._put(relative, is_complete=not self._made.is_live))

    def _remove(self, relative: str) -> None:
        """Takes a file away, and the directories that are empty without it."""
        path = self._copy / relative
        self._disk.unlink(path)
        for place in path.parents:
            if place in (self._copy, self._copy / COMMIT_LOG_DIRECTORY) or any(place.iterdir()):
                break
            place.rmdir()


def _recorded(copy: Path, relative: str) -> CopiedFile:
    stat, content = (copy / relative).stat(), (copy / relative).read_bytes()
    return CopiedFile(relative, stat.st_size, sha256(content).hexdigest(), stat.st_mtime_ns)


def _make_as_after_crash(disk: Disk, copy: Path, made: Backup, sizes: KnownShape) -> None:
    """Makes a copy open like a store after a crash: it finds its end and builds its views.

    Writes a new flushed mark, so that a loss below it is noticed. Writes the sizes of a store whose
    manifest lacks them, as the files that show them are not in the copy.
    """
    store = StoreDirectory(disk, copy)
    store.mark_running(disk.own_process_id())
    own = store.own_directory
    disk.make_directory(own)
    _state_sizes(disk, own, sizes)
    if any(file.path == f"{OWN_DIRECTORY}/{MARK_FILE}" for file in made.files):
        return
    disk.unlink(own / MARK_FILE)
    mark = FlushedMark(disk, own)
    mark.open()
    try:
        mark.write(made.checked_upto, encode_checkpoint(read_checkpoint(disk, copy)))
        mark.sync()
    finally:
        mark.close()


def _state_sizes(disk: Disk, own: Path, sizes: KnownShape) -> None:
    """Writes a copy's manifest with sizes, and without a list of views."""
    try:
        manifest = ManifestFile(disk, own).read()
    except (ValueError, StoreTooNew):
        return  # As it was in the store.
    if manifest is None:
        manifest = StoreManifest.with_shape(sizes, cluster="", broker="", made_here=False)
    elif manifest.closed is None:
        return
    content = json.dumps(asdict(replace(manifest, closed=None)), indent=2)
    disk.replace_file(own / MANIFEST_FILE, content.encode())


def first_damage(file: LogFile, upto: int) -> str:
    """Returns position and reason of the first unsound record below an offset, "" if none.

    Cost     about 1 s a million records, CRCs included
    """
    reader = LogReader(check_crc=True)
    with file.opened() as source:
        for _ in reader.chunks(source, file.base, upto):
            pass
    stop = reader.stop
    return "" if stop.is_orderly else f"at {stop.physical_offset}: {stop.reason or 'no record'}"
