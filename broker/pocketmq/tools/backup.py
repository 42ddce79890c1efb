"""Copies a store, running or stopped, to a directory that a broker can open.

    order journal ─► tables that hold offsets ─► end of the log ─► log
                                                  COPY/backup.json ◄─ all other files ◄─┘

The tables and the log up to its durable offset are copied from a running store. The broker rebuilds
queues and index when it opens the copy, as after a crash. The order of copying keeps the copy
consistent while messages arrive: no committed offset is beyond the end of its queue in the copied
log, and every topic of that log has a row. The store is neither written to nor locked.

`backup.json` lists every file with its sha256. It is written last: a copy without it is unfinished,
and the next run continues from `backup.json.before`. Complete files, such as full log files, are
copied again only if their size or modification time changed.
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
from pocketmq.model.errors import NotAStore, PlaceUnusable, StoreTooNew
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
from pocketmq.tools.store_access import check_access, in_use, is_live
from pocketmq.walk.reader import LogReader

TABLE_SUFFIXES: Final = (".json", BACKUP_SUFFIX)
"""Endings of table file names."""
TABLE_TRIES: Final = 5
"""Attempts to read a table of a running broker: it is briefly missing while it is replaced."""
_MADE: Final = (
    ABORT_FILE,
    f"{OWN_DIRECTORY}/{MARK_FILE}",
    f"{OWN_DIRECTORY}/{MANIFEST_FILE}",
    f"{OWN_DIRECTORY}/{LEFT_OVER_FILE}",
)
"""Files that a backup creates in a copy without views, so that it opens as after a crash."""


def backup(
    disk: Disk, directory: Path, copy: Path, sizes: KnownShape, *, now_ms: int,
    with_views: bool = False, advance: Advance = no_advance,
) -> Backup:  # fmt: skip
    """Copies a store, or updates an earlier copy of it.

    After an error during copying, the copy has no backup.json.

    with_views   copies queues and index also; the store must be stopped
    Errors       NotAStore: the copy's directory contains other files or another store's copy
                 PlaceUnusable: one of the two directories contains the other
                 Corruption: backup.json was changed since it was written
                 StoreLocked: the store is running and `with_views` is set, the store was started
                 meanwhile, or the copy is in use
                 WrongFileSize, StoreGap, DiskFull, FsyncFailed
                 those of `check_understood`, before anything is written
    Cost         about 300 MB/s of new data
    """
    check_understood(disk, directory)
    check_access(disk, directory, read_only=True)
    disk.enclosure.add(copy)
    store, place = directory.resolve(), copy.resolve()
    if place.is_relative_to(store) or store.is_relative_to(place):
        why = "it contains the store, or is inside of it; name another directory for the copy"
        raise PlaceUnusable(path=str(copy), why=why)
    running, was_aborted = is_running(disk, directory), disk.exists(directory / ABORT_FILE)
    if running and with_views:
        raise in_use(directory)
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
            raise in_use(directory)
        copying.finish(sizes)
    return made


def is_running(disk: Disk, directory: Path) -> bool:
    """Returns whether a broker has a store open.

    An unwritable lock file cannot be tested; the abort mark decides then.
    """
    lock = directory / LOCK_FILE
    if disk.exists(lock) and not os.access(lock, os.W_OK):
        return disk.exists(directory / ABORT_FILE)
    return is_live(directory)


@contextmanager
def _begun(disk: Disk, copy: Path, store: str) -> Iterator[Backup]:
    """Locks a copy and marks it as unfinished; yields the description of the earlier backup.

    Errors   NotAStore, StoreLocked, Corruption; after any of them the copy is unchanged
    """
    said = [read_backup(disk, copy, name) for name in (BACKUP_FILE, BEFORE_FILE)]
    before = said[0] or said[1]
    if before is None:
        names = set(disk.names(copy)) - {LOCK_FILE, DRAFT_FILE, "lost+found"}
        if COMMIT_LOG_DIRECTORY in names and not disk.names(copy / COMMIT_LOG_DIRECTORY):
            names.remove(COMMIT_LOG_DIRECTORY)  # A first backup that was killed left only this.
        if names:
            raise NotAStore(path=str(copy), why=f"it contains other files ({min(names)} …)")
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
    """One run of a backup.

    earlier   files that earlier runs copied, by path
    column    column of the table of turns in copies.py: RUNNING, STOPPED or WITH_VIEWS
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
        """Copies all files of a turn, and lists the files that are not copied."""
        left_out = set()
        for relative in walk(self._directory):
            found = turn_of(relative, self._column)
            if found is turn and self._made.is_live and relative.endswith(TABLE_SUFFIXES):
                self._made.files += self._table(relative)
            elif found is turn:
                self._made.files.append(self._put(relative, is_complete=not self._made.is_live))
            elif found is Turn.OUT:
                left_out.add(shown_left_out(relative))
        self._made.left_out = sorted(left_out)

    def _table(self, relative: str) -> list[CopiedFile]:
        """Copies a table of a running store.

        Returns an empty list if the table stays missing. Its `.bak` file is copied in any case.
        """
        copied: list[CopiedFile] = []
        for _ in range(TABLE_TRIES):
            with suppress(FileNotFoundError, ValueError):  # The broker is replacing it.
                copied = [self._put(relative, is_complete=False)]
                decode_file(Path(relative).name, self._disk.read_file(self._copy / relative))
                break
        return copied

    def log(self, files: Sequence[LogFile]) -> None:
        """Copies the log, or of a running store only the part below its durable offset.

        If that offset is unknown, the part up to the last record is copied.
        """
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
                except FileNotFoundError:  # Retention deleted it and all older files.
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
        """Copies a file, with zeros from `upto` on; skips complete files that are unchanged."""
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
        """Completes the copy: removes stale files, syncs all, and writes backup.json."""
        made, copy = self._made, self._copy
        if not made.is_whole:
            self._keep_what_queues_tell()
            is_marked = any(file.path == f"{OWN_DIRECTORY}/{MARK_FILE}" for file in made.files)
            upto = None if is_marked else made.checked_upto
            make_as_after_crash(self._disk, copy, upto, sizes)
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
        """Copies facts that only queues show: deleted topics, next offsets of empty queues."""
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
        """Removes a file, and the directories that become empty."""
        path = self._copy / relative
        self._disk.unlink(path)
        for place in path.parents:
            if place in (self._copy, self._copy / COMMIT_LOG_DIRECTORY) or any(place.iterdir()):
                break
            place.rmdir()


