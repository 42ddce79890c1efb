"""Columns made many at once hold what decoding each record gives."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from broker.backfill import arrow_messages
from broker.backfill.arrow_messages import arrow_schema, batches
from broker.backfill.damage import Damage
from broker.backfill.log_walk import survey, walk
from broker.format.columns.queues import QueueTable
from broker.format.message_columns import MESSAGE_COLUMNS, MessageColumn, columns_of
from broker.format.record import decode_record
from broker.format.record_scan import RecordScan
from broker.rebuild.log_files import LogFile
from broker.rebuild.plan import Range
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.odd_records import records
from tests.golden_stores import GoldenStores

Rows = list[dict[str, Any]]
EVERY = list(MESSAGE_COLUMNS)


def by_column(files: list[LogFile], columns: list[MessageColumn]) -> tuple[Rows, int]:
    """All messages of a log as Arrow says them, and in how many batches."""
    schema = arrow_schema(columns)
    rows: Rows = []
    count, queues = 0, QueueTable()
    for stretch in survey([Range(file, file.base, file.end) for file in files]):
        for chunk in walk(stretch, check_crc=False):
            assert not isinstance(chunk, Damage)
            for batch in batches(chunk, queues, columns, schema):
                rows += batch.to_pylist()
                count += 1
    return rows, count


def one_by_one(files: list[LogFile], columns: list[MessageColumn]) -> Rows:
    return [
        {column.name: column.value(decode_record(content, position)) for column in columns}
        for file in files
        for content in [Path(file.path).read_bytes()]
        for position, _ in RecordScan(content, file.base)
    ]


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc"])
def test_golden_messages(golden: GoldenStores, name: str) -> None:
    files = golden_files(golden, name)
    assert by_column(files, EVERY)[0] == one_by_one(files, EVERY)


@given(records)
@settings(max_examples=60, deadline=None)
def test_odd_messages(made: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch), 8192)
        for fields in made:
            log.add(**fields)
        files = log.close().found()
        assert by_column(files, list(MESSAGE_COLUMNS))[0] == one_by_one(
            files, list(MESSAGE_COLUMNS)
        )


def test_only_what_is_asked_for_is_made(golden: GoldenStores) -> None:
    columns = columns_of(["store_size", "topic"])
    rows, _ = by_column(golden_files(golden, "v533"), columns)
    assert rows == one_by_one(golden_files(golden, "v533"), columns)
    assert list(rows[0]) == ["store_size", "topic"]


def test_bodies_that_unfold_to_much_come_in_several_batches(
    golden: GoldenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_messages, "BATCH_BYTES", 2000)
    files, columns = golden_files(golden, "basic"), columns_of(["body", "queue_offset"])
    rows, count = by_column(files, columns)
    assert rows == one_by_one(files, columns)
    assert count > len(files)


def test_columns_behind_the_fields_are_null(golden: GoldenStores) -> None:
    columns = columns_of(["tag"])
    schema = pa.schema([("tag", pa.string()), ("damage", pa.string())])
    file = golden_files(golden, "v533")[0]
    (stretch,) = survey([Range(file, file.base, file.end)])
    (chunk,) = walk(stretch, check_crc=True)
    assert not isinstance(chunk, Damage)
    (batch,) = batches(chunk, QueueTable(), columns, schema)
    assert batch.column("damage").null_count == len(batch) > 0
