"""The directory of one store: its lock, its abort mark and its manifest.

The file `abort` exists while a broker runs. If a start finds it, the last run did not stop in
order, unless that run ended after it wrote the `closed` list (`ClosedState.is_last_word`).

RocketMQ reads file sizes from its configuration; PocketMQ stores them with the data, in the
manifest `pocketmq/store.json`. Its member `closed` lists queues and index files at the last orderly
stop, so that a start notices missing files. The list is valid only while the checkpoint file is the
one written at that stop.
Source: DefaultMessageStore.load, createTempFile.
"""

import json
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import DRAFT_SUFFIX, TableFile
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.format.json_text import is_integer, read_object
from pocketmq.format.names import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    LOCK_FILE,
    OWN_DIRECTORY,
    is_junk,
    queue_id_from_name,
)
from pocketmq.model.errors import NotAPlainFile, NotAStore, StoreTooNew
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.model.store_shape import RECORDED, StoreShape

_STORE_NAMES: Final = {
    *(ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE, OWN_DIRECTORY, CONFIG_DIRECTORY),
    *(COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY),
}
"""Names in a store's directory: a directory with any of them is a store."""
_FILE_NAMES: Final = frozenset({ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE})
MANIFEST_FILE: Final = "store.json"
BEHIND_SIZE: Final = 8
"""Number of bytes read after the log end in the `closed` list: a record's size and magic."""
FORMAT_VERSION: Final = 1


