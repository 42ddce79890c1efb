"""Message columns as Arrow record batches; needs pyarrow.

`Texts` of columns/messages.py have Arrow's layout, so that their bytes are used without a copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pocketmq.format.columns.heads import Heads, Numbers
from pocketmq.format.columns.messages import (
    Column,
    Integers,
    MessageColumns,
    Picks,
    Ranges,
    TextLists,
    Texts,
    decompressed_bodies,
)
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import (
    BINARY,
    BODY,
    INT32,
    INT64,
    STRING,
    STRING_BY_STRING,
    STRINGS,
    MessageColumn,
)

ARROW_TYPES: Final[Mapping[str, Any]] = {
    STRING: pa.string(),
    BINARY: pa.binary(),
    INT32: pa.int32(),
    INT64: pa.int64(),
    STRINGS: pa.list_(pa.field("element", pa.string())),
    STRING_BY_STRING: pa.map_(pa.string(), pa.string()),
}


MOMENT_TYPE: Final = pa.timestamp("us", tz="UTC")
_MOMENT_MIN_MS: Final = -62_135_596_800_000
_MOMENT_MAX_MS: Final = 253_402_300_799_999
"""Limits of Spark's timestamps: the years 1 to 9999."""


def schema_of(columns: Sequence[MessageColumn]) -> Any:
    """Returns the `pyarrow.Schema` of columns."""
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in columns])


def record_batches(
    buffer: bytearray,
    heads: Heads,
    queue: NDArray[np.int64],
    queues: QueueTable,
    columns: Sequence[MessageColumn],
    *,
    decompress: bool = True,
    schema: Any = None,
) -> Iterator[tuple[slice, Any]]:
    """Yields slices of the records, each with a `pyarrow.RecordBatch` independent of the buffer.

    queue        for each record, the number of its queue in `queues`
    decompress   whether to decompress bodies; if they exceed UNFOLDED_MAX bytes in total, the
                 records are divided over several batches
    schema       schema of the batches; None: the schema of `columns`. Columns that only the schema
                 has are null
    Cost         about 3 µs a record of 1 KiB with all columns
    """
    schema = schema or schema_of(columns)
    has_bodies = decompress and any(column.name == BODY for column in columns)
    stretches = decompressed_bodies(buffer, heads) if has_bodies else [(slice(None), None)]
    for stretch, bodies in stretches:
        part = heads.take(stretch)
        messages = MessageColumns(buffer, part, queue[stretch], queues, bodies, _gathered)
        arrays = [_array(c.read(messages), ARROW_TYPES[c.type]) for c in columns]
        yield stretch, batch_of(arrays, schema)


def batch_of(arrays: list[Any], schema: Any) -> Any:
    """Returns a `pyarrow.RecordBatch` of columns; additional columns of the schema are null."""
    count = len(arrays[0])
    assert all(len(array) == count for array in arrays)
    missing = [pa.nulls(count, field.type) for field in list(schema)[len(arrays) :]]
    return pa.RecordBatch.from_arrays([*arrays, *missing], schema=schema)


def moment_names(schema: Any) -> dict[str, str]:
    """Returns the names of timestamp columns, each with the name of its column of ms."""
    return {name.removesuffix("_ms"): name for name in schema.names if name.endswith("_ms")}


def moments_of(ms: Any) -> Any:
    """Returns times in ms as timestamps; a time outside Spark's limits is null."""
    can_be = pc.and_(pc.greater_equal(ms, _MOMENT_MIN_MS), pc.less_equal(ms, _MOMENT_MAX_MS))
    sound = pc.if_else(can_be, ms, pa.scalar(None, pa.int64()))
    return sound.cast(pa.timestamp("ms", tz="UTC")).cast(MOMENT_TYPE)


def _array(column: Column, arrow_type: Any) -> Any:
    if isinstance(column, Integers):
        dtype = np.int32 if arrow_type == pa.int32() else np.int64
        return pa.array(column.values.astype(dtype), arrow_type, mask=column.is_missing)
    if isinstance(column, Picks):
        return pa.array(column.values, arrow_type).take(pa.array(column.places))
    if isinstance(column, Texts):
        return _texts(column, arrow_type)
    if isinstance(column, Ranges):
        return _taken(*column)
    if isinstance(column, TextLists):
        texts = _texts(column.texts, pa.string())
        return pa.ListArray.from_arrays(pa.array(column.bounds), texts, type=arrow_type)
    names, values = _texts(column.names, pa.string()), _texts(column.values, pa.string())
    return pa.MapArray.from_arrays(pa.array(column.bounds), names, values, arrow_type)


def _texts(texts: Texts, arrow_type: Any) -> Any:
    validity = None
    if texts.is_missing is not None:
        validity = pa.py_buffer(np.packbits(~texts.is_missing, bitorder="little"))
    parts = [validity, pa.py_buffer(texts.bounds), pa.py_buffer(texts.content)]
    return pa.Array.from_buffers(arrow_type, len(texts.bounds) - 1, parts)


def _gathered(buffer: bytearray, begins: Numbers, sizes: Numbers) -> bytes:
    if not len(begins):
        return b""
    content: bytes = _taken(buffer, begins, sizes).buffers()[2].to_pybytes()
    return content


def _taken(buffer: bytearray, begins: Numbers, sizes: Numbers) -> Any:
    """Returns copies of ascending ranges of a buffer as a binary array; makes no Python objects.

    The array of all ranges and of the bytes between them needs only bounds. Every second of its
    elements is taken.
    """
    bounds = np.empty(2 * len(begins), dtype=np.int32)
    bounds[0::2], bounds[1::2] = begins, begins + sizes
    assert (bounds[1:] >= bounds[:-1]).all(), "ranges of a buffer are not in order"
    parts = [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    every = pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), parts)
    return every.take(pa.array(np.arange(0, len(bounds), 2, dtype=np.int32)))
