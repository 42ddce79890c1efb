"""Data sources as Spark uses them: schema, partitions, rows; all but Spark itself."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pocketmq.backfill.arrow_views import find_index_files, find_queue_files
from pocketmq.backfill.source import StoreReader, StoreSource
from pocketmq.model.errors import Corruption, NotAStore, StoreGap
from pocketmq.rebuild.log_files import CLOCK_STEP_MS
from tests.backfill.jobs import FILE_SIZE, small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import TIME_MS, LogBytes
from tests.kit.tool_sizes import golden_tool_sizes


def rows_of(store: Path, **options: str) -> list[dict[str, Any]]:
    """Returns the rows Spark would get, with the reader pickled as for a worker."""
    source = StoreSource({"path": str(store), **options})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    sent = pickle.loads(pickle.dumps((reader, parts)))
    batches = [batch for part in sent[1] for batch in sent[0].read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def places_of(store: Path, **options: str) -> list[int]:
    rows = rows_of(store, columns="physical_offset", **options)
    return [row["physical_offset"] for row in rows]


def schema_of(**options: str) -> str:
    return StoreSource(options).schema().simpleString()


def hourly(store: Path) -> LogBytes:
    """Three records a file, three hours a file, of two topics and three queues."""
    log = LogBytes(store, 1024)
    for number in range(24):
        hour = number // 3 * 3
        log.add(
            f"T{number % 2}", number % 3, queue_offset=number,
            time_ms=TIME_MS + hour * CLOCK_STEP_MS + number,
        )  # fmt: skip
        if number % 3 == 2:
            log.roll()
    return log.close()


def test_schemas_are_stated(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    path = str(log.store)
    assert schema_of(path=path, columns="topic, queue_id,keys,deliver_at") == (
        "struct<topic:string,queue_id:int,keys:array<string>,deliver_at:timestamp>"
    )
    assert schema_of(path=path, TABLE="units") == (
        "struct<topic:string,queue_id:int,queue_offset:bigint,physical_offset:bigint,size:int,"
        "tags_code:bigint>"
    )
    assert schema_of(path=path, table="index", on_damage="skip") == (
        "struct<file:string,number:int,slot:int,key_hash:int,physical_offset:bigint,"
        "store_time_ms:bigint,previous:int,store_time:timestamp,damage:string>"
    )
    whole = StoreSource({"path": path}).schema()
    assert whole.names[:4] == ["topic", "queue_id", "queue_offset", "physical_offset"]
    assert whole.names[-3:] == ["born_timestamp", "store_timestamp", "deliver_at"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tabel": "units"}, "no option 'tabel'; there are path, table"),
        ({"table": "queues"}, "table is 'queues', not one of messages, units, index"),
        ({"columns": "bodi"}, "messages have no column 'bodi'"),
        ({"on_damage": "ignore"}, "not one of fail, skip"),
        ({"queue_id": "one"}, "queue_id is 'one', which is no whole number"),
        ({"since": "yesterday"}, "since is no time"),
        ({"until": "2026-11-21T02:30:00"}, "has no zone"),
        ({"table": "units", "since": "1"}, "units cannot be selected by since"),
        ({"table": "index", "topic": "T"}, "index cannot be selected by topic"),
        ({"table": "index", "queue_upto": "1"}, "index cannot be selected by queue_upto"),
        ({"queue_begin": "x"}, "queue_begin is 'x', which is no whole number"),
        ({"maxIndexNum": "4"}, "both or not at all"),
        ({"path": ""}, "no store is named.* in SQL CREATE TEMPORARY VIEW .* USING pocketmq"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: dict[str, str], told: str) -> None:
    store = small_log(tmp_path).store
    with pytest.raises(ValueError, match=told):
        StoreSource({"path": str(store)} | options).schema()


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "no such directory"), (tmp_path, "it has no commitlog/")):
        with pytest.raises(NotAStore, match=why):
            StoreSource({"path": str(path)}).schema()
    with pytest.raises(NotAStore, match="it has no index/ and no commitlog/"):
        StoreSource({"path": str(tmp_path), "table": "index"}).schema()
    small_log(tmp_path)
    assert rows_of(tmp_path, table="units") == rows_of(tmp_path, table="index") == []
    Path(tmp_path / "commitlog" / f"{FILE_SIZE:020}").unlink()
    with pytest.raises(StoreGap):
        rows_of(tmp_path)


def test_messages_come_range_by_range(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    assert places_of(tmp_path) == log.places
    assert places_of(tmp_path, workers="1", piece_size="300") == log.places
    source = StoreSource({"path": str(tmp_path), "piece_size": "300"})
    assert len(source.reader(source.schema()).partitions()) > len(log.files)


def test_columns_are_those_of_the_schema_that_spark_gives(tmp_path: Path) -> None:
    log = small_log(tmp_path, 3)
    source = StoreSource({"path": str(tmp_path), "on_damage": "skip"})
    schema = StructType().add("store_timestamp", "timestamp").add("topic", "string")
    reader = source.reader(schema.add("damage", "string"))
    batch: Any
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=TIME_MS)
    assert batch.to_pylist() == [
        {"store_timestamp": moment, "topic": "T", "damage": None} for _ in log.places
    ]
    for name, kind in (("topik", "string"), ("topic", "integer")):
        with pytest.raises(ValueError, match=f"no column {name} {kind[:3]}"):
            source.reader(StructType().add(name, kind))


def test_a_time_that_no_timestamp_can_be_is_null(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    times = [TIME_MS, 1 << 62, -(1 << 62), 253_402_300_799_999, 253_402_300_800_000]
    for time_ms in times:
        log.add(time_ms=time_ms)
    log.close()
    rows = rows_of(tmp_path, columns="store_timestamp_ms,store_timestamp")
    assert [row["store_timestamp_ms"] for row in rows] == times
    assert [row["store_timestamp"] is None for row in rows] == [False, True, True, False, True]


def test_damage_is_an_error_or_a_row(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    path = Path(log.found()[1].path)
    content = bytearray(path.read_bytes())
    place = next(place for place in log.places if place >= FILE_SIZE)
    content[place - FILE_SIZE + 89] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption, match="the CRC of its body is wrong"):
        rows_of(tmp_path, check_crc="true")
    rows = rows_of(tmp_path, check_crc="true", on_damage="skip", columns="physical_offset")
    assert [row["physical_offset"] for row in rows if row["damage"] is None] == [
        other for other in log.places if other != place
    ]
    (told,) = (row for row in rows if row["damage"] is not None)
    assert told["physical_offset"] is None
    assert f"physical offset {place}" in told["damage"]


def moment(hours: int) -> datetime:
    return datetime.fromtimestamp(TIME_MS / 1000, UTC) + timedelta(hours=hours)


HOURS_9_TO_11 = [9, 10, 11]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"topic": "T1"}, range(1, 24, 2)),
        ({"topic": "T1, X", "queue_id": "2"}, range(5, 24, 6)),
        ({"queue_id": "1"}, range(1, 24, 3)),
        ({"topic": "X"}, []),
        ({"since": moment(9).isoformat(), "until": str(TIME_MS + 12 * CLOCK_STEP_MS)},
         HOURS_9_TO_11),
        ({"since": str(TIME_MS + 9 * CLOCK_STEP_MS + 10), "until": moment(12).isoformat()},
         [10, 11]),
    ],
)  # fmt: skip
def test_options_leave_rows_out(tmp_path: Path, options: dict[str, str], numbers: Any) -> None:
    log = hourly(tmp_path)
    assert places_of(tmp_path, **options) == [log.places[n] for n in numbers]


def test_filters_stay_with_spark() -> None:
    """Spark plans a DataFrame's next query with the filters of the one before."""
    assert StoreReader.pushFilters is DataSourceReader.pushFilters


