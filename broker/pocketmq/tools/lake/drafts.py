"""Writes messages as Parquet drafts, one or more for each partition.

Each open draft holds the rows of one row group in memory, all together at most PENDING_BYTES_MAX.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pocketmq.files.disk_errors import FullDisk
from pocketmq.format.arrow_messages import moments_of, record_batches
from pocketmq.format.columns.heads import Heads, Numbers
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import MESSAGE_COLUMNS
from pocketmq.model.errors import Corruption
from pocketmq.tools.export.files import DAY_MS, OPEN_MAX, PENDING_BYTES_MAX, ParquetSink
from pocketmq.tools.lake.catalog import LakeFile, partition_of
from pocketmq.tools.lake.commits import LakeDraft
from pocketmq.tools.lake.schema import MOMENTS, SCHEMA

FILE_SIZE: Final = 256 * 1024 * 1024
"""Bytes from which on a file is complete; it has at most one row group more."""


class Records(NamedTuple):
    """Records to be written; `queue` is the number of each record's queue in `queues`."""

    buffer: bytearray
    heads: Heads
    queue: Numbers
    queues: QueueTable


@dataclass(slots=True)
class _Open:
    """A draft that is being written, and the bounds of its rows."""

    path: Path
    file: BinaryIO
    sink: ParquetSink
    rows: int = 0
    offsets: tuple[int, int] = (2**63 - 1, -1)
    times_ms: tuple[int, int] = (2**63 - 1, -(2**63))

    def add(self, batch: Any) -> None:
        """Adds rows."""
        self.rows += batch.num_rows
        self.offsets = _wider(self.offsets, batch.column("physical_offset"))
        self.times_ms = _wider(self.times_ms, batch.column("store_timestamp_ms"))
        self.sink.add(batch)
        assert self.offsets[0] <= self.offsets[1]


def _wider(bounds: tuple[int, int], values: Any) -> tuple[int, int]:
    numbers = values.to_numpy()
    return min(bounds[0], int(numbers.min())), max(bounds[1], int(numbers.max()))


class LakeDrafts:
    """The drafts of one commit."""

    __slots__ = ("_done", "_file_size", "_name", "_numbers", "_open", "_spool")

    def __init__(
        self, spool: Path, name: Callable[[str, int], str], file_size: int = FILE_SIZE
    ) -> None:
        """Creates drafts in the directory `spool`.

        name   returns the name of a file, by partition and number
        """
        self._spool, self._name, self._file_size = spool, name, file_size
        self._open: dict[str, _Open] = {}
        self._done: list[LakeDraft] = []
        self._numbers: Counter[str] = Counter()
        assert file_size > 0

    def add_page(self, page: Records) -> None:
        """Writes records.

        Errors   DiskFull, AllocationFailed
        """
        buffer, heads, queue, queues = page
        topics: dict[str, int] = {}
        of_queue = np.array([topics.setdefault(key[0], len(topics)) for key in queues.keys])
        names = list(topics)
        for stretch, batch in record_batches(buffer, heads, queue, queues, MESSAGE_COLUMNS):
            part = heads.take(stretch)
            keys = part.store_timestamp_ms // DAY_MS * len(names) + of_queue[queue[stretch]]
            for key in np.unique(keys).tolist():
                day, topic = divmod(key, len(names))
                some = batch.filter(pa.array(keys == key))
                self.add(partition_of(day, names[topic]), _with_moments(some))

    def add(self, partition: str, batch: Any) -> None:
        """Writes rows of a partition, with the columns of SCHEMA.

        Errors   DiskFull, AllocationFailed
        """
        entry = self._of(partition)
        with FullDisk(self._spool):
            entry.add(batch)
            if entry.file.tell() >= self._file_size:
                self._close(partition)
            while sum(one.sink.pending_bytes for one in self._open.values()) > PENDING_BYTES_MAX:
                max(self._open.values(), key=lambda one: one.sink.pending_bytes).sink.flush()

    def close(self) -> list[LakeDraft]:
        """Completes all drafts.

        Errors   DiskFull, AllocationFailed
        """
        with FullDisk(self._spool):
            for partition in list(self._open):
                self._close(partition)
        return self._done

    def abandon(self) -> None:
        """Closes incomplete drafts without footers."""
        for entry in self._open.values():
            entry.sink.abandon()
            with suppress(OSError):
                entry.file.close()
        self._open.clear()

    def _of(self, partition: str) -> _Open:
        entry = self._open.pop(partition, None)
        if entry is None:
            if len(self._open) >= OPEN_MAX:
                self._close(next(iter(self._open)))
            path = self._spool / f"{sum(self._numbers.values()):08}.parquet"
            file = path.open("wb")
            entry = _Open(path, file, ParquetSink(file, SCHEMA, "zstd"))
            self._numbers[partition] += 1
        self._open[partition] = entry  # Most recently used last.
        return entry

    def _close(self, partition: str) -> None:
        entry = self._open.pop(partition)
        with entry.file:
            entry.sink.close()
            size = entry.file.tell()
        path = self._name(partition, self._numbers[partition])
        file = LakeFile(path, entry.rows, size, *entry.offsets, *entry.times_ms)
        assert file.rows > 0
        self._done.append(LakeDraft(entry.path, file))


def _with_moments(batch: Any) -> Any:
    moments = [moments_of(batch.column(source)) for source in MOMENTS.values()]
    return pa.RecordBatch.from_arrays([*batch.columns, *moments], schema=SCHEMA)


def batches_of(path: Path, file: LakeFile) -> Iterator[Any]:
    """Yields the rows of a lake's file as `pyarrow.RecordBatch`es with the columns of SCHEMA.

    path     a copy of the file on this machine
    Errors   Corruption: it is not the file that the manifest describes
    """
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as opened:
            if opened.metadata.num_rows != file.rows:
                raise ValueError(f"it has {opened.metadata.num_rows} rows, not {file.rows}")
            for batch in opened.iter_batches():
                yield batch.cast(SCHEMA)
    except (ValueError, pa.ArrowException) as error:
        why = str(error)
        raise Corruption(path=file.path, file_position=0, physical_offset=0, why=why) from error
