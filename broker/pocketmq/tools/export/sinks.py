"""One exported file in the making: its form, and its writer.

JSON lines   written at once
Arrow        a record batch for each chunk of the log: a file, or a stream
Parquet      batches held until they make a row group
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from pocketmq.format.message_columns import BODY, MessageColumn
from pocketmq.model.message import StoredMessage

PARQUET: Final = "parquet"
ARROW: Final = "arrow"
JSONL: Final = "jsonl"
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_WITHOUT_DICTIONARY: Final = frozenset({BODY, "message_id", "offset_message_id"})
"""Columns whose values hardly ever repeat."""

Line = Callable[[StoredMessage], bytes]
"""Makes the line of a message, without its end."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """The format of an export.

    form          PARQUET, ARROW or JSONL
    columns       of Parquet and Arrow
    line          of JSONL
    compression   zstd, snappy (Parquet only) or none; of Parquet and Arrow
    decompress        decompress bodies
    split_by      one of SPLITS, None: one file
    rows_max      messages a file holds when split by rows
    """

    form: str
    columns: Sequence[MessageColumn]
    line: Line
    compression: str = "zstd"
    decompress: bool = True
    split_by: str | None = None
    rows_max: int = 1_000_000


Content = Any
"""Messages on their way to a file: a `Picked` for JSON lines, else a `pyarrow.RecordBatch`."""


class LineSink:
    """Messages as JSON, one a line, written at once."""

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
        """Does nothing: such a file has no footer."""

    abandon = close


class ArrowSink:
    """Messages as record batches, written at once: a file to be read in any order, or a stream."""

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
    """Messages in row groups of some `ROW_GROUP_BYTES`; `pending_bytes` are held until then."""

    __slots__ = ("_batches", "_writer", "pending_bytes")

    def __init__(self, file: BinaryIO, shape: ExportFormat) -> None:
        import pyarrow.parquet as pq

        from pocketmq.format.arrow_messages import schema_of

        names = [column.name for column in shape.columns]
        self._writer = pq.ParquetWriter(
            file,
            schema_of(shape.columns),
            compression=shape.compression,
            use_dictionary=_leaves(names, without=_WITHOUT_DICTIONARY),
            write_statistics=_leaves(names, without=frozenset({BODY})),
        )
        self._batches: list[Content] = []
        self.pending_bytes = 0

    def add(self, content: Content) -> None:
        """Holds a batch until there is a row group of them."""
        self._batches.append(content)
        self.pending_bytes += content.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes a row group of the held rows."""
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
        """Keeps the writer from writing a footer when it is collected."""
        self._writer.is_open = False


Sink = LineSink | ArrowSink | ParquetSink
"""One file in the making; the file itself stays open when it is closed or abandoned."""


def sink_for(file: BinaryIO, shape: ExportFormat, *, is_stream: bool = False) -> Sink:
    """Returns a sink that writes messages to a file in the form asked for."""
    if shape.form == JSONL:
        return LineSink(file, shape)
    return ParquetSink(file, shape) if shape.form == PARQUET else ArrowSink(file, shape, is_stream)


def _leaves(names: Sequence[str], *, without: frozenset[str]) -> list[str]:
    """Returns the paths that Parquet gives the parts of columns."""
    parts = {"keys": ["keys.list.element"]}
    parts["properties"] = ["properties.key_value.key", "properties.key_value.value"]
    return [path for name in names if name not in without for path in parts.get(name, [name])]