def test_files_of_other_places_and_times_are_not_read(tmp_path: Path) -> None:
    log = hourly(tmp_path)
    for file in log.found()[:3] + log.found()[5:8]:
        content = bytearray(Path(file.path).read_bytes())
        content[91:95] = b"????"  # The first body's, so that the file begins with no sound record.
        content[150:160] = bytes(10)
        Path(file.path).write_bytes(content)
    begin, end = log.places[9], log.places[12]
    assert places_of(tmp_path, begin=str(begin), upto=str(end)) == log.places[9:12]
    with pytest.raises(Corruption):
        places_of(tmp_path, begin=str(begin))


def test_units_are_chosen_by_topic_queue_and_offset(golden: GoldenStores) -> None:
    store = golden.store("basic")
    every = rows_of(store, table="units")
    assert len({(row["topic"], row["queue_id"]) for row in every}) > 3
    wanted = [row for row in every if (row["topic"], row["queue_id"]) == ("orders", 1)]
    assert wanted
    assert rows_of(store, table="units", topic="orders", queue_id="1") == wanted
    upto = str(wanted[-1]["physical_offset"])
    chosen = {"table": "units", "topic": "orders", "queue_id": "1"}
    assert rows_of(store, **chosen, upto=upto) == wanted[:-1]
    assert rows_of(store, **chosen, queue_begin="2", queue_upto="5") == wanted[2:5]
    source = StoreSource({"path": str(store), "table": "units", "workers": "2"})
    parts = source.reader(source.schema()).partitions()
    assert len(parts) == 8
    assert [file for part in parts for file in part.value] == find_queue_files(store)


