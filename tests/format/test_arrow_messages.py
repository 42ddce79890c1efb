"""Arrow batches hold what the columns of messages hold."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from broker.format.arrow_messages import record_batches, schema_of
from broker.format.columns import messages
from broker.format.message_columns import MESSAGE_COLUMNS, columns_of
from broker.rebuild.log_files import LogFile
from broker.tools.selection import LogSearch, Selection
from tests.fakes.column_values import one_by_one
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.odd_records import records
from tests.golden_stores import GoldenStores


def batched(files: list[LogFile], names: list[str], *, unfold: bool = True) -> list[Any]:
    """All messages of a log as batches, each as long as what it comes with."""
    search, batches = LogSearch(files, Selection()), []
    for picked in search:
        buffer, heads, queue, _ = picked
        columns = columns_of(names)
        for part, batch in record_batches(
            buffer, heads, queue, search.queues, columns, unfold=unfold
        ):
            batch.validate(full=True)
            assert len(batch) == len(picked.take(part).heads)
            batches.append(batch)
    return batches


def rows_of(batches: list[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("unfold", [True, False])
@pytest.mark.parametrize("name", ["basic", "semantics"])
def test_golden_messages(golden: GoldenStores, name: str, unfold: bool) -> None:
    files = golden_files(golden, name)
    found = rows_of(batched(files, [], unfold=unfold))
    assert found == one_by_one(files, MESSAGE_COLUMNS, unfold=unfold)


@given(records)
@settings(max_examples=40)
def test_odd_messages(made: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch), 8192)
        for fields in made:
            log.add(**fields)
        files = log.close().found()
        assert rows_of(batched(files, [])) == one_by_one(files, MESSAGE_COLUMNS)


def test_the_columns_asked_for_in_the_order_given(golden: GoldenStores) -> None:
    names = ["tag", "body", "topic"]
    batches = batched(golden_files(golden, "v533"), names)
    assert batches[0].schema.names == names == schema_of(columns_of(names)).names


def test_bodies_that_unfold_to_much_come_in_several_batches(
    golden: GoldenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "UNFOLDED_MAX", 2000)
    files = golden_files(golden, "basic")
    batches = batched(files, ["body"])
    assert len(batches) > len(files)
    assert rows_of(batches) == one_by_one(files, columns_of(["body"]))
    assert isinstance(batches[0], pa.RecordBatch)


def test_columns_behind_the_fields_are_null(golden: GoldenStores) -> None:
    columns = columns_of(["tag"])
    schema = schema_of(columns).append(pa.field("damage", pa.string()))
    search = LogSearch(golden_files(golden, "v533")[:1], Selection())
    buffer, heads, queue, _ = next(iter(search))
    ((_, batch),) = record_batches(buffer, heads, queue, search.queues, columns, schema=schema)
    assert batch.column("damage").null_count == len(batch) > 0
