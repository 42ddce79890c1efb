"""Copies a store, running or stopped, into a directory that holds any number of its generations.

    TARGET/objects/SHA256.zst          content, compressed, each once
    TARGET/generations/TIME.json       a generation: every file, its length and its object

What is copied of a running store is its log up to what was flushed for certain, and its small
tables; queues and index are views and can be rebuilt. A file of the log that is full is stored once
and not read again while size and time of change stay. Objects and generations appear whole or not
at all: drafts, synced and renamed; a backup that was killed leaves the others as they were.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import zstandard

from broker.files.disk import Disk
from broker.format.names import (
    ABORT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    LOCK_FILE,
    OWN_DIRECTORY,
    offset_from_file_name,
)
from broker.log.commit_log import CommitLog
from broker.log.store_manifest import MANIFEST_FILE
from broker.model.errors import NotAStore
from broker.tools.store_access import Sizes, is_live
from broker.tools.verify.tables import flushed_upto

OBJECTS: Final = "objects"
GENERATIONS: Final = "generations"
FORMAT_VERSION: Final = 1
PIECE: Final = 4 * 1024 * 1024
LEVEL: Final = 3
_VIEWS: Final = (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY, INDEX_DIRECTORY)
_NEVER: Final = (LOCK_FILE, ABORT_FILE)
_LIVE_TABLES: Final = ("config", "checkpoint", f"{OWN_DIRECTORY}/{MANIFEST_FILE}")
"""What of a running store is copied beside its log."""

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a generation.

    size     its full length; content behind `kept` bytes is zeros
    object   sha256 of the kept bytes, "" when there are none
    sealed   a full file of the log: it is not read again while size and time stay
    """

    path: str
    size: int
    kept: int
    object: str
    changed_ns: int = 0
    sealed: bool = False


@dataclass(slots=True)
class Generation:
    """One backup: all files, and up to which physical offset the log is in it.

    is_whole   of a store that was stopped in order, with its views
    """

    name: str
    store: str
    upto: int
    is_live: bool
    is_whole: bool
    files: list[StoredFile] = field(default_factory=list)
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class BackupResult:
    """What a backup did: bytes read of the store, and objects that were new."""

    generation: Generation
    bytes_read: int
    objects_new: int
    files_known: int


def generations(target: Path) -> list[Generation]:
    """Return the generations of a target, oldest first.

    Errors   NotAStore: a generation that cannot be read
    """
    found = []
    for path in sorted((target / GENERATIONS).glob("*.json")):
        try:
            fields = json.loads(path.read_bytes())
            files = [StoredFile(**file) for file in fields.pop("files")]
            found.append(Generation(**fields, files=files))
        except (ValueError, TypeError, KeyError) as error:
            raise NotAStore(path=str(path), why=f"no generation of a backup ({error})") from error
    return found


def backup(
    disk: Disk, directory: Path, target: Path, sizes: Sizes, *, name: str, with_views: bool,
    level: int = LEVEL, tell: Told = lambda byte_count: None,
) -> BackupResult:  # fmt: skip
    """Add a generation of a store to a target.

    with_views   copy queues and index too; only of a store that is not in use
    Errors       NotAStore: the target holds another store's backups; DiskFull
    Cost         about 400 MB/s a core on what changed since the last generation
    """
    before = generations(target)
    if before and before[-1].store != str(directory.resolve()):
        raise NotAStore(path=str(target), why=f"it holds backups of {before[-1].store}")
    for part in (OBJECTS, GENERATIONS):
        disk.make_directory(target / part)
    live = is_live(directory)
    stopped_in_order = not disk.exists(directory / ABORT_FILE)
    copy = _Copy(disk, target, level, {file.path: file for g in before[-1:] for file in g.files})
    upto = _log_end(disk, directory, sizes, live=live)
    generation = Generation(
        name, str(directory.resolve()), upto, live, with_views and not live and stopped_in_order
    )
    for path in _files(directory, live=live, with_views=with_views):
        relative = path.relative_to(directory).as_posix()
        base = offset_from_file_name(path.name)
        in_log = relative.startswith(COMMIT_LOG_DIRECTORY) and base is not None
        if in_log and base is not None and base >= upto:
            continue
        limit = upto - base if in_log and base is not None else None
        generation.files.append(copy.store(path, relative, limit, tell))
    _write_generation(disk, target, generation)
    return BackupResult(generation, copy.bytes_read, copy.objects_new, copy.files_known)