class StoreDirectory:
    """Paths, lock and abort mark of a store."""

    __slots__ = ("_disk", "_lock", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        disk.enclosure.add(path)
        self.path = path
        self._lock = disk.directory_lock(path / LOCK_FILE)

    @property
    def own_directory(self) -> Path:
        """Directory of PocketMQ's own files, which RocketMQ ignores."""
        return self.path / OWN_DIRECTORY

    def check(self, *, plain_only: bool = True) -> None:
        """Raises unless the path is absent, empty, or contains a store.

        plain_only   rejects a link in the place of a directory or file
        Errors       NotAStore, NotAPlainFile
        """
        if not self._disk.exists(self.path):
            return
        if not self._disk.is_directory(self.path):
            raise NotAStore(path=str(self.path), why="it is a file")
        names = {name for name in self._disk.names(self.path) if not is_junk(name)}
        if names and not names & _STORE_NAMES:
            shown_names = ", ".join(sorted(names)[:3])
            raise NotAStore(path=str(self.path), why=f"it contains other files ({shown_names} …)")
        for name in sorted(names & _STORE_NAMES):
            is_right = self._disk.is_directory(self.path / name) == (name not in _FILE_NAMES)
            if is_right or (not plain_only and self._is_link(name)):
                continue
            found, right = "directory", "file"
            if name not in _FILE_NAMES:
                self._disk.file_size(self.path / name)  # Raises if it is a link.
                found, right = right, found
            why = f"a {found} is there instead of a {right}"
            raise NotAStore(path=str(self.path / name), why=why)

    def _is_link(self, name: str) -> bool:
        try:
            self._disk.file_size(self.path / name)
        except NotAPlainFile:
            return True
        return False

    def acquire(self) -> None:
        """Acquires the store lock; creates only its file and, for a new store, the directory.

        Errors   NotAStore; DiskFull, AllocationFailed; those of `DirectoryLock.acquire`
        """
        self.check()
        self._disk.make_directory(self.path)
        self._lock.acquire()

    def make_directories(self) -> None:
        """Creates the directories that every store has.

        Errors   DiskFull, AllocationFailed
        """
        self._disk.make_directory(self.own_directory)
        self._disk.make_directory(self.path / COMMIT_LOG_DIRECTORY)

    def was_aborted(self) -> bool:
        """Returns whether the abort mark exists; the last run may still have stopped in order."""
        return self._disk.exists(self.path / ABORT_FILE)

    def mark_running(self, process_id: int) -> None:
        """Writes the abort mark, durably.

        Errors   those of `Disk.replace_file`
        """
        self._disk.replace_file(self.path / ABORT_FILE, str(process_id).encode())

    def mark_stopped(self) -> None:
        """Removes the abort mark; called when everything is flushed and dispatched."""
        self._disk.unlink(self.path / ABORT_FILE)
        self._disk.sync_directory(self.path)

    def remove_drafts(self) -> None:
        """Removes unfinished files of earlier runs; the store must be locked."""
        for directory in (self.own_directory, self.path / CONFIG_DIRECTORY, self.path):
            for name in self._disk.names(directory):
                if name.endswith(DRAFT_SUFFIX):
                    self._disk.unlink(directory / name)

    def release(self) -> None:
        """Releases the store lock."""
        self._lock.release()


@dataclass(frozen=True)
class ClosedState:
    """State of the store after an orderly stop.

    queues   topic -> queue id (as text) -> [min offset, max offset]
    """

    log_end: int
    checkpoint: str
    queues: dict[str, dict[str, list[int]]]
    index_files: list[str]

    def is_of(self, checkpoint: bytes) -> bool:
        """Returns whether the checkpoint file is still the one written at that stop."""
        return self.checkpoint == checkpoint.hex()

    def is_last_word(self, checkpoint: bytes, mark: int | None, behind: bytes) -> bool:
        """Returns whether the store was stopped in order although its abort mark exists.

        A stop writes this list and then removes the abort mark. Another broker, which ignores the
        list, may have run later and been killed before its first checkpoint. The log then contains
        records after the log end in the list.

        mark     the offset in the flushed-mark file; None if that file is not valid
        behind   first bytes of the log after the log end in the list; empty if that is the end of
                 the last file
        """
        return self.is_of(checkpoint) and self.log_end == mark and not any(behind)


@dataclass(frozen=True, kw_only=True)
class StoreManifest(StoreShape):
    """The values of a store's shape that the store itself contains (RECORDED).

    cluster, broker     cluster and name of the broker that wrote the store last
    made_here           whether PocketMQ created the store
    property_crc_from   physical offset from which on every record ends with a property CRC; None:
                        records are written without property CRC
    closed              state at the last orderly stop; None: the store was never stopped in order
    """

    cluster: str
    broker: str
    format_version: int = FORMAT_VERSION
    made_here: bool = True
    property_crc_from: int | None = None
    closed: ClosedState | None = None

    @staticmethod
    def with_shape(shape: StoreShape, **fields: Any) -> "StoreManifest":
        """Returns a manifest with the shape's recorded values."""
        return StoreManifest(**{name: getattr(shape, name) for name in RECORDED}, **fields)


_MEMBERS: Final = (
    *RECORDED[:6], "cluster", "broker", *RECORDED[6:],
    *("format_version", "made_here", "property_crc_from", "closed"),
)  # fmt: skip


class ManifestFile:
    """Reads and replaces the manifest of a store."""

    __slots__ = ("_table",)

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._table = TableFile(disk, own_directory / MANIFEST_FILE)

    def read(self) -> StoreManifest | None:
        """Returns the manifest; None if the store has none.

        Errors   StoreTooNew; TableUnreadable: neither the file nor its .bak can be parsed;
                 ReadFailed
        """
        return self._table.read(self._parse)

    def write(self, manifest: StoreManifest) -> None:
        """Replaces the manifest durably; blocks."""
        members = asdict(manifest)
        document = {name: members[name] for name in _MEMBERS}
        self._table.write(json.dumps(document, indent=2).encode())

    def _parse(self, content: bytes) -> StoreManifest:
        members = read_object(content)
        found = members.get("format_version", 0)
        if not is_integer(found, 0, INT32_MAX):
            raise ValueError("format_version is not a number")
        if found > FORMAT_VERSION:
            raise StoreTooNew(path=str(self._table.path), found=found, known=FORMAT_VERSION)
        closed = members.pop("closed", None)
        try:
            manifest = StoreManifest(**members, closed=ClosedState(**closed) if closed else None)
        except TypeError as error:
            raise ValueError(f"the manifest has unknown or missing fields: {error}") from error
        _check_kinds(manifest)
        return manifest


def _check_kinds(manifest: StoreManifest) -> None:
    for each in fields(manifest):
        value, is_fit = getattr(manifest, each.name), True
        if each.type is int:
            is_fit = is_integer(value, 1, INT32_MAX)
        elif each.type in (str, bool):
            is_fit = isinstance(value, each.type)
        elif each.type == int | None:
            is_fit = value is None or is_integer(value, 0, OFFSET_MAX)
        if not is_fit:
            raise ValueError(f"{each.name} cannot be {str(value)[:20]!r}")
    if manifest.consume_queue_file_size_bytes % UNIT_SIZE:
        raise ValueError(f"consume_queue_file_size_bytes is not a multiple of {UNIT_SIZE}")
    if manifest.closed is not None and not _is_closed_state(manifest.closed):
        raise ValueError("closed does not list queues and index files")


def _is_closed_state(closed: ClosedState) -> bool:
    listed: tuple[Any, ...] = (closed.checkpoint, closed.queues, closed.index_files)
    checkpoint, queues, index_files = listed
    if not isinstance(checkpoint, str) or not isinstance(index_files, list):
        return False
    if not isinstance(queues, dict) or not all(isinstance(row, dict) for row in queues.values()):
        return False
    ids = [text for row in queues.values() for text in row]
    ends = [pair for row in queues.values() for pair in row.values()]
    return (
        all(isinstance(name, str) for name in index_files)
        and all(queue_id_from_name(text) is not None for text in ids)
        and all(isinstance(pair, list) and len(pair) == 2 for pair in ends)
        and all(is_integer(n, 0, OFFSET_MAX) for n in (closed.log_end, *chain(*ends)))
    )
