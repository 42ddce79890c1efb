"""Lists the files of a store: kind, length and range of each.

It reads names, lengths, the first record of each log file, the header of each index file, and a few
units of each queue file. Damage does not end the list: the row's note reports a damaged header, a
dangling link or an unreadable directory.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    NAMED_MS_MAX,
    OWN_DIRECTORY,
    is_index_file_name,
    offset_from_file_name,
)
from pocketmq.format.record import MAGIC_BLANK, RECORD_SIZE_MIN, SIZE_AND_MAGIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.walk.search import store_time_at

OTHER: Final = "other"
KINDS: Final = (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    CONFIG_DIRECTORY,
    OWN_DIRECTORY,
    OTHER,
)
"""Kinds of files, each named after its directory in the store."""
UNKNOWN_GEOMETRY: Final = IndexGeometry(0, 0)
"""Geometry of a store without readable index files: index file sizes are not checked."""
BLOCK_SIZE: Final = 512
"""Bytes in one of a file's `st_blocks`."""


_DEPTHS: Final = {
    COMMIT_LOG_DIRECTORY: 2,
    CONSUME_QUEUE_DIRECTORY: 4,
    CONSUME_QUEUE_EXTENSION_DIRECTORY: 4,
    INDEX_DIRECTORY: 2,
}
"""Number of components in the path of a file of each kind: 4 in consumequeue/TOPIC/QUEUE/FILE."""


class FileRow(NamedTuple):
    """One file.

    allocated         bytes allocated on the disk, less than `size` in a sparse file
    begin, end        physical offsets (commitlog, index), queue offsets (consumequeue)
    first_stored_ms   store time of the first record (commitlog, index); 0: unknown
    last_stored_ms    store time of the last record (index); 0: unknown
    note              an irregularity, or the number of entries (index)
    """

    path: str
    kind: str
    size: int = 0
    allocated: int = 0
    begin: int | None = None
    end: int | None = None
    first_stored_ms: int = 0
    last_stored_ms: int = 0
    note: str = ""


def list_files(disk: Disk, directory: Path, sizes: KnownShape, kind: str = "") -> Iterator[FileRow]:
    """Yields a row for every file of a store, or of one kind, sorted by path.

    Cost     some system calls a file, independent of its length
    """
    follows: int | None = None
    for path in _paths(directory):
        row = _named(path.relative_to(directory))
        if kind not in ("", row.kind):
            continue
        row = _described(disk, path, row, sizes)
        begin = row.begin if row.kind == COMMIT_LOG_DIRECTORY else None
        if begin is not None:
            if follows is None or begin >= follows:
                row = row._replace(note=row.note or _gap_note(follows, begin))
                follows = begin + sizes.commit_log_file_size_bytes
            else:
                row = row._replace(note="begins inside the file before it")
        yield row


def _gap_note(follows: int | None, begin: int) -> str:
    """Returns the note of a log file that does not begin where the file before it ends."""
    if follows in (None, begin):
        return ""
    return f"bytes {follows} to {begin} before it are missing"


def _named(relative: Path) -> FileRow:
    kind = relative.parts[0] if relative.parts and relative.parts[0] in KINDS else OTHER
    return FileRow(os.fsencode(relative).decode(errors="replace"), kind)


# -- walking ---------------------------------------------------------------------------------------
def _paths(directory: Path) -> list[Path]:
    """Returns the sorted paths of all files, and of the directories that are not scanned.

    Links are followed where a store may have directories; each directory is scanned once.
    """
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    pending = [directory]
    while pending:
        folder = pending.pop()
        try:
            stat = folder.stat()
            paths = list(folder.iterdir())
        except OSError:
            found.append(folder)
            continue
        if (stat.st_dev, stat.st_ino) in seen:
            continue
        seen.add((stat.st_dev, stat.st_ino))
        for path in paths:
            is_walked = _is_directory(path) and not _leads_elsewhere(directory, path)
            (pending if is_walked else found).append(path)
    return sorted(found)


def _is_directory(path: Path) -> bool:
    try:
        return S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _leads_elsewhere(directory: Path, path: Path) -> bool:
    if not path.is_symlink():
        return False
    relative = path.relative_to(directory)
    kind = _named(relative).kind
    return kind == OTHER or len(relative.parts) >= _DEPTHS.get(kind, 2)


