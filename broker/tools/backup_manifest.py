"""A directory of backups: what lies there, and how it is read, added to and thinned out.

    TARGET/objects/SHA256.zst        content, compressed; named by the sha256 of these very bytes
    TARGET/manifests/TIME.json       a generation: every file of the store, and its object
    TARGET/lock                      held by who adds or removes

Objects and manifests appear whole or not at all: drafts, synced and renamed, objects before the
manifest that names them. A manifest carries the sha256 of what it says. An object is a row of zstd
frames of at most FRAME_SIZE bytes each, so that memory is bounded both ways; `sha256sum` proves it
and `zstd -d` reads it without this broker.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, NamedTuple, cast

import zstandard

from broker.files.directory_lock import DirectoryLock
from broker.files.disk import Disk
from broker.files.disk_errors import FullDisk
from broker.files.table_file import DRAFT_SUFFIX
from broker.format.names import COMMIT_LOG_DIRECTORY, LOCK_FILE, offset_from_file_name
from broker.model.errors import Corruption, NotAStore, StoreTooNew

OBJECTS: Final = "objects"
MANIFESTS: Final = "manifests"
FORMAT_VERSION: Final = 1
FRAME_SIZE: Final = 4 * 1024 * 1024
NAME_FORMAT: Final = "%Y%m%dT%H%M%S.%fZ"
"""Of a generation: its time, UTC. Names sort as times do."""
WINDOW_SIZE_MAX: Final = 128 * 1024 * 1024
"""What a damaged frame may make the decompressor ask for."""
_OBJECT_SUFFIX: Final = ".zst"
_MANIFEST_SUFFIX: Final = ".json"
_OBJECT_NAME: Final = re.compile(r"[0-9a-f]{64}")
_EXPECTED_NAMES: Final = frozenset({OBJECTS, MANIFESTS, LOCK_FILE, "lost+found", ".DS_Store"})


class Content(NamedTuple):
    """Bytes that became an object; `object` is "" when there were none."""

    taken: int
    sha256: str
    object: str
    object_size: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a generation.

    path        in the store, with /
    size        its full length; what lies behind the first `taken` bytes is zeros
    sha256      of these bytes
    object      name of the object that holds them, "" when there are none
    is_sealed   a file of the log that is full: not read again while size, time and inode stay
    damage      what was wrong with its records when it was copied, "" when they were sound
    """

    path: str
    size: int
    taken: int
    sha256: str
    object: str
    object_size: int
    changed_ns: int
    inode: int
    is_sealed: bool = False
    damage: str = ""

    @property
    def base(self) -> int | None:
        """Physical offset of the first byte of a file of the log, None of any other file."""
        path = PurePosixPath(self.path)
        is_log = path.parts[0] == COMMIT_LOG_DIRECTORY
        return offset_from_file_name(path.name) if is_log else None


@dataclass(slots=True)
class Generation:
    """One backup: all files, and from where up to which physical offset the log is in it.

    upto        end of its sound records, at most `flushed`
    flushed     of a running store that told: below this every byte was durable, and is copied
    is_live     the store was running
    is_whole    of a store that was stopped in order, with its views
    left_out    files and directories of the store that were not copied
    """

    name: str
    time_ms: int
    store: str
    begin: int = 0
    upto: int = 0
    flushed: int | None = None
    is_live: bool = False
    is_whole: bool = False
    left_out: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)

    @property
    def log_files(self) -> list[StoredFile]:
        """The files of the log, oldest first."""
        return [file for file in self.files if file.base is not None]

    @property
    def damaged(self) -> list[StoredFile]:
        """The files of the log that were damaged in the store already."""
        return [file for file in self.files if file.damage]


class Catalog(NamedTuple):
    """The generations of a target, oldest first, and the manifests that cannot be believed."""

    generations: list[Generation]
    damaged: list[Corruption]


class Drop(NamedTuple):
    """What goes when only the newest generations are kept; object_bytes is their room on disk."""

    generations: list[str]
    objects: list[str]
    object_bytes: int


