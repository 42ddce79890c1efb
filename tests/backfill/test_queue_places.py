"""Messages of topics that are read through the consume queues, against a walk over the log."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill import queue_places
from pocketmq.backfill.log_walk import Stretch
from pocketmq.backfill.queue_places import QueueRecords
from pocketmq.backfill.request import request_from
from pocketmq.backfill.source import StoreReader, StoreSource
from pocketmq.format.names import ABORT_FILE, CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.model.errors import Corruption
from pocketmq.rebuild.log_files import CLOCK_STEP_MS
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import SMALL, TIME_MS, LogBytes, applied, dispatched

FILE_SIZE = 4096
BY_LOG: Any = {"find_by": "log"}
Rows = list[dict[str, Any]]


def parts_of(
    store: Path, *, is_open: bool = False, **options: str
) -> tuple[StoreReader, list[Any]]:
    source = StoreSource({"path": str(store), **options})
    request = replace(request_from(source.options), is_open=is_open)
    reader = StoreReader(request, source.schema())
    return reader, [task for part in reader.partitions() for task in part.value]


def rows_of(store: Path, *, is_open: bool = False, **options: Any) -> Rows:
    reader, tasks = parts_of(store, is_open=is_open, **options)
    batches = reader.rows_of(tasks, reader._request.wanted)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row.get("physical_offset", 0) or 0)


def two_ways(store: Path, **options: Any) -> tuple[Rows, Rows]:
    return rows_of(store, **options), rows_of(store, **options, **BY_LOG)


def written(store: Path, count: int = 60, *, without: Sequence[int] = ()) -> LogBytes:
    """A log of two topics with two queues each, an hour a record, and its views.

    without   numbers of records that no view has
    """
    log = LogBytes(store, FILE_SIZE)
    for number in range(count):
        topic = f"T{number % 2}" if number % 20 else "rare"
        body = bytes(500 if topic == "T0" else 20)
        log.add(
            topic, number // 2 % 2, queue_offset=number // 4, body=body, keys=f"k{number}",
            time_ms=TIME_MS + number * CLOCK_STEP_MS,
        )  # fmt: skip
    log.close()
    applied((entry for n, entry in enumerate(log.entries) if n not in without), SMALL, store)
    return log


GOLDEN = ["semantics", "propcrc", "crash-kill.before", "rebuild-all.after", "lmq"]


@pytest.mark.parametrize("walked_bytes", [0, 8192])
@pytest.mark.parametrize("name", GOLDEN)
def test_queues_and_log_have_the_same_messages(
    golden: GoldenStores, name: str, walked_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_places, "_WALKED", walked_bytes)
    store = golden.store(name)
    every = rows_of(store)
    topics = sorted({row["topic"] for row in every})
    assert len(topics) > 1
    middle = every[len(every) // 2]
    times = {
        "since": str(middle["store_timestamp_ms"] - 1),
        "until": str(middle["store_timestamp_ms"] + 2000),
    }
    offsets = {"begin": str(every[9]["physical_offset"]), "upto": str(middle["physical_offset"])}
    for topic in topics:
        wanted = [row for row in every if row["topic"] == topic]
        assert rows_of(store, topic=topic) == wanted
        last = wanted[-1]
        queue = {"queue_id": str(last["queue_id"]), "queue_begin": str(last["queue_offset"])}
        for options in (times, offsets, queue):
            found, expected = two_ways(store, topic=topic, columns="physical_offset", **options)
            assert found == expected
    assert rows_of(store, topic=",".join(topics[:2])) == [
        row for row in every if row["topic"] in topics[:2]
    ]


def test_only_the_records_of_the_topic_are_read(tmp_path: Path) -> None:
    log = written(tmp_path)
    for place in (log.places[number] for number in range(60) if number % 20):
        path = Path(log.found()[place // FILE_SIZE].path)
        content = bytearray(path.read_bytes())
        content[place % FILE_SIZE + 90] ^= 1
        path.write_bytes(content)
    found = rows_of(tmp_path, topic="rare", check_crc="true", columns="physical_offset")
    assert [row["physical_offset"] for row in found] == log.places[::20]
    with pytest.raises(Corruption):
        rows_of(tmp_path, topic="rare", check_crc="true", **BY_LOG)


def test_a_damaged_record_of_the_topic_is_reported(tmp_path: Path) -> None:
    log = written(tmp_path)
    place = log.places[20]
    path = Path(log.found()[place // FILE_SIZE].path)
    content = bytearray(path.read_bytes())
    content[place % FILE_SIZE + 4] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption, match=f"damaged at byte {place % FILE_SIZE}.*magic"):
        rows_of(tmp_path, topic="rare")
    rows = rows_of(tmp_path, topic="rare", on_damage="skip", columns="physical_offset")
    (told,) = (row for row in rows if row["damage"])
    others = [row for row in rows if not row["damage"]]
    assert "magic" in told["damage"]
    assert [row["physical_offset"] for row in others] == [log.places[0], log.places[40]]


def test_records_that_the_queues_lack_are_walked(tmp_path: Path) -> None:
    log = written(tmp_path, without=range(50, 60))
    (tmp_path / ABORT_FILE).touch()
    found, expected = two_ways(tmp_path, topic="T1", columns="physical_offset")
    assert found == expected
    assert all(isinstance(task, Stretch) for task in parts_of(tmp_path, topic="T1")[1])
    _, tasks = parts_of(tmp_path, is_open=True, topic="T1")
    assert next(task.part.begin for task in tasks if isinstance(task, Stretch)) == log.places[49]
    assert any(isinstance(task, QueueRecords) for task in tasks)
    options: Any = {"topic": "T1", "columns": "physical_offset"}
    assert rows_of(tmp_path, is_open=True, **options) == expected
    shutil.rmtree(tmp_path / INDEX_DIRECTORY)
    assert rows_of(tmp_path, is_open=True, **options) == expected


def test_a_topic_without_queues_is_read_from_the_log(tmp_path: Path) -> None:
    written(tmp_path)
    shutil.rmtree(tmp_path / CONSUME_QUEUE_DIRECTORY / "rare")
    found, expected = two_ways(tmp_path, topic="rare, T0", columns="physical_offset")
    assert found == expected
    assert rows_of(tmp_path, topic="none") == []
    assert rows_of(tmp_path, topic="T0", queue_id="7") == []


def test_a_topic_that_was_created_again_has_its_queues_messages(golden: GoldenStores) -> None:
    store = golden.store("recreate")
    found, every = two_ways(store, topic="Del", columns="physical_offset,queue_offset")
    assert (len(found), len(every)) == (63, 246)
    assert found == every[-63:]
    one: Any = {"topic": "Del", "queue_id": "1", "columns": "physical_offset,queue_offset"}
    bounded = rows_of(store, **one, queue_begin="3", queue_upto="5")
    assert bounded == [row for row in rows_of(store, **one) if 3 <= row["queue_offset"] < 5]
    assert len(bounded) == 2


def test_queue_offsets_are_those_of_the_records(tmp_path: Path) -> None:
    """A queue that lacks a record in the middle has units at other positions."""
    log = LogBytes(tmp_path, FILE_SIZE)
    for number in (0, 1, 2, 5, 6, 7):
        log.add("T", queue_offset=number)
    log.close()
    dispatched(tmp_path, SMALL, FILE_SIZE, tmp_path)
    found, expected = two_ways(tmp_path, topic="T", queue_begin="5", columns="physical_offset")
    assert found == expected
    assert len(found) == 3
