"""Copies of stores: which files are copied when, how one is, and the copy's description.

`backup.json` names every file with its sha256. It proves itself: `format` names its version, and
`sha256` is that of all its other fields, as JSON in ASCII with sorted keys and no line breaks.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FullDisk
from pocketmq.format.json_text import read_object
from pocketmq.format.layout import is_zero
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, OWN_DIRECTORY, offset_from_file_name
from pocketmq.model.errors import Corruption, NotAStore
from pocketmq.rebuild.range_pass import Advance

BACKUP_FILE: Final = "backup.json"
BEFORE_FILE: Final = "backup.json.before"
DRAFT_FILE: Final = "backup.draft"
_FORMAT: Final = "pocketmq backup 1"
_INTEGER_END: Final = 2**63


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file of a copy.

    path          in the store
    size, sha256  of the copy; changed_ns, which file and copy share, is when the file was changed
    is_complete   it will not change while the store is not written to
    damage        of a file of the log: where its records are not sound, "" if they are
    """

    path: str
    size: int
    sha256: str
    changed_ns: int
    is_complete: bool = False
    damage: str = ""

    def is_at(self, path: Path) -> bool:
        """Returns whether a file is still this one, as far as its size and time show."""
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        return (self.size, self.changed_ns) == (stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class Backup:
    """The contents of `backup.json`.

    begin, upto   physical offsets of the log in the copy
    flushed       flushed offset of a running store
    is_whole      the store was stopped in order, and its views were copied
    left_out      files and directories of the store that were not copied
    bytes_copied, files_known   by the last run; known files were not copied again
    """

    store: str
    time_ms: int = 0
    begin: int = 0
    upto: int = 0
    flushed: int | None = None
    is_live: bool = False
    is_whole: bool = False
    left_out: list[str] = field(default_factory=list)
    bytes_copied: int = 0
    files_known: int = 0
    files: list[CopiedFile] = field(default_factory=list)

    @property
    def checked_upto(self) -> int:
        """Up to where the log must be sound records."""
        return self.upto if self.flushed is None else self.flushed

    @property
    def log_gap(self) -> str:
        """Why the files of the log do not hold it from begin to upto, "" if they do."""
        prefix, end = f"{COMMIT_LOG_DIRECTORY}/", self.begin
        files = {
            offset_from_file_name(file.path.removeprefix(prefix)): file.size
            for file in self.files
            if file.path.startswith(prefix)
        }
        while end in files:
            size = files.pop(end)
            if not size:
                break
            end += size
        if files:
            return f"no file of the log begins at {end}"
        return "" if end >= self.upto else f"its log ends at {end}, not at {self.upto}"

    @property
    def damaged(self) -> list[CopiedFile]:
        """The files of the log that were damaged in the store already."""
        return [file for file in self.files if file.damage]


def read_backup(disk: Disk, copy: Path, name: str = BACKUP_FILE) -> Backup | None:
    """Returns the description of a copy, None without one.

    Errors   NotAStore: a file of that name is there that no backup wrote; Corruption: one did, and
             it was changed since
    """
    path = copy / name
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return None
    if _FORMAT.encode() not in content:
        raise NotAStore(path=str(copy), why=f"its {name} is not one of ours")
    try:
        document = read_object(content)
        if document.pop("format") != _FORMAT:
            raise ValueError("its format is another")
        if document.pop("sha256", None) != _sum(document):
            raise ValueError("its sha256 is another")
        document["files"] = [CopiedFile(**file) for file in document["files"]]
        made = Backup(**document)
        parts: list[Backup | CopiedFile] = [made, *made.files]
        for part in parts:
            _check_kinds(part)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"it is not what a backup wrote: {error}"
        raise Corruption(path=str(path), file_position=0, physical_offset=0, why=why) from error
    return made


def write_backup(disk: Disk, copy: Path, made: Backup, name: str) -> None:
    """Writes the description of a copy, durably and at once."""
    document = asdict(made)
    document = {"format": _FORMAT, **document, "sha256": _sum(document)}
    disk.write_file(copy / DRAFT_FILE, json.dumps(document, indent=1).encode())
    disk.rename(copy / DRAFT_FILE, copy / name)
    disk.sync_directory(copy)


def _sum(document: dict[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _check_kinds(part: Backup | CopiedFile) -> None:
    """Raises ValueError where a value is not of its field's kind."""
    for each in fields(part):
        value, kind = getattr(part, each.name), each.type
        if kind == list[str]:
            is_right = isinstance(value, list) and all(isinstance(name, str) for name in value)
        elif kind == list[CopiedFile]:
            continue  # One by one.
        elif kind == int | None:
            is_right = value is None or type(value) is int
        else:
            is_right = type(value) is kind
        if not is_right or (type(value) is int and abs(value) >= _INTEGER_END):
            raise ValueError(f"{each.name} is {str(value)[:40]!r}")
    if isinstance(part, CopiedFile) and (part.size < 0 or b"\0" in os.fsencode(part.path)):
        raise ValueError(f"{part.path!r} of {part.size} bytes")


# -- files ---------------------------------------------------------------------------------------
PIECE_SIZE: Final = 1024 * 1024
BLOCK_SIZE: Final = 64 * 1024
"""Zeros of this size are left out of a file: it stays sparse."""


class Turn(Enum):
    """When a file is copied."""

    FIRST = "before the tables"
    EARLY = "before the log"
    LOG = "with the log"
    LATE = "after the log"
    OUT = "left out"
    NEVER = "never"


RUNNING, STOPPED, WITH_VIEWS = range(3)
_TURNS: Final[tuple[tuple[str, tuple[Turn, Turn, Turn]], ...]] = (
    # the first pattern that fits a path                 running  stopped  with its views
    ("lock abort backup.json* pocketmq/reserve *.draft", (Turn.NEVER, Turn.NEVER, Turn.NEVER)),
    ("pocketmq/watermark", (Turn.NEVER, Turn.LATE, Turn.LATE)),
    ("pocketmq/left_over.json", (Turn.NEVER, Turn.NEVER, Turn.LATE)),
    ("pocketmq/queue_ends.json*", (Turn.NEVER, Turn.NEVER, Turn.LATE)),
    ("commitlog/*", (Turn.LOG, Turn.LOG, Turn.LOG)),
    ("pocketmq/replaced/*", (Turn.OUT, Turn.OUT, Turn.OUT)),
    # Secrets: a copy goes further than its store.
    ("pocketmq/access.json* pocketmq/tls/*", (Turn.OUT, Turn.OUT, Turn.OUT)),
    ("consumequeue/* index/*", (Turn.OUT, Turn.OUT, Turn.LATE)),
    ("checkpoint", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    # Tables that the log needs; the others hold positions in it, or nothing that must agree.
    ("config/topics.json* config/subscriptionGroup.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("config/topicQueueMapping.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    # The timer's read time before what waits: what is delivered meanwhile comes again.
    ("config/timercheck", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("timerlog/*", (Turn.EARLY, Turn.LATE, Turn.LATE)),
    ("config/*.json config/*.json.bak", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("config/*", (Turn.OUT, Turn.EARLY, Turn.EARLY)),
    # A row that is not in the copy is in the table: that is written before rows are written over.
    ("pocketmq/order.journal", (Turn.FIRST, Turn.FIRST, Turn.FIRST)),
    ("pocketmq/removed.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("pocketmq/store.json", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("*", (Turn.OUT, Turn.LATE, Turn.LATE)),
)
_OF_A_STORE: Final = (
    "abort checkpoint backup.draft commitlog/* consumequeue/* index/* config/* pocketmq/* "
    "timerlog/* timerwheel"
).split()
"""Files that an earlier run, or a broker that had the copy open, may have left in it."""


def walk(directory: Path, *, follows_log: bool = True) -> Iterator[str]:
    """Yields the path of every plain file of a store.

    follows_log   the log's directory may be a link to another disk, as the only one
    """
    log = directory / COMMIT_LOG_DIRECTORY
    tops = (log, directory) if follows_log and log.is_symlink() else (directory,)
    for place, names, files in chain.from_iterable(map(os.walk, tops)):
        names.sort()
        for path in (Path(place, name) for name in sorted(files)):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(directory).as_posix()


def turn_of(relative: str, column: int) -> Turn:
    """Returns when the file of this path is copied, of a store that is RUNNING, STOPPED, …."""
    return next(
        turns[column]
        for patterns, turns in _TURNS
        if any(fnmatchcase(relative, pattern) for pattern in patterns.split())
    )


def is_of_a_store(relative: str) -> bool:
    """Returns whether a file of this path is a store's, so that it may go from a copy."""
    return any(fnmatchcase(relative, pattern) for pattern in _OF_A_STORE)


def shown_left_out(relative: str) -> str:
    """Returns the entry for a file that is left out: its directory, unless that has tables."""
    parts = os.fsencode(relative).decode("utf-8", "replace").split("/")
    return "/".join(parts[:2] if parts[0] in ("config", OWN_DIRECTORY) else parts[:1])


def copy_file(
    disk: Disk, source: Path, target: Path, *, upto: int, size: int, advance: Advance
) -> str:
    """Copies a file's first bytes, zeros up to the size asked for; returns the copy's sha256.

    Effects  another file of the target's name loses the name
    Errors   FileNotFoundError, ReadFailed, NotAPlainFile; DiskFull, AllocationFailed
    """
    digest, position = sha256(), 0
    with disk.opened(source) as opened:
        disk.unlink(target)
        sink = disk.make_sparse_file(target, 0, is_named=False)
        try:
            while position < upto:
                piece = disk.read_at(opened, position, min(PIECE_SIZE, upto - position))
                if not piece:
                    break
                digest.update(piece)
                advance(len(piece))
                with FullDisk(target):
                    _write_sparse(sink, piece, position)
                position += len(piece)
            for begin in range(position, size, PIECE_SIZE):
                digest.update(bytes(min(PIECE_SIZE, size - begin)))
            with FullDisk(target):
                os.truncate(sink, size)
        finally:
            disk.close(sink)
    return digest.hexdigest()


def _write_sparse(descriptor: int, piece: bytes, position: int) -> None:
    """Writes the bytes that are not zeros; a nearly full disk takes a part and reports it."""
    for begin in range(0, len(piece), BLOCK_SIZE):
        block = memoryview(piece)[begin : begin + BLOCK_SIZE]
        is_hole = is_zero(block, 0, len(block))
        while len(block) and not is_hole:
            written = os.pwrite(descriptor, block, position + begin)
            block, begin = block[written:], begin + written
