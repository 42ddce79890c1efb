"""Spark's side of reading a store: data sources whose partitions are ranges and files.

    messages   ranges of the log          units   files of queues          entries   index files

A source gets its partitions ready made, as JSON in an option; `readers.py` plans them.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from broker.backfill.arrow_messages import arrow_schema, batches
from broker.backfill.arrow_views import (
    ENTRY_SCHEMA,
    UNIT_SCHEMA,
    QueueFile,
    entry_batches,
    unit_batches,
)
from broker.backfill.damage import DAMAGE, Damage
from broker.backfill.log_walk import Stretch, walk
from broker.format.columns.queues import QueueTable
from broker.format.index_layout import IndexGeometry
from broker.format.message_columns import columns_of
from broker.rebuild.log_files import LogFile
from broker.rebuild.plan import Range

FAIL: Final = "fail"
"""Damage ends the reading with an error."""
SKIP: Final = "skip"
"""Damage is a row of its own: its text in the column `damage`, nothing in the others."""
ON_DAMAGE: Final = (FAIL, SKIP)


def message_schema(columns: Sequence[str] = (), on_damage: str = FAIL) -> StructType:
    """Return the schema of messages with these columns, all of them when none is named.

    Errors   ValueError: there is no such column
    """
    return _spark_schema(arrow_schema(columns_of(columns)), on_damage)


def unit_schema(on_damage: str = FAIL) -> StructType:
    """Return the schema of consume units."""
    return _spark_schema(UNIT_SCHEMA, on_damage)


def entry_schema(on_damage: str = FAIL) -> StructType:
    """Return the schema of index entries."""
    return _spark_schema(ENTRY_SCHEMA, on_damage)


def _spark_schema(schema: Any, on_damage: str) -> StructType:
    if on_damage == SKIP:
        schema = schema.append(pa.field(DAMAGE, pa.string()))
    return from_arrow_schema(schema)


class MessageSource(DataSource):
    """Messages of the log."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return "pocketmq_messages"

    def schema(self) -> StructType:
        """Return the schema of the rows."""
        return message_schema(json.loads(self.options["columns"]), self.options["on_damage"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the ranges."""
        return MessageReader(dict(self.options), schema)


class UnitSource(DataSource):
    """Units of consume queues."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return "pocketmq_units"

    def schema(self) -> StructType:
        """Return the schema of the rows."""
        return unit_schema(self.options["on_damage"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the files."""
        return UnitReader(dict(self.options), schema)


class EntrySource(DataSource):
    """Entries of index files."""

    @classmethod
    def name(cls) -> str:
        """Return what Spark knows it by."""
        return "pocketmq_entries"

    def schema(self) -> StructType:
        """Return the schema of the rows."""
        return entry_schema(self.options["on_damage"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the files."""
        return EntryReader(dict(self.options), schema)


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
            for found in self._found(task, schema):
                if not isinstance(found, Damage):
                    yield found
                elif self._options["on_damage"] == FAIL:
                    raise found.error
                else:
                    yield _damage_row(found, schema)

    @abstractmethod
    def _found(self, task: Any, schema: Any) -> Iterator[Any]:
        """Yield record batches and damage."""


class MessageReader(StoreReader):
    """Reads stretches of the log."""

    def _found(self, task: Any, schema: Any) -> Iterator[Any]:
        columns = columns_of(json.loads(self._options["columns"]))
        queues = QueueTable()
        stretch = stretch_from(task)
        for found in walk(stretch, check_crc=self._options["check_crc"] == "true"):
            if isinstance(found, Damage):
                yield found
            else:
                yield from batches(found, queues, columns, schema)


class UnitReader(StoreReader):
    """Reads files of consume queues."""

    def _found(self, task: Any, schema: Any) -> Iterator[Any]:
        yield from unit_batches(QueueFile(**task), schema)


class EntryReader(StoreReader):
    """Reads index files."""

    def _found(self, task: Any, schema: Any) -> Iterator[Any]:
        geometry = IndexGeometry(*json.loads(self._options["geometry"]))
        yield from entry_batches(task, geometry, schema)


def stretch_from(document: dict[str, Any]) -> Stretch:
    """Return the stretch that `asdict` took apart."""
    part = document["part"]
    span = Range(LogFile(**part["file"]), part["begin"], part["end"])
    return Stretch(span, document["last_time_ms"], document["is_followed"])


def _damage_row(damage: Damage, schema: Any) -> Any:
    columns = [pa.nulls(1, field.type) for field in schema]
    columns[-1] = pa.array([str(damage.error)])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
