"""Exports messages of a log to Parquet, Arrow or JSON lines files.

    search ─► picks ─┬─► orders    ─► draft ─► orders.parquet
                     └─► payments  ─► draft ─► payments.parquet      one file without a split

Files are written as drafts. When all of them are complete and durable, the draft file or the draft
directory is renamed to the target. A failed export removes its draft. Each open Parquet file holds
the rows of one row group in memory, all files together at most `PENDING_BYTES_MAX`.
"""

import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import FullDisk
from pocketmq.format.message_columns import BODY, MessageColumn
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.model.names import check_topic
from pocketmq.tools.selection import LogSearch, Picked

# -- writers of one exported file --------------------------------------------------------------
PARQUET: Final = "parquet"
ARROW: Final = "arrow"
JSONL: Final = "jsonl"
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_WITHOUT_DICTIONARY: Final = frozenset({BODY, "message_id", "offset_message_id"})
"""Columns that are not dictionary-encoded, as their values rarely repeat."""

Line = Callable[[StoredMessage], bytes]
"""Returns a message as one line, without the line feed."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """The format of an export.

    form          PARQUET, ARROW or JSONL
    columns       columns of Parquet and Arrow
    line          formatter of JSONL
    compression   zstd, snappy (Parquet only) or none, for Parquet and Arrow
    decompress    decompresses bodies
    split_by      one of SPLITS; None: one file
    rows_max      upper limit of messages in a file when split by rows
    """

    form: str
    columns: Sequence[MessageColumn]
    line: Line
    compression: str = "zstd"
    decompress: bool = True
    split_by: str | None = None
    rows_max: int = 1_000_000


Content = Any
"""Messages for a sink: a `Picked` for JSON lines, else a `pyarrow.RecordBatch`."""


class LineSink:
    """Writes messages as JSON lines, without buffering rows."""

    __slots__ = ("_file", "_shape")
    pending_bytes: Final = 0

    def __init__(self, file: BinaryIO, shape: ExportFormat) -> None:
        self._file = file
        self._shape = shape

    def add(self, content: Content) -> None:
        """Writes messages."""
        for message in content.messages(decompress=self._shape.decompress):
            self._file.write(self._shape.line(message) + b"\n")

    def flush(self) -> None:
        """Flushes the file, so that readers see all written messages."""
        self._file.flush()

    def close(self) -> None:
        """Does nothing: JSON lines have no footer."""

    abandon = close


class ArrowSink:
    """Writes record batches as an Arrow file or stream, without buffering rows."""

    __slots__ = ("_file", "_writer")
    pending_bytes: Final = 0

    def __init__(self, file: BinaryIO, shape: ExportFormat, is_stream: bool) -> None:
        import pyarrow as pa

        from pocketmq.format.arrow_messages import schema_of

        codec = None if shape.compression == "none" else shape.compression
        options = pa.ipc.IpcWriteOptions(compression=codec)
        new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
        self._file = file
        self._writer = new(file, schema_of(shape.columns), options=options)

    def add(self, content: Content) -> None:
        """Writes a batch."""
        self._writer.write_batch(content)

    def flush(self) -> None:
        """Flushes the file, so that readers see all written messages."""
        self._file.flush()

    def close(self) -> None:
        """Writes the footer of the file."""
        self._writer.close()

    def abandon(self) -> None:
        """Releases the file without a footer."""
        del self._writer


class ParquetSink:
    """Writes messages in row groups of about `ROW_GROUP_BYTES`.

    pending_bytes   bytes of the rows that are buffered for the next row group
    """

    __slots__ = ("_batches", "_writer", "pending_bytes")

    def __init__(self, file: BinaryIO, schema: Any, compression: str) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression=compression,
            use_dictionary=_leaves(schema.names, without=_WITHOUT_DICTIONARY),
            write_statistics=_leaves(schema.names, without=frozenset({BODY})),
        )
        self._batches: list[Content] = []
        self.pending_bytes = 0

    def add(self, content: Content) -> None:
        """Adds a batch to the next row group; writes the row group once it is large enough."""
        self._batches.append(content)
        self.pending_bytes += content.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes all buffered rows as a row group."""
        import pyarrow as pa

        assert self.pending_bytes == sum(batch.nbytes for batch in self._batches)
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._batches, self.pending_bytes = [], 0
            self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> None:
        """Writes the last row group and the footer."""
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        """Prevents the writer from writing a footer when it is garbage-collected."""
        self._writer.is_open = False