def _recorded(copy: Path, relative: str) -> CopiedFile:
    stat, content = (copy / relative).stat(), (copy / relative).read_bytes()
    return CopiedFile(relative, stat.st_size, sha256(content).hexdigest(), stat.st_mtime_ns)


def make_as_after_crash(disk: Disk, copy: Path, upto: int | None, sizes: KnownShape) -> None:
    """Prepares a copy for recovery: a broker finds the log's end and builds the views.

    Writes an abort mark. If the copy has no manifest, writes one with the file sizes: the copy has
    no view files that would show them.

    upto   flushed mark to write, below which recovery reports missing records; None: the copy has
           its store's mark
    """
    store = StoreDirectory(disk, copy)
    store.mark_running(disk.own_process_id())
    own = store.own_directory
    disk.make_directory(own)
    _state_sizes(disk, own, sizes)
    if upto is None:
        return
    disk.unlink(own / MARK_FILE)
    mark = FlushedMark(disk, own)
    mark.open()
    try:
        mark.write(upto, encode_checkpoint(read_checkpoint(disk, copy)))
        mark.sync()
    finally:
        mark.close()


def _state_sizes(disk: Disk, own: Path, sizes: KnownShape) -> None:
    """Writes a manifest with the file sizes, or removes the `closed` state from an existing one."""
    try:
        manifest = ManifestFile(disk, own).read()
    except (ValueError, StoreTooNew):
        return  # The copy keeps the store's unreadable manifest.
    if manifest is None:
        manifest = StoreManifest.with_shape(sizes, cluster="", broker="", made_here=False)
    elif manifest.closed is None:
        return
    content = json.dumps(asdict(replace(manifest, closed=None)), indent=2)
    disk.replace_file(own / MANIFEST_FILE, content.encode())


def first_damage(file: LogFile, upto: int) -> str:
    """Returns offset and reason of the first damage below `upto` as a text; "" without damage.

    Cost     about 1 s a million records, CRCs included
    """
    reader = LogReader(check_crc=True)
    with file.opened() as source:
        for _ in reader.chunks(source, file.base, upto):
            pass
    stop = reader.stop
    return "" if stop.is_orderly else f"at {stop.physical_offset}: {stop.reason or 'no record'}"
