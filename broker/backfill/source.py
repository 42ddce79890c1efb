"""Spark's side of reading a store: a data source whose partitions are ranges and files.

    messages   ranges of the log          units   files of queues          entries   index files

The source gets its partitions ready made, as JSON in an option; `readers.py` plans them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from broker.backfill.arrow_views import (
    ENTRY_SCHEMA,
    UNIT_SCHEMA,
    QueueFile,
    entry_batches,
    unit_batches,
)
from broker.backfill.log_walk import Damage, Stretch, walk
from broker.format.arrow_messages import record_batches, schema_of
from broker.format.columns.queues import QueueTable
from broker.format.index_layout import IndexGeometry
from broker.format.message_columns import columns_of
from broker.rebuild.log_files import LogFile
from broker.rebuild.plan import Range

MESSAGES: Final = "messages"
UNITS: Final = "units"
ENTRIES: Final = "entries"
DAMAGE: Final = "damage"
"""The column that tells of damage, where it is told by rows of their own."""
FAIL: Final = "fail"
"""Damage ends the reading with an error."""
SKIP: Final = "skip"
"""Damage is a row of its own: its text in the column `damage`, nothing in the others."""
ON_DAMAGE: Final = (FAIL, SKIP)


def spark_schema(kind: str, columns: Sequence[str] = (), on_damage: str = FAIL) -> StructType:
    """Return the schema of messages, with these columns or with all; of units, or of entries.

    Errors   ValueError: there is no such column
    """
    views = {UNITS: UNIT_SCHEMA, ENTRIES: ENTRY_SCHEMA}
    schema = schema_of(columns_of(columns)) if kind == MESSAGES else views[kind]
    if on_damage == SKIP:
        schema = schema.append(pa.field(DAMAGE, pa.string()))
    return from_arrow_schema(schema)


class StoreSource(DataSource):
    """Messages, units or entries of a store, as the option `kind` says."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return "pocketmq"

    def schema(self) -> StructType:
        """Return the schema of the rows."""
        columns = json.loads(self.options.get("columns", "[]"))
        return spark_schema(self.options["kind"], columns, self.options["on_damage"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the partitions."""
        return StoreReader(dict(self.options), schema)


class StoreReader(DataSourceReader):
    """Reads partitions, each a list of tasks."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._partitions: list[list[Any]] = json.loads(options["partitions"])
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the partitions as they were planned."""
        return [InputPartition(tasks) for tasks in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition as `pyarrow.RecordBatch`es.

        Errors   Corruption, unless damage is told as rows
        """
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for task in partition.value or ():
            for found in READERS[self._options["kind"]](task, self._options, schema):
                if not isinstance(found, Damage):
                    yield found
                elif self._options["on_damage"] == FAIL:
                    raise found.error
                else:
                    yield _damage_row(found, schema)


def _messages(task: Any, options: Mapping[str, str], schema: Any) -> Iterator[Any]:
    columns = columns_of(json.loads(options["columns"]))
    queues = QueueTable()
    for found in walk(stretch_from(task), check_crc=options["check_crc"] == "true"):
        if isinstance(found, Damage):
            yield found
            continue
        numbers = queues.number(found.buffer, found.heads)
        rows = record_batches(found.buffer, found.heads, numbers, queues, columns, schema=schema)
        yield from (batch for _, batch in rows)


def _units(task: Any, options: Mapping[str, str], schema: Any) -> Iterator[Any]:
    return unit_batches(QueueFile(**task), schema)


def _entries(task: Any, options: Mapping[str, str], schema: Any) -> Iterator[Any]:
    return entry_batches(task, IndexGeometry(*json.loads(options["geometry"])), schema)


READERS: Final[Mapping[str, Callable[[Any, Mapping[str, str], Any], Iterator[Any]]]] = {
    MESSAGES: _messages,
    UNITS: _units,
    ENTRIES: _entries,
}
"""What yields the record batches of a task, and damage."""


def stretch_from(document: dict[str, Any]) -> Stretch:
    """Return the stretch that `asdict` took apart."""
    part = document["part"]
    span = Range(LogFile(**part["file"]), part["begin"], part["end"])
    return Stretch(span, document["last_time_ms"], document["is_followed"])


def _damage_row(damage: Damage, schema: Any) -> Any:
    columns = [pa.nulls(1, field.type) for field in schema]
    columns[-1] = pa.array([str(damage.error)])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
