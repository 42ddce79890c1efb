"""The directory of one store: its lock, its manifest, and how the last run ended.

`abort` exists while a broker runs. Found at a start, it means that the last run did not stop in
order, except if it ended after it wrote its list of the views (`ClosedState.is_last_word`).

A real RocketMQ reads sizes from its configuration; here they are stored with the data, in the
manifest `pocketmq/store.json`. Its `closed` lists queues and index files at the last orderly stop,
so that a missing view is noticed. It is valid only while the checkpoint is the one of that stop.
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
from pocketmq.model.errors import NotAStore, StoreTooNew
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.model.store_shape import RECORDED, StoreShape

_STORE_NAMES: Final = {
    *(ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE, OWN_DIRECTORY, CONFIG_DIRECTORY),
    *(COMMIT_LOG_DIRECTORY, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY),
}
"""One of these in a directory makes it a store."""
_FILE_NAMES: Final = frozenset({ABORT_FILE, CHECKPOINT_FILE, LOCK_FILE})
"""Those of them that are files; the others are directories."""
MANIFEST_FILE: Final = "store.json"
BEHIND_SIZE: Final = 8
"""Bytes that are looked at behind a list's end: size and magic of a record."""
FORMAT_VERSION: Final = 1


class StoreDirectory:
    """Paths, lock and abort mark."""

    __slots__ = ("_disk", "_lock", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        disk.enclosure.add(path)
        self.path = path
        self._lock = disk.directory_lock(path / LOCK_FILE)

    @property
    def own_directory(self) -> Path:
        """Directory of files that RocketMQ does not know."""
        return self.path / OWN_DIRECTORY

    def check(self) -> None:
        """Raises NotAStore unless the path is absent, empty, or holds a store."""
        if not self._disk.exists(self.path):
            return
        if not self._disk.is_directory(self.path):
            raise NotAStore(path=str(self.path), why="it is a file")
        names = {name for name in self._disk.names(self.path) if not is_junk(name)}
        if names and not names & _STORE_NAMES:
            shown_names = ", ".join(sorted(names)[:3])
            raise NotAStore(path=str(self.path), why=f"it holds other files ({shown_names} …)")
        for name in sorted(names & _STORE_NAMES):
            is_right = self._disk.is_directory(self.path / name) == (name not in _FILE_NAMES)
            if not is_right:
                why = "a directory stands" if name in _FILE_NAMES else "a file stands"
                raise NotAStore(path=str(self.path / name), why=f"{why} in its place")

    def acquire(self) -> None:
        """Takes the store lock; creates only its file, and for a new store the directory.

        Errors   NotAStore, StoreLocked, DiskFull
        """
        self.check()
        self._disk.make_directory(self.path)
        self._lock.acquire()

    def make_directories(self) -> None:
        """Makes the directories that every store has.

        Errors   DiskFull, AllocationFailed
        """
        self._disk.make_directory(self.own_directory)
        self._disk.make_directory(self.path / COMMIT_LOG_DIRECTORY)

    def was_aborted(self) -> bool:
        """Returns whether the last broker here ended without stopping in order."""
        return self._disk.exists(self.path / ABORT_FILE)

    def mark_running(self, process_id: int) -> None:
        """Leaves the abort mark, durable before the first message."""
        self._disk.replace_file(self.path / ABORT_FILE, str(process_id).encode())

    def mark_stopped(self) -> None:
        """Takes the abort mark away: everything is flushed and dispatched."""
        self._disk.unlink(self.path / ABORT_FILE)
        self._disk.sync_directory(self.path)

    def remove_drafts(self) -> None:
        """Removes files that an earlier life had not finished; the store is locked."""
        for directory in (self.own_directory, self.path / CONFIG_DIRECTORY, self.path):
            for name in self._disk.names(directory):
                if name.endswith(DRAFT_SUFFIX):
                    self._disk.unlink(directory / name)

    def release(self) -> None:
        """Gives the store lock back."""
        self._lock.release()


@dataclass(frozen=True)
class ClosedState:
    """State of the store when it was closed in order.

    queues maps topic to queue id (as text) to [min offset, max offset].
    """

    log_end: int
    checkpoint: str
    queues: dict[str, dict[str, list[int]]]
    index_files: list[str]

    def is_of(self, checkpoint: bytes) -> bool:
        """Returns whether the checkpoint is still the one of that stop."""
        return self.checkpoint == checkpoint.hex()

    def is_last_word(self, checkpoint: bytes, mark: int | None, behind: bytes) -> bool:
        """Returns whether the store was left in order though its abort mark is there.

        The list is the last thing but one that a stop does. A broker that does not know it, and was
        killed before its first checkpoint, left records behind it.
        mark     the flushed offset, None without a valid one
        behind   the first bytes of the log behind the list's end, none at the end of the last file
        """
        return self.is_of(checkpoint) and self.log_end == mark and not any(behind)


@dataclass(frozen=True, kw_only=True)
class StoreManifest(StoreShape):
    """The shape of a store, as far as it travels with it (RECORDED), and its last writer.

    made_here: this broker began the store and did not find it. property_crc_from: physical offset
    from which on every record ends with a property CRC, None where they are written without.
    """

    cluster: str
    broker: str
    format_version: int = FORMAT_VERSION
    made_here: bool = True
    property_crc_from: int | None = None
    closed: ClosedState | None = None

    @staticmethod
    def with_shape(shape: StoreShape, **fields: Any) -> "StoreManifest":
        """Returns the manifest of a store of a shape."""
        return StoreManifest(**{name: getattr(shape, name) for name in RECORDED}, **fields)


_MEMBERS: Final = (
    *RECORDED[:6], "cluster", "broker", *RECORDED[6:],
    *("format_version", "made_here", "property_crc_from", "closed"),
)  # fmt: skip
"""Of the file, in order."""


class ManifestFile:
    """Reads and replaces the manifest of a store."""

    __slots__ = ("_table",)

    def __init__(self, disk: Disk, own_directory: Path) -> None:
        self._table = TableFile(disk, own_directory / MANIFEST_FILE)

    def read(self) -> StoreManifest | None:
        """Returns the manifest, None in a store that never had one.

        Errors   StoreTooNew; ValueError when no version of the file can be read
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
            raise ValueError("format_version is no number")
        if found > FORMAT_VERSION:
            raise StoreTooNew(path=str(self._table.path), found=found, known=FORMAT_VERSION)
        closed = members.pop("closed", None)
        try:
            manifest = StoreManifest(**members, closed=ClosedState(**closed) if closed else None)
        except TypeError as error:
            raise ValueError(f"the manifest has other fields: {error}") from error
        _check_kinds(manifest)
        return manifest


def _check_kinds(manifest: StoreManifest) -> None:
    """Raises ValueError where a value is none that its field can have."""
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
        raise ValueError(f"files of queues are no multiple of {UNIT_SIZE} bytes")
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
