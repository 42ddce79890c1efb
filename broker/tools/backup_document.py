"""What a copy of a store says of itself: `backup.json`, every file with its sha256.

It proves itself: `format` says whose it is, and `sha256` is that of all its other fields, as
JSON in ASCII with sorted keys and no line breaks.
"""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from broker.files.disk import Disk
from broker.format.names import COMMIT_LOG_DIRECTORY, offset_from_file_name
from broker.model.errors import Corruption, NotAStore

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
        """Return whether a file is still this one, as far as its size and time tell."""
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        return (self.size, self.changed_ns) == (stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class Backup:
    """What `backup.json` says.

    begin, upto   physical offsets of the log that it holds
    flushed       up to where the log of a running store counted as durable
    is_whole      of a store that was stopped in order, with its views
    left_out      files and directories of the store that were not copied
    bytes_copied, files_known   by the last run; files that were known were not copied again
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
    """Return what is said of a copy, None where nothing is.

    Errors   NotAStore: a file of that name is there that no backup wrote; Corruption: one did, and
             it was changed since
    """
    path = copy / name
    try:
        document = json.loads(disk.read_file(path))
        is_ours = document.pop("format") == _FORMAT
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_ours = False
    if not is_ours:
        raise NotAStore(path=str(copy), why=f"its {name} is not one of ours")
    try:
        if document.pop("sha256", None) != _sum(document):
            raise ValueError("its sha256 is another")
        document["files"] = [CopiedFile(**file) for file in document["files"]]
        made = Backup(**document)
        parts: list[Backup | CopiedFile] = [made, *made.files]
        for part in parts:
            _check_kinds(part)
    except (ValueError, TypeError, KeyError) as error:
        why = f"it is not what a backup wrote: {error}"
        raise Corruption(path=str(path), file_position=0, physical_offset=0, why=why) from error
    return made


def write_backup(disk: Disk, copy: Path, made: Backup, name: str) -> None:
    """Write down what is said of a copy, durably and at once."""
    document = asdict(made)
    document = {"format": _FORMAT, **document, "sha256": _sum(document)}
    disk.write_file(copy / DRAFT_FILE, json.dumps(document, indent=1).encode())
    disk.rename(copy / DRAFT_FILE, copy / name)
    disk.sync_directory(copy)


def _sum(document: dict[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _check_kinds(part: Backup | CopiedFile) -> None:
    """Raise ValueError where a value is not of its field's kind."""
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
