"""Copies files for backups: their order, the copying of one file, and `backup.json`.

`backup.json` lists every file with its sha256. The field `format` contains the version. The field
`sha256` is the digest of all other fields, as JSON in ASCII with sorted keys and no line breaks.
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

    path          path in the store
    size, sha256  length and digest of the copy
    changed_ns    modification time of the file; the copy has the same one
    is_complete   the file's content was final when it was copied
    damage        first invalid record of a log file; "" if all records are valid
    """

    path: str
    size: int
    sha256: str
    changed_ns: int
    is_complete: bool = False
    damage: str = ""

    def is_at(self, path: Path) -> bool:
        """Returns whether the file at a path has this size and modification time."""
        try:
            stat = path.stat()
        except OSError:
            return False
        return (self.size, self.changed_ns) == (stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class Backup:
    """The contents of `backup.json`.

    begin, upto   range of physical offsets of the copied log
    flushed       durable offset of the running store's log; None: unknown, or the store was stopped
    is_whole      the store was stopped in order, and its views were copied
    left_out      files and directories of the store that were not copied
    bytes_copied  bytes that the last run copied
    files_known   files that the last run did not copy again
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
        """Physical offset below which the log must consist of valid records."""
        return self.upto if self.flushed is None else self.flushed

    @property
    def log_gap(self) -> str:
        """The reason why the log files do not cover [begin, upto); "" if they do."""
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
        """The log files that were already damaged in the store."""
        return [file for file in self.files if file.damage]


def read_backup(disk: Disk, copy: Path, name: str = BACKUP_FILE) -> Backup | None:
    """Returns the description of a copy; None if the file is missing.

    Errors   NotAStore: the file was not written by a backup
             Corruption: the file was changed since a backup wrote it
    """
    path = copy / name
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return None
    if _FORMAT.encode() not in content:
        raise NotAStore(path=str(copy), why=f"no backup wrote its {name}")
    try:
        document = read_object(content)
        if document.pop("format") != _FORMAT:
            raise ValueError("its format is another")
        if document.pop("sha256", None) != _sum(document):
            raise ValueError("its sha256 does not match")
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
    """Writes the description of a copy atomically and durably."""
    document = asdict(made)
    document = {"format": _FORMAT, **document, "sha256": _sum(document)}
    disk.write_file(copy / DRAFT_FILE, json.dumps(document, indent=1).encode())
    disk.rename(copy / DRAFT_FILE, copy / name)
    disk.sync_directory(copy)


def _sum(document: dict[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _check_kinds(part: Backup | CopiedFile) -> None:
    """Raises ValueError if a value has not the type of its field."""
    for each in fields(part):
        value, kind = getattr(part, each.name), each.type
        if kind == list[str]:
            is_right = isinstance(value, list) and all(isinstance(name, str) for name in value)
        elif kind == list[CopiedFile]:
            continue  # The caller checks each file.
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
"""Blocks of this size that are all zeros are not written, so that a copy is sparse."""


class Turn(Enum):
    """Turn in which a file is copied, or the reason why it is not."""

    FIRST = "before the tables"
    EARLY = "before the log"
    LOG = "with the log"
    LATE = "after the log"
    OUT = "left out"
    NEVER = "never"


RUNNING, STOPPED, WITH_VIEWS = range(3)
_TURNS: Final[tuple[tuple[str, tuple[Turn, Turn, Turn]], ...]] = (
    # the first row with a matching pattern counts       running  stopped  with its views
    ("lock abort backup.json* pocketmq/reserve *.draft", (Turn.NEVER, Turn.NEVER, Turn.NEVER)),
    ("pocketmq/watermark", (Turn.NEVER, Turn.LATE, Turn.LATE)),
    ("pocketmq/left_over.json", (Turn.NEVER, Turn.NEVER, Turn.LATE)),
    ("pocketmq/queue_ends.json*", (Turn.NEVER, Turn.NEVER, Turn.LATE)),
    ("commitlog/*", (Turn.LOG, Turn.LOG, Turn.LOG)),
    ("pocketmq/replaced/*", (Turn.OUT, Turn.OUT, Turn.OUT)),
    # Secrets: a copy may reach people who cannot read the store.
    ("pocketmq/access.json* pocketmq/tls/*", (Turn.OUT, Turn.OUT, Turn.OUT)),
    ("consumequeue/* index/*", (Turn.OUT, Turn.OUT, Turn.LATE)),
    ("checkpoint", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    # The log's records need these tables. The other tables hold offsets in the log, or are
    # independent of it.
    ("config/topics.json* config/subscriptionGroup.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("config/topicQueueMapping.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    # The timer's read time is copied before the timer log: a restored store delivers messages
    # again that were delivered between the two copies, and loses none.
    ("config/timercheck", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("timerlog/*", (Turn.EARLY, Turn.LATE, Turn.LATE)),
    ("config/*.json config/*.json.bak", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("config/*", (Turn.OUT, Turn.EARLY, Turn.EARLY)),
    # The journal is copied before the tables. A broker saves a table before it overwrites rows of
    # the journal, so every row is in the copied journal or in the copied table.
    ("pocketmq/order.journal", (Turn.FIRST, Turn.FIRST, Turn.FIRST)),
    # No term may begin above the end of the copied log. A restored leader keeps its followers.
    ("pocketmq/terms.json* pocketmq/identity.json*", (Turn.EARLY, Turn.EARLY, Turn.EARLY)),
    ("pocketmq/removed.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    # The first start of the copy lowers a floor that is above the copied end of its queue.
    ("pocketmq/floors.json*", (Turn.LATE, Turn.LATE, Turn.LATE)),
    # A restored log continues at offsets that the archive may have from the lost log.
    ("pocketmq/archived.json*", (Turn.NEVER, Turn.NEVER, Turn.NEVER)),
    # A restored store compares the clock with its own records.
    ("pocketmq/clock.json*", (Turn.NEVER, Turn.NEVER, Turn.NEVER)),
    ("pocketmq/store.json", (Turn.LATE, Turn.LATE, Turn.LATE)),
    ("*", (Turn.OUT, Turn.LATE, Turn.LATE)),
)
_OF_A_STORE: Final = (
    "abort checkpoint backup.draft commitlog/* consumequeue/* index/* config/* pocketmq/* "
    "timerlog/* timerwheel"
).split()
"""Patterns of files that an earlier run, or a broker that opened the copy, may have written."""


def walk(directory: Path, *, follows_log: bool = True) -> Iterator[str]:
    """Yields the path of every regular file of a store, relative to the store.

    follows_log   whether the log's directory is walked if it is a link, as to another disk; other
                  links are never followed
    """
    log = directory / COMMIT_LOG_DIRECTORY
    tops = (log, directory) if follows_log and log.is_symlink() else (directory,)
    for place, names, files in chain.from_iterable(map(os.walk, tops)):
        names.sort()
        for path in (Path(place, name) for name in sorted(files)):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(directory).as_posix()


def turn_of(relative: str, column: int) -> Turn:
    """Returns when the file of a path is copied.

    column   RUNNING, STOPPED or WITH_VIEWS
    """
    return next(
        turns[column]
        for patterns, turns in _TURNS
        if any(fnmatchcase(relative, pattern) for pattern in patterns.split())
    )


def is_of_a_store(relative: str) -> bool:
    """Returns whether the path is one of a store's files, which a backup may remove from a copy."""
    return any(fnmatchcase(relative, pattern) for pattern in _OF_A_STORE)


def shown_left_out(relative: str) -> str:
    """Returns the entry in `left_out` for a file that is not copied.

    The entry is the first part of the path; below config/ and pocketmq/, the first two parts.
    """
    parts = os.fsencode(relative).decode("utf-8", "replace").split("/")
    return "/".join(parts[:2] if parts[0] in ("config", OWN_DIRECTORY) else parts[:1])


def copy_file(
    disk: Disk, source: Path, target: Path, *, upto: int, size: int, advance: Advance
) -> str:
    """Copies a file's first `upto` bytes, and zeros up to `size`; returns the copy's sha256.

    Effects  replaces an existing target with a new file
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
    """Writes the blocks that are not all zeros; one `pwrite` may write only a part of a block."""
    for begin in range(0, len(piece), BLOCK_SIZE):
        block = memoryview(piece)[begin : begin + BLOCK_SIZE]
        is_hole = is_zero(block, 0, len(block))
        while len(block) and not is_hole:
            written = os.pwrite(descriptor, block, position + begin)
            block, begin = block[written:], begin + written
