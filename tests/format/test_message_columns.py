"""Columns of many messages hold what decoding each gives, with JSON names; so do Arrow batches."""

import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from pocketmq.cli.documents import message_document
from pocketmq.format.arrow_messages import record_batches, schema_of
from pocketmq.format.columns import messages
from pocketmq.format.message_columns import (
    BINARY,
    INT32,
    INT64,
    MESSAGE_COLUMNS,
    STRING,
    STRING_BY_STRING,
    STRINGS,
    columns_of,
)
from pocketmq.format.record import decode_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.message import FLAG_COMPRESSED
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.selection import LogSearch, Selection
from tests.golden_stores import GoldenStores
from tests.kit.column_values import by_column, one_by_one, values_of
from tests.kit.log_bytes import IPV4, IPV6, LogBytes, golden_files
from tests.kit.odd_records import records

TYPES = {STRING, BINARY, INT32, INT64, STRINGS, STRING_BY_STRING}


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc", "v533"])
def test_golden_messages(golden: GoldenStores, name: str) -> None:
    files = golden_files(golden, name)
    assert by_column(files, MESSAGE_COLUMNS) == one_by_one(files, MESSAGE_COLUMNS)


@given(records)
@settings(max_examples=80)
def test_odd_messages(made: list[dict[str, Any]]) -> None:
    """Also as batches of Arrow."""
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch), 8192)
        for fields in made:
            log.add(**fields)
        files = log.close().found()
        wanted = one_by_one(files, MESSAGE_COLUMNS)
        assert by_column(files, MESSAGE_COLUMNS) == wanted
        assert rows_of(batched(files, [])) == wanted


def test_the_names_and_values_are_those_of_json(golden: GoldenStores) -> None:
    content = Path(golden_files(golden, "basic")[0].path).read_bytes()
    for position, _ in RecordScan(content, 0):
        message = decode_record(content, position)
        document, values = message_document(message), values_of(message)
        assert [*values] == [column.name for column in MESSAGE_COLUMNS]
        for name in values.keys() - {"body", "properties"}:
            assert values[name] == document.get(name)
        assert dict(values["properties"]) == document["properties"]
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


HOSTS = columns_of(["born_host", "store_host", "offset_message_id", "reconsume_times", "flag"])


def same(log: LogBytes, *names: str) -> list[dict[str, Any]]:
    """The columns of a log, made sure that both ways agree."""
    files, columns = log.close().found(), columns_of(names)
    rows = by_column(files, columns)
    assert rows == one_by_one(files, columns)
    return rows


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("host", [IPV4, IPV6])
def test_hosts_of_any_width(tmp_path: Path, born: bytes, host: bytes) -> None:
    log = LogBytes(tmp_path)
    log.add(born=born, host=host)
    log.add(born=IPV4, host=IPV4)
    rows = same(log, *(column.name for column in HOSTS))
    assert rows[1]["born_host"] == rows[1]["store_host"] == "127.0.0.1:10911"
    assert rows[1]["offset_message_id"].startswith("7F00000100002A9F0000000000000")


def test_bodies_are_unfolded_when_asked_for(tmp_path: Path) -> None:
    packed = zlib.compress(b"hello " * 50)
    log = LogBytes(tmp_path)
    for body, flags in ((packed, FLAG_COMPRESSED), (b"", 0), (b"no zlib", FLAG_COMPRESSED)):
        log.add(body=body, flags=flags)
    bodies = [row["body"] for row in same(log, "body")]
    assert bodies == [b"hello " * 50, b"", b"no zlib"]
    (files,) = [log.found()]
    columns = columns_of(["body"])
    stored = [{"body": body} for body in (packed, b"", b"no zlib")]
    assert by_column(files, columns, decompress=False) == stored
    assert one_by_one(files, columns, decompress=False) == stored


@pytest.mark.parametrize(
    ("block", "pairs"),
    [
        (b"a\x011\x02b\x012\x02a\x013\x02", [("a", "3"), ("b", "2")]),
        (b"\x01x\x02a\x01\x02novalue\x02c\x01d\x01e\x02\x02f\x01g", [("c", "d\x01e"), ("f", "g")]),
    ],
    ids=["the last value wins at the first place", "pairs without a name or a value are dropped"],
)
def test_odd_properties(tmp_path: Path, block: bytes, pairs: list[tuple[str, str]]) -> None:
    log = LogBytes(tmp_path)
    log.add(block=block)
    assert same(log, "properties") == [{"properties": pairs}]


@pytest.mark.parametrize("odd", [b"\xe4\xb8", b"\xad", b"\xff"])
def test_what_is_no_text_is_replaced(tmp_path: Path, odd: bytes) -> None:
    log = LogBytes(tmp_path)
    # Joined, the ends of two neighbours would make a character.
    log.add(block=b"TAGS\x01" + odd + b"\x02KEYS\x01k \xe4\xb8\x02" + odd + b"\x01v\x02")
    log.add(block=b"TAGS\x01\xad\x02KEYS\x01\xad k\x02")
    assert same(log, "tag", "keys", "properties")[0]["keys"] == ["k", "�"]


def test_a_message_group(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(block=b"__SHARDINGKEY\x01g1\x02")
    log.add(block=b"__SHARDINGKEX\x01g2\x02")
    log.add(block=b"x\x01y\x02__SHARDINGKEY\x01\xe8\xae\xa2\x02")
    groups = [row["message_group"] for row in same(log, "message_group")]
    assert groups == ["g1", None, "订"]


def batched(files: list[LogFile], names: list[str], *, decompress: bool = True) -> list[Any]:
    """All messages of a log as batches, each as long as what it comes with."""
    search, batches = LogSearch(files, Selection()), []
    for picked in search:
        buffer, heads, queue, _ = picked
        columns = columns_of(names)
        for part, batch in record_batches(
            buffer, heads, queue, search.queues, columns, decompress=decompress
        ):
            batch.validate(full=True)
            assert len(batch) == len(picked.take(part).heads)
            batches.append(batch)
    return batches


def rows_of(batches: list[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("decompress", [True, False])
@pytest.mark.parametrize("name", ["basic", "semantics"])
def test_golden_messages_as_batches(golden: GoldenStores, name: str, decompress: bool) -> None:
    files = golden_files(golden, name)
    found = rows_of(batched(files, [], decompress=decompress))
    assert found == one_by_one(files, MESSAGE_COLUMNS, decompress=decompress)


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
