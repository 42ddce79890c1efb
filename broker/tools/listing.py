"""The files of a store, one by one: what each is, how long, how far it reaches.

Nothing but names, lengths and a few bytes at a file's front is read, and nothing that is wrong ends
the list: it stands in the row's note.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from broker.format.index_layout import HEADER, HEADER_SIZE, IndexHeaderValues
from broker.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    CONSUME_QUEUE_EXTENSION_DIRECTORY,
    INDEX_DIRECTORY,
    is_index_file_name,
    offset_from_file_name,
)
from broker.format.record import HEADS, RECORD_HEAD, BadRecord, check_record, split_record
from broker.tools.store_access import Sizes

KINDS: Final = ("commitlog", "consumequeue", "consumequeue_ext", "index", "other")
BLOCK_SIZE: Final = 512
"""What the system counts allocated room in."""
_HEAD_MAX: Final = max(head.size for head in HEADS.values())
_STORE_TIMESTAMP_FIELD: Final = 10


class FileRow(NamedTuple):
    """One file.

    begin, end       physical offsets (commitlog, index), queue offsets (consumequeue)
    store_time_ms    of the first record, where it is cheap to know; 0: unknown
    """

    path: str
    kind: str
    size: int
    allocated: int
    begin: int | None = None
    end: int | None = None
    store_time_ms: int = 0
    note: str = ""


def list_files(disk: Disk, directory: Path, sizes: Sizes, kind: str = "") -> Iterator[FileRow]:
    """Yield a row for every file of a store, sorted by path; of one kind when it is given.

    Cost     some system calls a file
    """
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = path.relative_to(directory)
        found = name.parts[0] if name.parts[0] in KINDS else "other"
        if kind and found != kind:
            continue
        stat = path.stat()
        row = FileRow(str(name), found, stat.st_size, stat.st_blocks * BLOCK_SIZE)
        try:
            yield _look(disk, path, row, sizes)
        except OSError as error:
            yield row._replace(note=f"cannot be read: {error.strerror}")


def _look(disk: Disk, path: Path, row: FileRow, sizes: Sizes) -> FileRow:
    if row.kind == COMMIT_LOG_DIRECTORY:
        return _log_file(disk, path, row, sizes.commit_log_file_bytes)
    if row.kind == CONSUME_QUEUE_DIRECTORY:
        return _queue_file(disk, path, row, sizes.consume_queue_file_bytes)
    if row.kind == INDEX_DIRECTORY:
        return _index_file(disk, path, row, sizes.geometry.file_size)
    if row.kind == CONSUME_QUEUE_EXTENSION_DIRECTORY:
        return row._replace(note=_note(path, row, row.size))
    return row


def _note(path: Path, row: FileRow, size: int) -> str:
    if offset_from_file_name(path.name) is None:
        return "stray name"
    return "" if row.size == size else f"wrong size: {size} expected"


def _read(disk: Disk, path: Path, position: int, size: int) -> bytes:
    descriptor = disk.open_read_only(path)
    try:
        return disk.read_at(descriptor, position, size)
    finally:
        disk.close(descriptor)


def _log_file(disk: Disk, path: Path, row: FileRow, size: int) -> FileRow:
    note, base = _note(path, row, size), offset_from_file_name(path.name)
    if base is None:
        return row._replace(note=note)
    row = row._replace(begin=base, end=base + row.size, note=note)
    head = _read(disk, path, 0, _HEAD_MAX)
    if len(head) < RECORD_HEAD.size or not head.strip(b"\0"):
        return row._replace(note=note or "empty")
    record = _read(disk, path, 0, min(int.from_bytes(head[:4]), row.size))
    try:
        if check_record(record, 0, base, crc=False):
            time_ms = split_record(record, 0)[0][_STORE_TIMESTAMP_FIELD]
            return row._replace(store_time_ms=time_ms)
    except (BadRecord, IndexError, ValueError):
        pass
    return row._replace(note=note or "begins with no sound record")


def _queue_file(disk: Disk, path: Path, row: FileRow, size: int) -> FileRow:
    note, base = _note(path, row, size), offset_from_file_name(path.name)
    if base is None or base % UNIT_SIZE:
        return row._replace(note=note or "stray name")
    descriptor = disk.open_read_only(path)
    try:
        count = row.size // UNIT_SIZE
        lower = _first(disk, descriptor, 0, count, PRE_BLANK_SIZE)
        upper = _first(disk, descriptor, lower, count, 0)
    finally:
        disk.close(descriptor)
    first = base // UNIT_SIZE
    return row._replace(
        begin=first + lower, end=first + upper, note=note or ("" if upper > lower else "empty")
    )


def _first(disk: Disk, descriptor: int, lower: int, upper: int, size: int) -> int:
    """Return the first unit whose size is another one (pre-blank), or is this one (unused)."""
    while lower < upper:
        middle = (lower + upper) // 2
        unit = UNIT.unpack(disk.read_at(descriptor, middle * UNIT_SIZE, UNIT_SIZE))
        is_behind = unit[1] != size if size else unit[1] == 0
        if is_behind:
            upper = middle
        else:
            lower = middle + 1
    return lower


def _index_file(disk: Disk, path: Path, row: FileRow, size: int) -> FileRow:
    if not is_index_file_name(path.name):
        return row._replace(note="stray name")
    note = "" if row.size == size else f"wrong size: {size} expected"
    head = _read(disk, path, 0, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return row._replace(note=note or "no header")
    header = IndexHeaderValues(*HEADER.unpack(head))
    entries = f"{max(header.index_count - 1, 0)} entries"
    return row._replace(
        begin=header.begin_physical_offset,
        end=header.end_physical_offset,
        store_time_ms=header.begin_timestamp,
        note=note or entries,
    )
