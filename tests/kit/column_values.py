"""Columns of many messages as lists of Python values, and whole logs read by column.

by_column(files, MESSAGE_COLUMNS)     one dict a message
one_by_one(files, MESSAGE_COLUMNS)    the same, from records decoded alone
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pocketmq.format.columns.messages import (
    Column,
    Integers,
    MessageColumns,
    Picks,
    Ranges,
    TextLists,
    TextMaps,
    Texts,
    decompressed_bodies,
)
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import BINARY, MessageColumn
from pocketmq.format.record import decode_record, message_fields
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.log_files import LogFile
from pocketmq.walk.reader import Chunk, LogReader

Rows = list[dict[str, Any]]


def by_column(
    files: Sequence[LogFile], columns: Sequence[MessageColumn], *, decompress: bool = True
) -> Rows:
    """Every message of a sound log, read by column."""
    rows: Rows = []
    queues, reader = QueueTable(), LogReader()
    for file in files:
        with file.opened() as source:
            for chunk in reader.chunks(source, file.base, file.end):
                for messages in _portions(chunk, queues, decompress):
                    values = [python_values(c.read(messages), c.type != BINARY) for c in columns]
                    names = [column.name for column in columns]
                    found = zip(*values, strict=True)
                    rows += [dict(zip(names, row, strict=True)) for row in found]
    return rows


def _portions(chunk: Chunk, queues: QueueTable, decompress: bool) -> Iterator[MessageColumns]:
    buffer, heads = chunk.buffer, chunk.heads
    parts = (
        decompressed_bodies(buffer, heads, bytes_max=2000) if decompress else [(slice(None), None)]
    )
    for part, bodies in parts:
        some = heads.take(part)
        yield MessageColumns(buffer, some, queues.number(buffer, some), queues, bodies)


def one_by_one(
    files: Sequence[LogFile], columns: Sequence[MessageColumn], *, decompress: bool = True
) -> Rows:
    """Every message of a sound log, decoded alone."""
    return [
        {
            column.name: values_of(decode_record(content, position, decompress=decompress))[
                column.name
            ]
            for column in columns
        }
        for file in files
        for content in [Path(file.path).read_bytes()]
        for position, _ in RecordScan(content, file.base)
    ]


def values_of(message: StoredMessage) -> dict[str, Any]:
    """A message as a row: the values of its columns."""
    fields = message_fields(message)
    pairs = list(message.properties.items())
    return fields | {"properties": pairs}


def python_values(column: Column, is_text: bool = True) -> list[Any]:
    """One value a message, None where it is missing."""
    match column:
        case Integers(values, is_missing):
            return _without(values.tolist(), is_missing)
        case Ranges():
            return python_values(column.joined(), is_text)
        case Picks(names, places):
            return [names[place] for place in places.tolist()]
        case TextLists(bounds, texts):
            return _grouped(bounds, python_values(texts))
        case TextMaps(bounds, names_of, values_of):
            pairs = zip(python_values(names_of), python_values(values_of), strict=True)
            return _grouped(bounds, list(pairs))
        case Texts(bounds, content, is_missing):
            ends = bounds.tolist()
            parts = [content[a:b] for a, b in pairwise(ends)]
            return _without([p.decode() for p in parts] if is_text else parts, is_missing)


def _without(values: list[Any], is_missing: Any) -> list[Any]:
    flags = [False] * len(values) if is_missing is None else is_missing.tolist()
    return [None if flag else value for value, flag in zip(values, flags, strict=True)]


def _grouped(bounds: Any, values: list[Any]) -> list[list[Any]]:
    ends = bounds.tolist()
    return [values[begin:end] for begin, end in pairwise(ends)]