class BackupTarget:
    """One directory of backups."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the directories if need be and keep other writers out; drafts of old are removed.

        Errors   NotAStore (other things lie there), StoreLocked, DiskFull
        """
        found = set(self._disk.names(self.path)) - _EXPECTED_NAMES
        if found:
            why = f"no backups are kept among other files ({min(found)} …)"
            raise NotAStore(path=str(self.path), why=why)
        for part in (OBJECTS, MANIFESTS):
            self._disk.make_directory(self.path / part)
        lock = DirectoryLock(self.path / LOCK_FILE)
        lock.acquire()
        try:
            for draft in self.path.glob(f"*/*{DRAFT_SUFFIX}"):
                self._disk.unlink(draft)
            yield
        finally:
            lock.release()

    # -- generations ---------------------------------------------------------------------------
    def catalog(self) -> Catalog:
        """Return all generations; none where nothing was ever backed up.

        Errors   StoreTooNew
        """
        catalog = Catalog([], [])
        for name in self._disk.names(self.path / MANIFESTS):
            path = self.path / MANIFESTS / name
            if path.suffix != _MANIFEST_SUFFIX:
                continue
            try:
                catalog.generations.append(_parse(path, self._disk.read_file(path)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                catalog.damaged.append(
                    Corruption(
                        path=str(path), file_position=0, physical_offset=0,
                        why=f"no manifest ({type(error).__name__}: {error})",
                    )
                )  # fmt: skip
        return catalog

    def add(self, generation: Generation) -> None:
        """Make a generation known, all of whose objects were `put`; durable on return."""
        self._disk.sync_directory(self.path / OBJECTS)
        path = self.path / MANIFESTS / f"{generation.name}{_MANIFEST_SUFFIX}"
        document = asdict(generation)
        envelope = {
            "format_version": FORMAT_VERSION,
            "sha256": _digest(document),
            "generation": document,
        }
        draft = path.with_suffix(DRAFT_SUFFIX)
        self._disk.write_file(draft, json.dumps(envelope, indent=1).encode())
        self._disk.rename(draft, path)
        self._disk.sync_directory(path.parent)

    def plan_drop(self, keep_count: int, *, with_next: bool = False) -> Drop:
        """Return what goes when so many generations stay.

        with_next   one more is to come, which will name the sealed files of the newest again
        Errors      Corruption: what a damaged manifest names is unknown, so nothing may go
        """
        generations, damaged = self.catalog()
        if damaged:
            raise damaged[0]
        gone = max(len(generations) + with_next - keep_count, 0)
        named = {file.object for kept in generations[gone:] for file in kept.files}
        for newest in generations[-1:] if with_next else ():
            named |= {file.object for file in newest.files if file.is_sealed}
        objects = [name for name in self._object_names() if name not in named]
        room = sum(self._disk.file_size(self.object_path(name)) for name in objects)
        return Drop([dropped.name for dropped in generations[:gone]], objects, room)

    def drop(self, plan: Drop) -> None:
        """Do what a plan says; a crash in the middle leaves objects that nobody names."""
        for name in plan.generations:
            self._disk.unlink(self.path / MANIFESTS / f"{name}{_MANIFEST_SUFFIX}")
        self._disk.sync_directory(self.path / MANIFESTS)
        for name in plan.objects:
            self._disk.unlink(self.object_path(name))
        self._disk.sync_directory(self.path / OBJECTS)

    # -- objects -------------------------------------------------------------------------------
    def object_path(self, name: str) -> Path:
        """Return where an object lies."""
        return self.path / OBJECTS / f"{name}{_OBJECT_SUFFIX}"

    def _object_names(self) -> list[str]:
        names = (Path(name).stem for name in self._disk.names(self.path / OBJECTS))
        return [name for name in names if _OBJECT_NAME.fullmatch(name)]

    def has_object(self, file: StoredFile) -> bool:
        """Return whether a file's object is there at its full length; it is not read."""
        path = self.object_path(file.object)
        return not file.object or (
            self._disk.exists(path) and self._disk.file_size(path) == file.object_size
        )

    def put(self, pieces: Iterable[bytes], level: int) -> Content:
        """Store pieces of at most FRAME_SIZE bytes as one object; its name is durable with `add`.

        An object of the same name is replaced: a damaged one is mended.
        Errors   DiskFull, AllocationFailed, FsyncFailed; nothing is left behind
        """
        draft = self.path / OBJECTS / f"{os.getpid()}{DRAFT_SUFFIX}"
        compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
        plain, packed, taken, size = hashlib.sha256(), hashlib.sha256(), 0, 0
        try:
            with FullDisk(draft):
                sink = draft.open("wb", buffering=0)
            with sink:
                for piece in pieces:
                    frame = compressor.compress(piece)
                    plain.update(piece)
                    packed.update(frame)
                    taken, size = taken + len(piece), size + len(frame)
                    write_all(sink, frame, draft)
                self._disk.sync(sink.fileno())
            if not taken:
                return Content(0, plain.hexdigest(), "", 0, is_new=False)
            path = self.object_path(packed.hexdigest())
            is_new = not self._disk.exists(path)
            self._disk.rename(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        return Content(taken, plain.hexdigest(), packed.hexdigest(), size, is_new)

    def content(self, file: StoredFile) -> Iterator[bytes]:
        """Yield a file's bytes piece by piece; they are proved only when the last one was taken.

        Errors   Corruption: the object is missing, or another than the manifest tells
        """
        if not file.object:
            return
        path, plain, packed, count = self.object_path(file.object), hashlib.sha256(), _Read(), 0
        try:
            with path.open("rb") as packed.source:
                reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_SIZE_MAX).stream_reader(
                    cast("BinaryIO", packed), read_across_frames=True, closefd=False
                )
                while count <= file.taken and (piece := reader.read(FRAME_SIZE)):
                    plain.update(piece)
                    count += len(piece)
                    yield piece
        except (OSError, zstandard.ZstdError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise self._damaged(file, count, packed.position, why) from error
        if packed.digest.hexdigest() != file.object:
            raise self._damaged(file, count, packed.position, "its bytes have another sha256")
        if (count, plain.hexdigest()) != (file.taken, file.sha256):
            raise self._damaged(file, count, packed.position, "its content is another")

    def is_sound(self, file: StoredFile) -> bool:
        """Return whether a file's object holds what the manifest tells; reads it."""
        try:
            for _ in self.content(file):
                pass
        except Corruption:
            return False
        return True

    def _damaged(self, file: StoredFile, count: int, position: int, why: str) -> Corruption:
        return Corruption(
            path=str(self.object_path(file.object)), file_position=position,
            physical_offset=(file.base or 0) + count, why=f"{why}; it holds {file.path}",
        )  # fmt: skip


class _Read:
    """What was read of a source so far: how much, and its sha256."""

    source: BinaryIO

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.position = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, none at the end."""
        piece = self.source.read(size)
        self.digest.update(piece)
        self.position += len(piece)
        return piece


def write_all(sink: Any, content: bytes, path: Path) -> None:
    """Write to an unbuffered file; a disk that is nearly full takes a part and says so.

    Errors   DiskFull, AllocationFailed
    """
    left = memoryview(content)
    with FullDisk(path):
        while left:
            left = left[sink.write(left) :]


def generation_name(now: datetime, before: str = "") -> str:
    """Return the name of a generation made now; it sorts behind the one before."""
    name = now.astimezone(UTC).strftime(NAME_FORMAT)
    if not before or name > before:
        return name
    moment = datetime.strptime(before, NAME_FORMAT).replace(tzinfo=UTC)
    return (moment + timedelta(microseconds=1)).strftime(NAME_FORMAT)


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(path: Path, content: bytes) -> Generation:
    """Return what a manifest says.

    Errors   StoreTooNew; ValueError and the like for one that is damaged
    """
    envelope = json.loads(content)
    version = int(envelope["format_version"])
    if version > FORMAT_VERSION:
        raise StoreTooNew(path=str(path), found=version, known=FORMAT_VERSION)
    fields = envelope["generation"]
    if envelope["sha256"] != _digest(fields):
        raise ValueError("its sha256 is another")
    files = [StoredFile(**file) for file in fields.pop("files")]
    for file in files:
        parts = PurePosixPath(file.path).parts
        if not parts or ".." in parts or file.path.startswith("/"):
            raise ValueError(f"{file.path!r} is no path in a store")
    generation = Generation(**fields, files=files)
    if generation.name != path.stem:
        raise ValueError(f"it is the one of {generation.name}")
    return generation
