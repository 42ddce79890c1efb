"""The Spark data source `pocketmq`.

    table   messages             units               index
    task    a range of the log   a file of a queue   an index file

A partition is a list of tasks. Spark plans partitions in a Python process on the driver's machine,
and reads them in its workers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pocketmq.backfill.arrow_views import (
    QueueFile,
    entry_batches,
    find_index_files,
    find_queue_files,
    unit_batches,
)
from pocketmq.backfill.key_places import RecordPlaces
from pocketmq.backfill.log_walk import DamagedBytes, Stretch, walk
from pocketmq.backfill.message_plan import PARTITIONS_PER_WORKER, plan_messages
from pocketmq.backfill.queue_places import QueueRecords
from pocketmq.backfill.request import DAMAGE, FAIL, INDEX, MESSAGES, UNITS, Request, request_from
from pocketmq.backfill.row_filter import RowFilter
from pocketmq.format.arrow_messages import moments_of, record_batches
from pocketmq.format.columns.heads import Heads
from pocketmq.format.columns.messages import MessageColumns
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.message_columns import MessageColumn, columns_of


# -- planning ----------------------------------------------------------------------------------
def _plan_units(request: Request, wanted: RowFilter) -> list[list[Any]]:
    files = [
        file
        for file in find_queue_files(request.store, wanted.topics)
        if wanted.has_topic(file.topic)
        and wanted.overlaps("queue_id", file.queue_id, file.queue_id)
        and wanted.overlaps("queue_offset", *file.numbers)
    ]
    return _divided(files, request.workers)


def _plan_entries(request: Request, wanted: RowFilter) -> list[list[Any]]:
    return _divided(find_index_files(request.store), request.workers)


def _divided(tasks: Sequence[Any], workers: int) -> list[list[Any]]:
    """Divides tasks into partitions of about equal length, in order."""
    count = min(len(tasks), PARTITIONS_PER_WORKER * workers)
    borders = [len(tasks) * number // count for number in range(count + 1)] if count else [0]
    return [list(tasks[begin:end]) for begin, end in pairwise(borders)]


PLANNERS: Final[Mapping[str, Callable[[Request, RowFilter], list[list[Any]]]]] = {
    MESSAGES: plan_messages,
    UNITS: _plan_units,
    INDEX: _plan_entries,
}
"""Functions that return the tasks of a table by partition."""


# -- the source --------------------------------------------------------------------------------
class StoreSource(DataSource):
    """Messages, units or index entries of a store, selected by options (`request.py`)."""

    @classmethod
    def name(cls) -> str:
        """Returns the source's name in Spark."""
        return "pocketmq"

    def schema(self) -> StructType:
        """Returns the schema of the rows.

        Errors   ValueError, NotAStore
        """
        return from_arrow_schema(request_from(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of the partitions.

        schema   the schema that the options select, or a part of it that the user named
        """
        return StoreReader(request_from(self.options), schema)


class StoreReader(DataSourceReader):
    """Plans partitions and reads them.

    Only options select rows; `pushFilters` is not implemented, because Spark 4.3 reuses the plan of
    one query's filters for the next query on the same DataFrame. That query would lack rows.
    """

    def __init__(self, request: Request, schema: StructType) -> None:
        known = from_arrow_schema(pa.schema([*request.table.full_schema, (DAMAGE, pa.string())]))
        for field in schema:
            if field.name not in known.names or known[field.name].dataType != field.dataType:
                raise ValueError(
                    f"{request.kind} have no column {field.name} {field.dataType.simpleString()}; "
                    f"there are {known.simpleString()}"
                )
        self._request = request
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Returns the partitions of the selected rows.

        Errors   NotAStore, WrongFileSize, StoreGap
        """
        planned = PLANNERS[self._request.kind](self._request, self._request.wanted)
        return [InputPartition(tasks) for tasks in planned]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   Corruption, unless damage is reported as rows
        """
        yield from self.rows_of(partition.value or (), self._request.wanted)

    def rows_of(
        self, tasks: Iterable[Any], wanted: RowFilter, read: "ReadTask | None" = None
    ) -> Iterator[Any]:
        """Yields the rows of tasks that a filter selects as `pyarrow.RecordBatch`es.

        read     function that reads a task; None: the usual one of the table (READERS)
        Errors   Corruption, unless damage is reported as rows
        """
        shaped = _Shape(self._request, to_arrow_schema(self._schema, timezone="UTC"))
        read = read or READERS[self._request.kind]
        for task in tasks:
            for found in read(task, self._request, wanted, shaped.stored):
                if not isinstance(found, DamagedBytes):
                    yield from shaped.rows(found, wanted)
                elif self._request.on_damage == FAIL:
                    raise found.error
                else:
                    yield shaped.damage(found)


class _Shape:
    __slots__ = ("_numbers", "_schema", "_sources", "stored")

    def __init__(self, request: Request, schema: Any) -> None:
        table = request.table
        self._schema = schema
        self._sources = [table.moments.get(name, name) for name in schema.names if name != DAMAGE]
        self._numbers = () if request.kind == MESSAGES else table.numbers
        self.stored = tuple(dict.fromkeys(self._sources)) or table.schema.names[:1]
        assert set(self.stored) <= set(table.schema.names)

    def rows(self, batch: Any, wanted: RowFilter) -> Iterator[Any]:
        kept = wanted.rows(self._numbers, lambda name: batch.column(name).to_numpy())
        if kept is not None:
            batch = batch.filter(pa.array(kept))
        if not batch.num_rows:
            return
        arrays = [
            DERIVED.get(field.name, moments_of)(batch.column(source)).cast(field.type)
            if source != field.name
            else batch.column(source)
            for field, source in zip(self._fields(), self._sources, strict=True)
        ]
        columns = iter(arrays)
        whole = [
            pa.nulls(batch.num_rows, field.type) if field.name == DAMAGE else next(columns)
            for field in self._schema
        ]
        yield pa.RecordBatch.from_arrays(whole, schema=self._schema)

    def _fields(self) -> list[Any]:
        return [field for field in self._schema if field.name != DAMAGE]

    def damage(self, damage: DamagedBytes) -> Any:
        columns = [
            pa.array([str(damage.error)]) if field.name == DAMAGE else pa.nulls(1, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _first_key(lists: Any) -> Any:
    empty = pc.equal(lists.value_lengths(), 0).to_numpy(zero_copy_only=False)
    return lists.values.take(pa.array(lists.offsets.to_numpy()[:-1], mask=empty))


def _headers(maps: Any) -> Any:
    pairs = [maps.keys, maps.items.cast(pa.binary())]
    structs = pa.StructArray.from_arrays(pairs, ["key", "value"])
    return pa.ListArray.from_arrays(maps.offsets, structs)


def _same(column: Any) -> Any:
    return column


DERIVED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "key": _first_key,
    "value": _same,
    "partition": _same,
    "offset": _same,
    "headers": _headers,
}
"""Functions that compute the columns named as in Spark's source `kafka`; all other computed columns
are timestamps."""


# -- reading ---------------------------------------------------------------------------------------
def bounded(heads: Heads, request: Request, wanted: RowFilter) -> Any:
    """Returns an index of the records within the filter's bounds: a mask, or a slice of all."""
    kept = wanted.rows(request.table.numbers, heads.__getattribute__)
    return slice(None) if kept is None else kept


LogTask = Stretch | RecordPlaces | QueueRecords
"""Tasks that read messages."""


def _messages(
    task: LogTask, request: Request, wanted: RowFilter, names: Sequence[str]
) -> Iterator[Any]:
    columns, queues = columns_of(names), QueueTable()
    for found in records_of(task, request.check_crc):
        if isinstance(found, DamagedBytes):
            yield found
            continue
        buffer, heads = found
        heads = heads.take(bounded(heads, request, wanted))
        yield from record_rows(buffer, heads, wanted, queues, columns)


def records_of(task: LogTask, check_crc: bool) -> Iterator[tuple[bytearray, Heads] | DamagedBytes]:
    """Yields buffers with the heads of a task's records, ascending, and damage.

    Errors   OSError
    """
    if isinstance(task, RecordPlaces):
        yield task.read()
    elif isinstance(task, QueueRecords):
        yield from task.read(check_crc=check_crc)
    else:
        for found in walk(task, check_crc=check_crc):
            yield found if isinstance(found, DamagedBytes) else (found.buffer, found.heads)


def record_rows(
    buffer: bytearray, heads: Heads, wanted: RowFilter, queues: QueueTable,
    columns: Sequence[MessageColumn],
) -> Iterator[Any]:  # fmt: skip
    """Yields, as `pyarrow.RecordBatch`es, the records whose queues and keys a filter selects."""
    numbers = queues.number(buffer, heads)
    kept = wanted.of_queues(queues.keys, numbers, heads.queue_offset)
    if kept is not None:
        heads, numbers = heads.take(kept), numbers[kept]
    if wanted.keys is not None and len(heads):
        has_key = wanted.with_keys(MessageColumns(buffer, heads, numbers, queues))
        heads, numbers = heads.take(has_key), numbers[has_key]
    if len(heads):
        rows = record_batches(buffer, heads, numbers, queues, columns)
        yield from (batch for _, batch in rows)


def _units(file: QueueFile, request: Request, wanted: RowFilter, names: Any) -> Iterator[Any]:
    return unit_batches(file, request.table.schema)


def _entries(path: str, request: Request, wanted: RowFilter, names: Any) -> Iterator[Any]:
    return entry_batches(path, request.geometry, request.table.schema, skipped=lambda header: not (
        wanted.overlaps("physical_offset", header.begin_physical_offset, header.end_physical_offset)
    ))  # fmt: skip


ReadTask = Callable[[Any, Request, RowFilter, Sequence[str]], Iterator[Any]]
"""Yields the record batches of a task with the named columns, and its damage."""
READERS: Final[Mapping[str, ReadTask]] = {
    MESSAGES: _messages,
    UNITS: _units,
    INDEX: _entries,
}