# -- one file --------------------------------------------------------------------------------------
def _described(disk: Disk, path: Path, row: FileRow, sizes: KnownShape) -> FileRow:
    try:
        stat = path.stat()
        row = row._replace(size=stat.st_size, allocated=stat.st_blocks * BLOCK_SIZE)
        if not S_ISREG(stat.st_mode):
            is_directory = S_ISDIR(stat.st_mode)
            return row._replace(note="not scanned" if is_directory else "no regular file")
        depth = row.path.count("/") + 1
        if depth != _DEPTHS.get(row.kind, depth):
            return row._replace(note="unexpected directory")
        return _looked_into(disk, path, row, sizes)
    except OSError as error:
        return row._replace(note=f"cannot be read: {error.strerror}")


def _looked_into(disk: Disk, path: Path, row: FileRow, sizes: KnownShape) -> FileRow:
    if row.kind == COMMIT_LOG_DIRECTORY:
        return _log_file(disk, path, row, sizes.commit_log_file_size_bytes)
    if row.kind == CONSUME_QUEUE_DIRECTORY:
        return _queue_file(disk, path, row, sizes.consume_queue_file_size_bytes)
    if row.kind == INDEX_DIRECTORY:
        return _index_file(disk, path, row, sizes.geometry)
    if row.kind == CONSUME_QUEUE_EXTENSION_DIRECTORY:
        return row._replace(note=_name_or_size(path, row, row.size))
    is_empty_table = row.kind == CONFIG_DIRECTORY and not row.size
    return row._replace(note="empty" if is_empty_table else "")


def _name_or_size(path: Path, row: FileRow, size: int) -> str:
    if offset_from_file_name(path.name) is None:
        return "unexpected name"
    return _wrong_size(row, size)


def _wrong_size(row: FileRow, size: int) -> str:
    return "" if row.size == size else f"wrong size: {size} expected"


def _log_file(disk: Disk, path: Path, row: FileRow, size: int) -> FileRow:
    note, base = _name_or_size(path, row, size), offset_from_file_name(path.name)
    if base is None:
        return row._replace(note=note)
    row = row._replace(begin=base, end=base + row.size, note=note)
    front = disk.read_file(path, 0, RECORD_SIZE_MIN)
    if not front.strip(b"\0") or SIZE_AND_MAGIC.unpack(front[:8].ljust(8))[1] == MAGIC_BLANK:
        return row._replace(note=note or "empty")
    with LogFile(str(path), base, row.size).opened() as source:
        time_ms = store_time_at(source, base)
    if time_ms is None:
        return row._replace(note=note or "begins with no valid record")
    return row._replace(first_stored_ms=_as_time(time_ms))


def _queue_file(disk: Disk, path: Path, row: FileRow, size: int) -> FileRow:
    note, base = _name_or_size(path, row, size), offset_from_file_name(path.name)
    if base is None or base % UNIT_SIZE:
        return row._replace(note="unexpected name")
    with disk.opened(path) as descriptor:

        def size_in_unit(number: int) -> int:
            unit = disk.read_at(descriptor, number * UNIT_SIZE, UNIT_SIZE)
            return int(UNIT.unpack(unit.ljust(UNIT_SIZE, b"\0"))[1])

        units = range(row.size // UNIT_SIZE)
        lower = bisect_left(units, True, key=lambda number: size_in_unit(number) != PRE_BLANK_SIZE)
        upper = bisect_left(units, True, lower, key=lambda number: size_in_unit(number) <= 0)
    first = base // UNIT_SIZE
    note = note or ("" if upper > lower else "empty")
    return row._replace(begin=first + lower, end=first + upper, note=note)


def _index_file(disk: Disk, path: Path, row: FileRow, geometry: IndexGeometry) -> FileRow:
    if not is_index_file_name(path.name):
        return row._replace(note="unexpected name")
    is_known = geometry != UNKNOWN_GEOMETRY
    note = _wrong_size(row, geometry.file_size) if is_known else ""
    content = disk.read_file(path, 0, HEADER_SIZE)
    if len(content) < HEADER_SIZE:
        return row._replace(note=note or "no header")
    header = IndexHeaderValues(*HEADER.unpack(content))
    if header.index_count <= 1:
        return row._replace(note=note or "empty")
    count_max = geometry.entry_count_max if is_known else (row.size - HEADER_SIZE) // ENTRY_SIZE
    is_sound = 0 <= header.begin_physical_offset <= header.end_physical_offset
    if header.index_count > count_max or not is_sound:
        return row._replace(note=note or "its header is invalid")
    return row._replace(
        begin=header.begin_physical_offset,
        end=header.end_physical_offset,
        first_stored_ms=_as_time(header.begin_timestamp),
        last_stored_ms=_as_time(header.end_timestamp),
        note=note or f"{header.index_count - 1} entries",
    )


def _as_time(time_ms: int) -> int:
    """Returns a store time read from a file, or 0 if it is impossible."""
    return time_ms if 0 < time_ms < NAMED_MS_MAX else 0  # Later times are not shown as dates.
