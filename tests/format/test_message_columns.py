"""Columns read from many records hold what decoding each record gives, and JSON's names."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from broker.cli.documents import message_document
from broker.format.message_columns import (
    BINARY,
    INT32,
    INT64,
    MESSAGE_COLUMNS,
    STRING,
    STRING_BY_STRING,
    STRINGS,
    columns_of,
)
from broker.format.record import decode_record
from broker.format.record_scan import RecordScan
from tests.fakes.column_values import by_column, one_by_one
from tests.fakes.log_bytes import LogBytes, golden_files
from tests.fakes.odd_records import records
from tests.golden_stores import GoldenStores

TYPES = {STRING, BINARY, INT32, INT64, STRINGS, STRING_BY_STRING}
ABSENT = {"message_id": ""}
"""What JSON shows where a column has nothing."""


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc", "v533"])
def test_golden_messages(golden: GoldenStores, name: str) -> None:
    files = golden_files(golden, name)
    assert by_column(files, MESSAGE_COLUMNS) == one_by_one(files, MESSAGE_COLUMNS)


@given(records)
@settings(max_examples=80)
def test_odd_messages(made: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch), 8192)
        for fields in made:
            log.add(**fields)
        files = log.close().found()
        assert by_column(files, MESSAGE_COLUMNS) == one_by_one(files, MESSAGE_COLUMNS)


def test_the_names_and_values_are_those_of_json(golden: GoldenStores) -> None:
    content = Path(golden_files(golden, "basic")[0].path).read_bytes()
    for position, _ in RecordScan(content, 0):
        message = decode_record(content, position)
        document = message_document(message)
        for column in MESSAGE_COLUMNS:
            if column.name not in ("body", "properties"):
                assert column.value(message) == document.get(column.name, None) or (
                    document[column.name] == ABSENT[column.name]
                )
        assert dict(columns_of(["properties"])[0].value(message)) == document["properties"]
        assert document.keys() - {"body_text"} <= {column.name for column in MESSAGE_COLUMNS}
    assert {column.type for column in MESSAGE_COLUMNS} == TYPES


def test_columns_by_name() -> None:
    assert [column.name for column in columns_of(["tag", "body"])] == ["tag", "body"]
    assert columns_of([]) == list(MESSAGE_COLUMNS)
    with pytest.raises(ValueError, match="no column 'colour'; there are topic, queue_id"):
        columns_of(["tag", "colour"])


@pytest.mark.parametrize(
    ("text", "number"),
    [("3", 3), ("-7", -7), ("", None), ("x", None), ("2147483648", None), ("1" * 21, None)],
)
def test_a_property_that_is_a_number(tmp_path: Path, text: str, number: int | None) -> None:
    log = LogBytes(tmp_path)
    log.add(block=f"DELAY\x01{text}\x02".encode())
    files, columns = log.close().found(), columns_of(["delay_level"])
    assert by_column(files, columns) == one_by_one(files, columns) == [{"delay_level": number}]
