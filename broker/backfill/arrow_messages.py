"""Records of the log as Arrow record batches.

    chunk of the log ─► MessageColumns ─► Arrow arrays      some 0.1 to 1 µs a record and column

Only what is asked for is made. What every column holds is told by `format/message_columns.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.format.columns.heads import Heads
from broker.format.columns.messages import (
    Column,
    Integers,
    MessageColumns,
    Picks,
    TextLists,
    Texts,
)
from broker.format.columns.queues import QueueTable
from broker.format.compression import plain_body
from broker.format.message_columns import (
    BINARY,
    BODY,
    INT32,
    INT64,
    STRING,
    STRING_BY_STRING,
    STRINGS,
    MessageColumn,
)
from broker.model.message import FLAG_COMPRESSED
from broker.walk.reader import Chunk

BATCH_BYTES: Final = 64 * 1024 * 1024
"""Unfolded bodies a batch holds before the next one begins: Arrow's limit is 2 GiB."""
ARROW_TYPES: Final[dict[str, Any]] = {
    STRING: pa.string(),
    BINARY: pa.binary(),
    INT32: pa.int32(),
    INT64: pa.int64(),
    STRINGS: pa.list_(pa.field("element", pa.string())),
    STRING_BY_STRING: pa.map_(pa.string(), pa.string()),
}


@dataclass(slots=True)
class Portion:
    """Some records of a chunk; `bodies` are unfolded, None when none of them is compressed."""

    heads: Heads
    bodies: list[bytes] | None = None


def arrow_schema(columns: Sequence[MessageColumn]) -> Any:
    """Return the `pyarrow.Schema` of messages with these columns."""
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in columns])


def batches(
    chunk: Chunk, queues: QueueTable, columns: Sequence[MessageColumn], schema: Any
) -> Iterator[Any]:
    """Yield the records of a chunk as `pyarrow.RecordBatch`es with these columns, in log order.

    schema   that of the columns; what it has behind them is null
    """
    for portion in _portions(chunk, any(column.name == BODY for column in columns)):
        numbers = queues.number(chunk.buffer, portion.heads)
        made = MessageColumns(chunk.buffer, portion.heads, numbers, queues, portion.bodies)
        arrays = [_column(column, made, portion) for column in columns]
        extra = list(schema)[len(columns) :]
        arrays += [pa.nulls(len(portion.heads), field.type) for field in extra]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _portions(chunk: Chunk, has_bodies: bool) -> Iterator[Portion]:
    heads = chunk.heads
    if not has_bodies or not (heads.system_flag & FLAG_COMPRESSED).any():
        yield Portion(heads)
        return
    begin, total = 0, 0
    bodies: list[bytes] = []
    for number, (place, size, flag) in enumerate(
        zip(
            heads.body_begin.tolist(), heads.body_size.tolist(), heads.system_flag.tolist(),
            strict=True,
        )
    ):  # fmt: skip
        bodies.append(plain_body(bytes(chunk.buffer[place : place + size]), flag))
        total += len(bodies[-1])
        if total >= BATCH_BYTES or number + 1 == len(heads):
            yield Portion(heads.take(slice(begin, number + 1)), bodies)
            begin, total, bodies = number + 1, 0, []


def _column(column: MessageColumn, made: MessageColumns, portion: Portion) -> Any:
    arrow_type = ARROW_TYPES[column.type]
    if column.name == BODY and portion.bodies is not None:
        return pa.array(portion.bodies, arrow_type)
    return arrow_array(column.read(made), arrow_type)


def arrow_array(column: Column, arrow_type: Any) -> Any:
    """Return a column as a `pyarrow.Array` of a type of ARROW_TYPES; texts are not copied."""
    if isinstance(column, Integers):
        values = column.values.astype(np.int32 if arrow_type == pa.int32() else np.int64)
        return pa.array(values, arrow_type, mask=column.is_missing)
    if isinstance(column, Picks):
        return pa.array(column.values, arrow_type).take(pa.array(column.places))
    if isinstance(column, Texts):
        return _texts(column, arrow_type)
    bounds = pa.array(column.bounds)
    if isinstance(column, TextLists):
        return pa.ListArray.from_arrays(bounds, _texts(column.texts, pa.string()), type=arrow_type)
    names, values = (_texts(texts, pa.string()) for texts in (column.names, column.values))
    return pa.MapArray.from_arrays(bounds, names, values, type=arrow_type)


def _texts(texts: Texts, arrow_type: Any) -> Any:
    valid = None
    if texts.is_missing is not None:
        valid = pa.py_buffer(np.packbits(~texts.is_missing, bitorder="little"))
    parts = [valid, pa.py_buffer(texts.bounds), pa.py_buffer(texts.content)]
    return pa.Array.from_buffers(arrow_type, len(texts.bounds) - 1, parts)