def test_files_of_other_queue_offsets_are_not_read(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("basic", tmp_path / "s")
    file = max(find_queue_files(store), key=lambda found: found.base)
    assert file.base > 0
    units_of = {"table": "units", "topic": file.topic, "queue_id": str(file.queue_id)}
    behind = rows_of(store, **units_of, queue_begin=str(file.numbers[0]))
    assert behind
    Path(file.path).write_bytes(b"?")
    rows = rows_of(store, **units_of, queue_upto=str(file.numbers[0]))
    assert [row["queue_offset"] for row in rows] == list(range(file.numbers[0]))
    with pytest.raises(Corruption):
        rows_of(store, **units_of, queue_upto=str(file.numbers[0] + 1))
    with pytest.raises(Corruption):
        rows_of(store, **units_of, queue_begin=str(file.numbers[0] + 3))


def test_messages_are_chosen_by_queue_offset(golden: GoldenStores) -> None:
    store = golden.store("basic")
    every = rows_of(store, topic="orders", columns="queue_id,queue_offset,body")
    chosen = rows_of(
        store, topic="orders", columns="queue_id,queue_offset,body", queue_begin="3", queue_upto="9"
    )
    assert chosen == [row for row in every if 3 <= row["queue_offset"] < 9]
    assert len({row["queue_id"] for row in chosen}) > 1


def test_entries_are_chosen_by_place_and_time(golden: GoldenStores) -> None:
    store = golden.store("v533")
    slots, entries = golden_tool_sizes(golden, "v533").geometry
    options = {"table": "index", "maxHashSlotNum": str(slots), "maxIndexNum": str(entries)}
    every = rows_of(store, **options)
    assert {row["file"] for row in every} == {Path(path).name for path in find_index_files(store)}
    for row in every:
        assert row["store_time"] == datetime.fromtimestamp(row["store_time_ms"] / 1000, UTC)
    place, time_ms = every[-1]["physical_offset"], every[len(every) // 2]["store_time_ms"]
    later = [row for row in every if row["store_time_ms"] >= time_ms]
    assert rows_of(store, **options, since=str(time_ms)) == later
    last = [row for row in every if row["physical_offset"] == place]
    assert rows_of(store, **options, begin=str(place), upto=str(place + 1)) == last
    with pytest.raises(Corruption, match="set maxHashSlotNum and maxIndexNum"):
        rows_of(store, table="index")


def test_a_reader_that_is_asked_for_no_column_counts_rows(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    reader = StoreSource({"path": str(tmp_path)}).reader(StructType())
    assert isinstance(reader, StoreReader)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert len(batches) > 1
    assert log.places
