"""Batches of stores as Spark reads them: snapshots, keys, names of Kafka, several stores."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill import key_places
from pocketmq.backfill.key_places import RecordPlaces, find_key_places
from pocketmq.backfill.log_walk import Stretch
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.names import ABORT_FILE, CHECKPOINT_FILE, INDEX_DIRECTORY
from pocketmq.model.errors import NotAStore
from pocketmq.spark import durable_end
from pocketmq.spark.data_source import PocketSource
from tests.backfill.jobs import small_log
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import TIME_MS, LogBytes
from tests.kit.tool_sizes import golden_tool_sizes


def loaded(**options: str) -> tuple[PocketSource, Any]:
    """Loads a source as Spark does: it keeps what it found when its schema was read."""
    source = PocketSource(options)
    schema = source.schema()
    return pickle.loads(pickle.dumps(source)), schema


def rows_of(source: PocketSource, schema: Any) -> list[dict[str, Any]]:
    reader: Any = source.reader(schema)
    sent, parts = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [row for part in parts for batch in sent.read(part) for row in batch.to_pylist()]


def read(**options: str) -> list[dict[str, Any]]:
    return rows_of(*loaded(**options))


def geometry(golden: GoldenStores, name: str) -> dict[str, str]:
    sizes = golden_tool_sizes(golden, name)
    found = {"maxHashSlotNum": sizes.index_slot_count, "maxIndexNum": sizes.index_entry_count_max}
    return {key: str(number) for key, number in found.items()}


def test_two_actions_on_a_growing_store_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_log(tmp_path, 10)
    (tmp_path / ABORT_FILE).touch()
    checkpoint = tmp_path / CHECKPOINT_FILE
    checkpoint.write_bytes(encode_checkpoint(CheckpointValues(physic_msg_timestamp=TIME_MS + 1)))
    monkeypatch.setattr(durable_end, "held_by", lambda path: f"a process has {path}")
    frame = loaded(path=str(tmp_path), columns="queue_offset")
    assert len(rows_of(*frame)) == 10
    for number in range(10, 13):
        log.add(queue_offset=number)
    shutil.rmtree(tmp_path / "commitlog")
    log.close()
    assert len(rows_of(*frame)) == 10
    assert len(read(path=str(tmp_path), columns="queue_offset")) == 13
    checkpoint.write_bytes(encode_checkpoint(CheckpointValues(physic_msg_timestamp=TIME_MS)))
    assert read(path=str(tmp_path)) == []
    monkeypatch.setattr(durable_end, "held_by", lambda path: "")
    assert len(read(path=str(tmp_path), columns="queue_offset")) == 13


def test_columns_may_have_kafkas_names(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add("orders", 3, queue_offset=5, body=b"one", keys="k1 k2", block=b"a\x01b\x02")
    log.add("orders", 4, queue_offset=6, body=b"two")
    log.close()
    _, schema = loaded(path=str(tmp_path), schema="kafka")
    assert schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = read(path=str(tmp_path), schema="Kafka")
    assert first.pop("timestamp").timestamp() * 1000 == TIME_MS
    headers = [{"key": "a", "value": b"b"}, {"key": "KEYS", "value": b"k1 k2"}]
    assert first == {
        "key": b"k1", "value": b"one", "topic": "orders", "partition": 3, "offset": 5,
        "headers": headers,
    }  # fmt: skip
    assert (second["key"], second["headers"]) == (None, [])
    assert read(path=str(tmp_path), schema="kafka", columns="offset", queue_id="4") == [
        {"offset": 6}
    ]
    with pytest.raises(ValueError, match="no column 'body'; there are key, value"):
        loaded(path=str(tmp_path), schema="kafka", columns="body")
    with pytest.raises(ValueError, match="schema kafka applies to messages"):
        loaded(path=str(tmp_path), schema="kafka", table="index")


@pytest.mark.parametrize("name", ["basic", "semantics"])
def test_messages_are_found_by_key_through_the_index(golden: GoldenStores, name: str) -> None:
    path, sizes = str(golden.store(name)), geometry(golden, name)
    everything = read(path=path, columns="topic,keys,message_id,physical_offset")
    keyed = [row for row in everything if row["keys"]]
    for row in (keyed[0], keyed[len(keyed) // 2], keyed[-1]):
        for key in (row["keys"][-1], row["message_id"]):
            wanted = [
                other
                for other in everything
                if other["topic"] == row["topic"] and key in (*other["keys"], other["message_id"])
            ]
            options = {"topic": row["topic"], "keys": key}
            columns = "topic,keys,message_id,physical_offset"
            found = read(path=path, columns=columns, **options, **sizes)
            assert sorted(one["physical_offset"] for one in found) == [
                one["physical_offset"] for one in wanted
            ]


def test_only_what_the_index_lacks_is_walked(golden: GoldenStores) -> None:
    path, sizes = str(golden.store("basic")), geometry(golden, "basic")
    row = next(row for row in read(path=path, columns="topic,keys") if row["keys"])
    source, schema = loaded(path=path, topic=row["topic"], keys=row["keys"][0], **sizes)
    (lot,) = [part.value for part in source.reader(schema).partitions()]
    places, *walked = lot
    assert isinstance(places, RecordPlaces)
    assert len(places.places) < 5
    assert all(isinstance(one, Stretch) for one in walked)
    size = sum(file.size for file in places.files)
    assert sum(one.part.end - one.part.begin for one in walked) < size / 20


def test_without_an_index_the_log_is_walked(tmp_path: Path) -> None:
    small_log(tmp_path, 20)
    found = read(path=str(tmp_path), topic="T", keys="k7, k9,none", columns="keys")
    assert found == [{"keys": ["k7"]}, {"keys": ["k9"]}]
    assert read(path=str(tmp_path), keys="k7", columns="keys") == [{"keys": ["k7"]}]
    (tmp_path / INDEX_DIRECTORY).mkdir()
    (tmp_path / INDEX_DIRECTORY / "20261121023000000").write_bytes(b"\0" * 100)
    assert find_key_places(tmp_path, ["T"], ["k7"], None) is None
    assert len(read(path=str(tmp_path), topic="T", keys="k7")) == 1


def test_a_stale_entry_finds_nothing(tmp_path: Path) -> None:
    log = small_log(tmp_path, 5)
    stale = RecordPlaces(log.found(), [log.places[1], log.places[2] + 3, log.end + 50, 10**9])
    _, heads = stale.read()
    assert heads.physical_offset.tolist() == [log.places[1]]
    assert key_places.find_key_places(tmp_path, ["T"], ["k"], None) is None


def test_several_stores_are_one_table(tmp_path: Path) -> None:
    for number, name in enumerate(("a1", "a2", "b")):
        small_log(tmp_path / name, number + 1)
    count = {"columns": "queue_offset"}
    assert len(read(path=f"{tmp_path}/a*", **count)) == 3
    paths = f'["{tmp_path}/a*", "{tmp_path}/b", "{tmp_path}/a1"]'
    assert len(read(paths=paths, **count)) == 6
    with pytest.raises(NotAStore, match="no directory matches"):
        loaded(path=f"{tmp_path}/c*")
    with pytest.raises(ValueError, match="no JSON list of paths"):
        loaded(paths='{"a": 1}')


def test_options_of_sparks_catalog_are_accepted(tmp_path: Path) -> None:
    small_log(tmp_path, 4)
    path = f"file:{tmp_path}"
    options = {
        "path": path, "location": path, "owner": "root", "provider": "pocketmq",
        "columns": "topic", "option.columns": "topic",
    }  # fmt: skip
    assert read(**options) == [{"topic": "T"}] * 4
    del options["path"]
    assert read(**options) == [{"topic": "T"}] * 4