Sink = LineSink | ArrowSink | ParquetSink
"""Writer of one file; `close` and `abandon` leave the underlying file open."""


def sink_for(file: BinaryIO, shape: ExportFormat, *, is_stream: bool = False) -> Sink:
    """Returns the sink for a format; `is_stream` selects Arrow's stream format."""
    if shape.form == JSONL:
        return LineSink(file, shape)
    if shape.form == ARROW:
        return ArrowSink(file, shape, is_stream)
    from pocketmq.format.arrow_messages import schema_of

    return ParquetSink(file, schema_of(shape.columns), shape.compression)


def _leaves(names: Sequence[str], *, without: frozenset[str]) -> list[str]:
    """Returns the Parquet leaf paths of all columns but those in `without`."""
    parts = {"keys": ["keys.list.element"]}
    parts["properties"] = ["properties.key_value.key", "properties.key_value.value"]
    return [path for name in names if name not in without for path in parts.get(name, [name])]


# ----------------------------------------------------------------------------------------------
SUFFIXES: Final = {
    ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".feather": ARROW, ".ipc": ARROW,
    ".jsonl": JSONL, ".ndjson": JSONL,
}  # fmt: skip
TOPIC: Final = "topic"
DAY: Final = "day"
ROWS: Final = "rows"
SPLITS: Final = (TOPIC, DAY, ROWS)

PENDING_BYTES_MAX: Final = 2 * ROW_GROUP_BYTES
"""Upper limit of the rows that all open files together hold in memory, bytes."""
OPEN_MAX: Final = 128
"""Upper limit of open files; with more topics or days, some are split over several files."""
NAME_SIZE_MAX: Final = 200
"""Upper limit of a topic's characters in a file name; file systems allow names of 255 bytes."""
DRAFT_SUFFIX: Final = ".draft"
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Exported:
    """Result of an export: its files, and the count and bytes of messages."""

    files: list[Path]
    messages: int = 0
    bytes: int = 0


def export_files(disk: Disk, search: LogSearch, target: Path, shape: ExportFormat) -> Exported:
    """Writes the messages of a search to a file, or to a directory of several files.

    With a split, the target must be a new or empty directory.

    Effects  replaces an existing file
    Errors   DiskFull; no draft is left
    """
    draft = target.with_name(target.name + DRAFT_SUFFIX)
    _drop(draft)
    directory = draft if shape.split_by else draft.parent
    disk.make_directory(directory)
    files = Files(disk, search, directory, shape, "" if shape.split_by else draft.name)
    try:
        for picked in search:
            files.add(picked)
        exported = files.close()
        disk.sync_directory(directory)
        disk.rename(draft, target)
        disk.sync_directory(target.parent)
    except BaseException:
        files.abandon()
        _drop(draft)
        raise
    exported.files = [target / f.name if shape.split_by else target for f in exported.files]
    return exported


def export_stream(search: LogSearch, out: BinaryIO, shape: ExportFormat) -> int:
    """Writes the messages of a search as JSON lines or an Arrow stream; returns their count."""
    messages = 0
    sink = sink_for(out, shape, is_stream=True)
    for picked in search:
        for part, content in _contents(search, picked, shape):
            sink.add(content)
            messages += len(part.heads)
        sink.flush()
    sink.close()
    out.flush()
    return messages


def _drop(draft: Path) -> None:
    """Deletes the draft of an unfinished export."""
    if draft.is_dir():
        shutil.rmtree(draft)
    else:
        draft.unlink(missing_ok=True)


class _Open(NamedTuple):
    """A file that is being written."""

    file: BinaryIO
    sink: Sink


