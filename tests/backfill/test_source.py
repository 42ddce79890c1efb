"""Data sources as Spark uses them: schema, partitions, rows; all but Spark itself."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from broker.backfill.log_walk import survey
from broker.backfill.source import (
    ENTRIES,
    FAIL,
    MESSAGES,
    SKIP,
    UNITS,
    StoreSource,
    spark_schema,
    stretch_from,
)
from broker.model.errors import Corruption
from broker.rebuild.plan import Range
from tests.backfill.jobs import FILE_SIZE, small_log
from tests.fakes.log_bytes import LogBytes


def rows_of(source: Any) -> list[dict[str, Any]]:
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def messages(log: LogBytes, on_damage: str) -> StoreSource:
    stretches = survey([Range(file, file.base, file.end) for file in log.found()])
    return StoreSource(
        {
            "kind": MESSAGES,
            "partitions": json.dumps([[asdict(stretch)] for stretch in stretches]),
            "columns": json.dumps(["physical_offset"]),
            "check_crc": "true",
            "on_damage": on_damage,
        }
    )


def test_schemas_are_stated() -> None:
    assert spark_schema(MESSAGES, ["topic", "queue_id", "keys"]).simpleString() == (
        "struct<topic:string,queue_id:int,keys:array<string>>"
    )
    assert spark_schema(UNITS).simpleString() == (
        "struct<topic:string,queue_id:int,queue_offset:bigint,physical_offset:bigint,size:int,"
        "tags_code:bigint>"
    )
    assert spark_schema(ENTRIES, on_damage=SKIP).simpleString() == (
        "struct<file:string,number:int,slot:int,key_hash:int,physical_offset:bigint,"
        "store_time_ms:bigint,previous:int,damage:string>"
    )
    assert spark_schema(MESSAGES).names[:4] == [
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
    ]


def test_messages_come_range_by_range(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    assert [row["physical_offset"] for row in rows_of(messages(log, FAIL))] == log.places


def test_damage_is_an_error_or_a_row(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    path = Path(log.found()[1].path)
    content = bytearray(path.read_bytes())
    place = next(place for place in log.places if place >= FILE_SIZE)
    content[place - FILE_SIZE + 89] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption, match="the CRC of its body is wrong"):
        rows_of(messages(log, FAIL))
    rows = rows_of(messages(log, SKIP))
    assert [row["physical_offset"] for row in rows if row["damage"] is None] == [
        other for other in log.places if other != place
    ]
    (told,) = (row for row in rows if row["damage"] is not None)
    assert told["physical_offset"] is None
    assert f"physical offset {place}" in told["damage"]


@pytest.mark.parametrize("kind", [UNITS, ENTRIES])
def test_views_may_be_empty(kind: str) -> None:
    options = {"kind": kind, "partitions": "[]", "on_damage": FAIL, "geometry": "[3, 4]"}
    assert rows_of(StoreSource(options)) == []


def test_a_stretch_survives_being_taken_apart(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    for stretch in survey([Range(file, file.base, file.end) for file in log.found()]):
        assert stretch_from(json.loads(json.dumps(asdict(stretch)))) == stretch
