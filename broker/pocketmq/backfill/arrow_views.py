"""Reads units of consume queues and entries of index files as Arrow record batches.

The log is not read. Faults visible in the files themselves become `DamagedBytes`.
"""

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pocketmq.backfill.log_walk import DamagedBytes
from pocketmq.backfill.row_filter import NUMBER_MAX
from pocketmq.format.arrow_messages import batch_of
from pocketmq.format.columns.units import UNIT_TYPE, valid_unit_count
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.index_entries import ENTRY_TYPE
from pocketmq.format.index_layout import (
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    WELL_KNOWN,
    IndexGeometry,
    IndexHeaderValues,
)
from pocketmq.format.names import (
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    is_index_file_name,
    offset_from_file_name,
    queue_id_from_name,
)
from pocketmq.model.errors import StrayFile
from pocketmq.model.message import QueueKey

ROWS_AT_ONCE: Final = 500_000
"""Upper limit of rows in one batch: 10 MB of units or entries."""
_NO_GEOMETRY: Final = (
    "its length fits no known number of slots and entries; set maxHashSlotNum and "
    "maxIndexNum, which pocketmq store info reports"
)

UNIT_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("physical_offset", pa.int64()),
        ("size", pa.int32()),
        ("tags_code", pa.int64()),
    ]
)
ENTRY_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("number", pa.int32()),
        ("slot", pa.int32()),
        ("key_hash", pa.int32()),
        ("physical_offset", pa.int64()),
        ("store_time_ms", pa.int64()),
        ("previous", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a consume queue.

    base          position of the file's first byte in the queue, in bytes
    size          size of the file in bytes
    is_followed   whether a later file of the queue contains units
    upto          base of the next file; None: it is the last file
    first_place   physical offset of its first unit; 0: it is unknown
    """

    path: str
    topic: str
    queue_id: int
    base: int
    size: int
    is_followed: bool
    upto: int | None
    first_place: int = 0

    @property
    def numbers(self) -> tuple[int, int]:
        """The queue offsets of the first and the last unit that the file has if it is full."""
        last = NUMBER_MAX if self.upto is None else self.upto // UNIT_SIZE - 1
        return self.base // UNIT_SIZE, last


def find_queue_files(store: Path, topics: Collection[str] | None = None) -> list[QueueFile]:
    """Returns the files of a store's queues, sorted by topic, queue and position.

    topics   None: all
    Cost     a read of 20 bytes of each file
    """
    found: list[QueueFile] = []
    for (topic, queue_id), directory in sorted(_queue_directories(store, topics)):
        files = sorted(
            (base, path)
            for path in directory.iterdir()
            if path.is_file() and (base := offset_from_file_name(path.name)) is not None
        )
        first = [_first_place(path) for _, path in files]
        used = [base for (base, _), place in zip(files, first, strict=True) if place is not None]
        last_base = used[-1] if used else 0
        ends = [base for base, _ in files[1:]] + [None]
        found += [
            QueueFile(
                str(path), topic, queue_id, base, path.stat().st_size, base < last_base, end,
                place or 0,
            )
            for (base, path), end, place in zip(files, ends, first, strict=True)
        ]  # fmt: skip
    return found


def _queue_directories(
    store: Path, topics: Collection[str] | None
) -> Iterator[tuple[QueueKey, Path]]:
    root = store / CONSUME_QUEUE_DIRECTORY
    every = root.iterdir() if topics is None and root.is_dir() else ()
    for topic in every if topics is None else [root / name for name in topics]:
        for directory in topic.iterdir() if topic.is_dir() else ():
            queue_id = queue_id_from_name(directory.name)
            if queue_id is not None and directory.is_dir():
                yield (topic.name, queue_id), directory


def _first_place(path: Path) -> int | None:
    """Returns the physical offset of a file's first unit; None if the file has none."""
    with path.open("rb") as file:
        unit = file.read(UNIT_SIZE).ljust(UNIT_SIZE, b"\0")
    return UNIT.unpack(unit)[0] if valid_unit_count(unit) == 1 else None


def unit_batches(file: QueueFile, schema: Any) -> Iterator[Any]:
    """Yields the units of a file as `pyarrow.RecordBatch`es, then `DamagedBytes` if it is damaged.

    Pre-blank units are left out.

    schema   UNIT_SCHEMA, or UNIT_SCHEMA followed by further columns, which are null
    """
    units: NDArray[Any] = np.fromfile(file.path, UNIT_TYPE)
    count = valid_unit_count(units.tobytes()) if len(units) else 0
    first = file.base // UNIT_SIZE
    for begin in range(0, count, ROWS_AT_ONCE):
        part = units[begin : min(begin + ROWS_AT_ONCE, count)]
        numbers = np.arange(first + begin, first + begin + len(part))
        told = part["size"] != PRE_BLANK_SIZE
        part, numbers = part[told], numbers[told]
        columns = [
            pa.repeat(file.topic, len(part)),
            pa.array(np.full(len(part), file.queue_id, dtype=np.int32)),
            pa.array(numbers),
            pa.array(part["physical_offset"].astype(np.int64)),
            pa.array(part["size"].astype(np.int32)),
            pa.array(part["tags_code"].astype(np.int64)),
        ]
        yield batch_of(columns, schema)
    place = int(units["physical_offset"][count - 1]) if count else 0
    if file.size % UNIT_SIZE:
        yield DamagedBytes(file.path, file.size, place, "its length is not a multiple of 20")
    elif count < len(units) and (file.is_followed or units[count:].tobytes().strip(b"\0")):
        position = count * UNIT_SIZE
        yield DamagedBytes(file.path, position, place, "no valid unit, but bytes follow")


def find_index_files(store: Path) -> list[str]:
    """Returns the index files of a store, oldest first.

    Errors   StrayFile: a directory, FIFO or link to nothing has the name of an index file
    """
    directory = store / INDEX_DIRECTORY
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    paths = [path for path in paths if is_index_file_name(path.name)]
    for path in paths:
        if not path.is_file() and os.path.lexists(path):  # Else a broker has removed it.
            raise StrayFile(path=str(path), why="it is no plain file")
    return list(map(str, paths))


def entry_batches(
    path: str, geometry: IndexGeometry | None, schema: Any,
    skipped: Callable[[IndexHeaderValues], bool] = lambda header: False,
) -> Iterator[Any]:  # fmt: skip
    """Yields the entries of an index file as `pyarrow.RecordBatch`es, in order.

    For a damaged file, the last item is a `DamagedBytes`.

    geometry   None: the file's length determines it
    schema     ENTRY_SCHEMA, or ENTRY_SCHEMA followed by further columns, which are null
    skipped    returns by a file's valid header whether to yield none of the file's entries
    """
    file, place = Path(path), 0
    header = _header(file)
    geometry = geometry or _geometry_of(file)
    reason = _header_fault(file, header, geometry) if geometry else _NO_GEOMETRY
    if geometry is None or reason:
        yield DamagedBytes(path, 0, 0, reason)
        return
    if skipped(header):
        return
    for begin in range(1, header.index_count, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, header.index_count - begin)
        rows = _entries(file, geometry, begin, count)
        numbers = np.arange(begin, begin + count, dtype=np.int32)
        sound = _sound_count(rows, numbers)
        rows = rows[:sound]
        yield _entry_batch(file.name, rows, numbers[:sound], header, geometry, schema)
        place = int(rows["physical"][-1]) if sound else place
        if sound < count:
            position = geometry.entries_position + ENTRY_SIZE * (begin + sound)
            yield DamagedBytes(path, position, place, f"entry {begin + sound} is invalid")
            return


def _geometry_of(file: Path) -> IndexGeometry | None:
    size = file.stat().st_size
    return next((geometry for geometry in WELL_KNOWN if geometry.file_size == size), None)


def _header(file: Path) -> IndexHeaderValues:
    with file.open("rb") as opened:
        return IndexHeaderValues(*HEADER.unpack(opened.read(HEADER_SIZE).ljust(HEADER_SIZE, b"\0")))


def _header_fault(file: Path, header: IndexHeaderValues, geometry: IndexGeometry) -> str:
    size = file.stat().st_size
    if size != geometry.file_size:
        return f"it has {size} bytes, expected {geometry.file_size}"
    if not 0 <= header.index_count <= geometry.entry_count_max:
        return f"it cannot hold {header.index_count} entries"
    if not header.index_count and _entries(file, geometry, 1, 1).tobytes().strip(b"\0"):
        return "its header is empty, but it holds entries"
    return ""


def _entry_batch(
    name: str, rows: NDArray[Any], numbers: NDArray[np.int32], header: IndexHeaderValues,
    geometry: IndexGeometry, schema: Any,
) -> Any:  # fmt: skip
    hashes = rows["hash"].astype(np.int32)
    seconds = rows["second"].astype(np.int64)
    columns = [
        pa.repeat(name, len(rows)),
        pa.array(numbers),
        pa.array(hashes % geometry.slot_count, pa.int32()),
        pa.array(hashes),
        pa.array(rows["physical"].astype(np.int64)),
        pa.array(header.begin_timestamp + seconds * 1000),
        pa.array(rows["previous"].astype(np.int32)),
    ]
    return batch_of(columns, schema)


def _entries(file: Path, geometry: IndexGeometry, number: int, count: int) -> NDArray[Any]:
    position = geometry.entries_position + ENTRY_SIZE * number
    return np.fromfile(file, ENTRY_TYPE, count, offset=position)


def _sound_count(rows: NDArray[Any], numbers: NDArray[np.int32]) -> int:
    bad = (rows["hash"] < 0) | (rows["physical"] < 0)
    bad |= (rows["previous"] < 0) | (rows["previous"] >= numbers)
    return int(bad.argmax()) if bad.any() else len(rows)