@dataclass(slots=True)
class Files:
    """The open files of an export, keyed by the topic, day or part that each file contains.

    _only   file name of an export without a split
    """

    _disk: Disk
    _search: LogSearch
    _directory: Path
    _shape: ExportFormat
    _only: str
    _open: dict[str, _Open] = field(default_factory=dict)
    _parts: Counter[str] = field(default_factory=Counter)
    _exported: Exported = field(default_factory=lambda: Exported([]))

    def add(self, picked: Picked) -> None:
        """Writes messages to the files they belong to."""
        for part, content in _contents(self._search, picked, self._shape):
            for name, some in self._split(part, content):
                sink = self._of(name).sink
                with FullDisk(self._directory):
                    sink.add(some)
            self._exported.messages += len(part.heads)
        sinks = [entry.sink for entry in self._open.values()]
        while sum(sink.pending_bytes for sink in sinks) > PENDING_BYTES_MAX:
            with FullDisk(self._directory):
                max(sinks, key=lambda sink: sink.pending_bytes).flush()

    def close(self) -> Exported:
        """Completes all files and makes them durable."""
        if self._only and not self._open:
            self._of(self._only)
        for name in list(self._open):
            self._close(name)
        return self._exported

    def abandon(self) -> None:
        """Closes incomplete files without footers."""
        for file, sink in self._open.values():
            sink.abandon()
            with suppress(OSError):
                file.close()
        self._open.clear()

    def _of(self, name: str) -> _Open:
        entry = self._open.pop(name, None)
        if entry is None:
            if len(self._open) >= (1 if self._shape.split_by == ROWS else OPEN_MAX):
                self._close(next(iter(self._open)))
            entry = self._make(name)
        self._open[name] = entry  # Most recently used last.
        return entry

    def _make(self, name: str) -> _Open:
        number = self._parts[name]
        self._parts[name] += 1
        file_name = name if self._only else file_name_of(name, number, self._shape.form)
        path = self._directory / file_name
        with FullDisk(path), ExitStack() as undone:
            file = undone.enter_context(path.open("wb"))
            entry = _Open(file, sink_for(file, self._shape))
            undone.pop_all()
        self._exported.files.append(path)
        return entry

    def _close(self, name: str) -> None:
        file, sink = self._open.pop(name)
        with file, FullDisk(Path(file.name)):
            sink.close()
            file.flush()
            self._disk.sync(file.fileno())
            self._exported.bytes += os.fstat(file.fileno()).st_size

    def _split(self, picked: Picked, content: Content) -> Iterator[tuple[str, Content]]:
        if self._shape.split_by is None:
            yield self._only, content
            return
        groups, label = self._groups(picked)
        found = np.unique(groups).tolist()
        for group in found:
            some = content.take(np.flatnonzero(groups == group)) if len(found) > 1 else content
            yield label(group), some

    def _groups(self, picked: Picked) -> tuple[NDArray[np.int64], Callable[[int], str]]:
        """Returns each message's group number, and a function that names a group."""
        if self._shape.split_by == ROWS:
            numbers = self._exported.messages + np.arange(len(picked.heads))
            return numbers // self._shape.rows_max, lambda number: f"part-{number:05d}"
        if self._shape.split_by == DAY:
            return picked.heads.store_timestamp_ms // DAY_MS, day_name
        keys = self._search.queues.keys
        return self._search.topics(picked), lambda number: keys[number][0]


def day_name(day: int) -> str:
    """Returns the UTC date of a day number; "day" and the number if no date has it."""
    try:
        return f"{datetime.fromtimestamp(day * DAY_MS // 1000, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"day{day}"


def file_name_of(name: str, number: int, form: str) -> str:
    """Returns the file name for a topic, day or part; a legal topic keeps its own name.

    Illegal topic names might clash or be no valid file names. They are percent-quoted after `=`,
    which no legal topic contains.

    number   ordinal of the file among the files with this name
    """
    try:
        check_topic(name)
    except BrokerError:
        name = "=" + quote(name, safe="")
    if len(name) > NAME_SIZE_MAX:
        name = f"{name[:NAME_SIZE_MAX]}~{zlib.crc32(name.encode()):08x}"
    suffix = next(suffix for suffix, wanted in SUFFIXES.items() if wanted == form)
    return f"{name}.{number:05d}{suffix}" if number else f"{name}{suffix}"


def _contents(
    search: LogSearch, picked: Picked, shape: ExportFormat
) -> Iterator[tuple[Picked, Content]]:
    """Yields parts of the messages, each with its content for a sink."""
    if shape.form == JSONL:
        yield picked, picked
        return
    from pocketmq.format.arrow_messages import record_batches

    buffer, heads, queue, _ = picked
    for stretch, batch in record_batches(
        buffer, heads, queue, search.queues, shape.columns, decompress=shape.decompress
    ):
        yield picked.take(stretch), batch