def _log_end(disk: Disk, directory: Path, sizes: Sizes, *, live: bool) -> int:
    """Return up to where the log is copied: what is flushed for certain, or what is sound."""
    known = flushed_upto(disk, directory) if live else None
    log = CommitLog(disk, directory / COMMIT_LOG_DIRECTORY, sizes.commit_log_file_bytes)
    log.load(read_only=True)
    try:
        for file in reversed(log.files.files):
            scan = log.scan(file.base, file.base + file.size)
            for _ in scan:
                pass
            if scan.position > file.base and (known is None or file.base < known):
                return scan.position if known is None else min(scan.position, known)
        return log.min_offset
    finally:
        log.close()


def _files(directory: Path, *, live: bool, with_views: bool) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory).as_posix()
        top = relative.partition("/")[0]
        if not path.is_file() or path.suffix == ".draft" or relative in _NEVER:
            continue
        if top in _VIEWS and (live or not with_views):
            continue
        is_table = relative.startswith(_LIVE_TABLES)
        if live and top != COMMIT_LOG_DIRECTORY and not is_table:
            continue
        yield path


class _Copy:
    """Stores files as objects; what the last generation has is taken over."""

    def __init__(self, disk: Disk, target: Path, level: int, known: dict[str, StoredFile]) -> None:
        self._disk = disk
        self._target = target
        self._level = level
        self._known = known
        self.bytes_read = 0
        self.objects_new = 0
        self.files_known = 0

    def store(self, path: Path, relative: str, limit: int | None, tell: Told) -> StoredFile:
        stat = path.stat()
        sealed = limit is not None and limit >= stat.st_size
        known = self._known.get(relative)
        if known is not None and sealed and known.sealed:
            if (known.size, known.changed_ns) == (stat.st_size, stat.st_mtime_ns):
                self.files_known += 1
                tell(stat.st_size)
                return known
        upper = stat.st_size if limit is None else min(limit, stat.st_size)
        digest, kept = self._object(path, upper, tell)
        return StoredFile(relative, stat.st_size, kept, digest, stat.st_mtime_ns, sealed)

    def _object(self, path: Path, size: int, tell: Told) -> tuple[str, int]:
        """Write the content up to a size as an object; returns its digest and the bytes kept."""
        draft = self._target / OBJECTS / f"{os.getpid()}.draft"
        digest, held, kept = hashlib.sha256(), 0, 0
        compressor = zstandard.ZstdCompressor(level=self._level)
        with path.open("rb") as source, draft.open("wb") as sink:
            with compressor.stream_writer(sink, closefd=False) as writer:
                left = size
                while left and (piece := source.read(min(PIECE, left))):
                    left -= len(piece)
                    self.bytes_read += len(piece)
                    tell(len(piece))
                    if not piece.strip(b"\0"):  # Zeros count when something follows.
                        held += len(piece)
                        continue
                    for content in (*_zeros(held), piece):
                        digest.update(content)
                        writer.write(content)
                    kept += held + len(piece)
                    held = 0
            sink.flush()
            self._disk.sync(sink.fileno())
        if not kept:
            draft.unlink()
            return "", 0
        target = object_path(self._target, digest.hexdigest())
        self.objects_new += not target.exists()
        self._disk.rename(draft, target)
        self._disk.sync_directory(target.parent)
        return digest.hexdigest(), kept


def _zeros(count: int) -> Iterator[bytes]:
    for begin in range(0, count, PIECE):
        yield bytes(min(PIECE, count - begin))


def object_path(target: Path, digest: str) -> Path:
    """Return where an object lies."""
    return target / OBJECTS / f"{digest}.zst"


def _write_generation(disk: Disk, target: Path, generation: Generation) -> None:
    path = target / GENERATIONS / f"{generation.name}.json"
    draft = path.with_suffix(".draft")
    document: dict[str, Any] = asdict(generation)
    disk.write_file(draft, json.dumps(document, indent=1).encode())
    disk.rename(draft, path)
    disk.sync_directory(path.parent)


def drop_generations(disk: Disk, target: Path, keep: int) -> tuple[list[str], int]:
    """Remove all but the newest generations, then objects nobody names; returns what went."""
    found = generations(target)
    dropped = found[: max(len(found) - keep, 0)]
    for generation in dropped:
        disk.unlink(target / GENERATIONS / f"{generation.name}.json")
    disk.sync_directory(target / GENERATIONS)
    named = {file.object for g in found[len(dropped) :] for file in g.files}
    count = 0
    for path in sorted((target / OBJECTS).iterdir()):
        if path.name.partition(".")[0] not in named:
            disk.unlink(path)
            count += 1
    return [generation.name for generation in dropped], count
