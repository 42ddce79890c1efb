"""Streams of directories, as Spark drives them: offsets, partitions, rows; all but Spark itself."""

import os
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pocketmq.backfill.row_filter import RowFilter
from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.names import ABORT_FILE, CHECKPOINT_FILE, OWN_DIRECTORY
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.model.errors import Corruption
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import records_end
from pocketmq.spark import durable_end
from pocketmq.spark import log_stream as module
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.durable_end import DurableLogs, durable_log, snapshot_end
from pocketmq.spark.log_stream import (
    LogStream,
    PlannedBatch,
    begin_at_time,
    end_of_batch,
    offset_of,
    stretches_between,
)
from pocketmq.spark.queue_offsets import MessagesLost
from pocketmq.spark.stream_request import BatchMinimum
from tests.backfill.jobs import FILE_SIZE, small_log
from tests.kit.log_bytes import TIME_MS, LogBytes

ANY = RowFilter()
BEGIN = offset_of(0)


def stream(store: Path, **options: str) -> LogStream:
    given = {"path": str(store), "columns": "topic,queue_id,queue_offset", **options}
    source = PocketSource(given)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LogStream)
    return reader


def rows_of(reader: LogStream, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    sent = pickle.loads(pickle.dumps((reader, reader.partitions(start, end))))
    batches = [batch for part in sent[1] for batch in sent[0].read(part)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def batches_of(reader: LogStream, start: dict[str, Any]) -> Iterator[list[Any]]:
    """Yields the rows of each batch until there is nothing new."""
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        yield rows_of(reader, start, end)
        start = end


def two_topics(store: Path, count: int = 30) -> LogBytes:
    log = LogBytes(store, FILE_SIZE)
    for number in range(count):
        topic, queue_id = ("orders", "other")[number % 3 == 2], number % 2
        log.add(topic, queue_id, queue_offset=number, time_ms=TIME_MS + 1_000 * number)
    return log.close()


def marked(store: Path, upto: int, confirmed_upto: int = OFFSET_MAX) -> None:
    """Writes the flushed mark of a running broker."""
    values = encode_checkpoint(CheckpointValues(physic_msg_timestamp=1))
    (store / CHECKPOINT_FILE).write_bytes(values.ljust(4096, b"\0"))
    (store / OWN_DIRECTORY).mkdir(exist_ok=True)
    mark = FlushedMark(Disk(), store / OWN_DIRECTORY)
    mark.open()
    mark.confirmed_upto = confirmed_upto
    mark.write(upto, values)
    mark.close()


def test_each_message_is_in_one_batch(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    whole = stream(tmp_path)
    (rows,) = batches_of(whole, whole.initialOffset())
    assert [at for *_, at in rows] == list(range(30))
    limited = stream(tmp_path, topic="orders", maxOffsetsPerTrigger="3")
    found = list(batches_of(limited, limited.initialOffset()))
    assert [len(rows) for rows in found] == [3, 3, 3, 3, 3, 3, 2]
    assert [at for rows in found for *_, at in rows] == [n for n in range(30) if n % 3 < 2]
    assert limited.latestOffset(offset_of(log.end), ReadMaxRows(3)) == offset_of(log.end)


def test_a_batch_waits_for_enough_messages(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    marked(tmp_path, log.places[3])
    options = {"topic": "orders", "minOffsetsPerTrigger": "4"}
    reader = stream(tmp_path, **options)
    assert list(batches_of(reader, BEGIN)) == []
    marked(tmp_path, log.places[5])  # Four of five are wanted.
    (rows,) = batches_of(reader, BEGIN)
    assert [at for *_, at in rows] == [0, 1, 3, 4]
    limited = stream(tmp_path, **options, maxOffsetsPerTrigger="4")
    marked(tmp_path, log.places[13])
    assert [len(rows) for rows in batches_of(limited, BEGIN)] == [4, 4]
    now = stream(tmp_path, **options)
    now.prepareForTriggerAvailableNow()
    marked(tmp_path, log.places[3])
    assert [len(rows) for rows in batches_of(now, BEGIN)] == [2], "AvailableNow has no minimum"


def test_a_batch_without_enough_messages_waits_for_a_time() -> None:
    minimum = BatchMinimum(10, 60_000)
    asked = [(0.0, 9), (59.9, 9), (60.0, 0), (60.1, 1), (60.2, 9), (61.0, 10), (61.1, 9)]
    due = [minimum.is_due(count, partial(float, now)) for now, count in asked]
    assert due == [False, False, False, True, False, True, False]
    assert BatchMinimum(0, 60_000).is_due(0)


def test_nothing_beyond_the_flushed_mark_is_read(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    marked(tmp_path, log.places[10])
    reader = stream(tmp_path)
    (rows,) = batches_of(reader, BEGIN)
    assert [at for *_, at in rows] == list(range(10))
    end = reader.latestOffset(BEGIN, ReadAllAvailable())
    marked(tmp_path, log.places[12])
    assert [row[-1] for rows in batches_of(reader, end) for row in rows] == [10, 11]
    assert reader.reportLatestOffset() == offset_of(log.places[12])


def test_what_waits_for_followers_is_in_no_stream_and_in_no_batch(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    assert snapshot_end(tmp_path) == OFFSET_MAX
    marked(tmp_path, log.end, confirmed_upto=log.places[20])
    whole = stream(tmp_path)
    (rows,) = batches_of(whole, whole.initialOffset())
    assert [at for *_, at in rows] == list(range(20))
    assert snapshot_end(tmp_path) == log.places[20]


def test_of_a_running_rocketmq_only_flushed_times_are_read(tmp_path: Path) -> None:
    two_topics(tmp_path)
    (tmp_path / ABORT_FILE).touch()
    values = encode_checkpoint(CheckpointValues(physic_msg_timestamp=TIME_MS + 7_000))
    (tmp_path / CHECKPOINT_FILE).write_bytes(values)
    reader = stream(tmp_path)
    reader.prepareForTriggerAvailableNow()
    for options in ({}, {"maxOffsetsPerTrigger": "4"}):
        found = [row[-1] for rows in batches_of(stream(tmp_path, **options), BEGIN) for row in rows]
        assert found == list(range(7))
    assert [row[-1] for rows in batches_of(reader, BEGIN) for row in rows] == list(range(7))
    (tmp_path / ABORT_FILE).unlink()
    assert sum(map(len, batches_of(stream(tmp_path), BEGIN))) == 30


def test_a_stream_begins_where_its_options_say(tmp_path: Path) -> None:
    log = two_topics(tmp_path)

    def begin(**options: str) -> dict[str, Any]:
        return stream(tmp_path, **options).initialOffset()

    assert begin() == begin(startingOffsets="Earliest") == offset_of(0)
    assert begin(startingOffsets="latest") == offset_of(log.end)
    assert begin(startingTimestamp=str(TIME_MS + 12_000)) == offset_of(log.places[12])
    assert begin(startingTimestamp=str(TIME_MS + 11_999)) == offset_of(log.places[12])
    assert begin(startingTimestamp=str(TIME_MS + 99_000)) == offset_of(log.end)
    floors = '{"orders": {"1": 9, "0": -2}}'
    assert begin(startingOffsets=floors) == offset_of(0, {("orders", 1): 9})
    reader = stream(tmp_path, startingOffsets=floors, topic="orders", maxOffsetsPerTrigger="1000")
    (rows,) = batches_of(reader, reader.initialOffset())
    assert rows == [("orders", n % 2, n) for n in range(30) if n % 3 < 2 and (n % 2 == 0 or n >= 9)]
    with pytest.raises(ValueError, match=r"-1 \(latest\) of one queue needs a broker"):
        begin(startingOffsets='{"orders": {"1": -1}}')


def test_new_topics_that_match_are_read(tmp_path: Path) -> None:
    log = LogBytes(tmp_path, FILE_SIZE)
    log.add("orders-eu", queue_offset=0)
    log.add("%RETRY%orders-g", queue_offset=1)
    log.close()
    reader = stream(tmp_path, topicsPattern=r".*orders-\w+")
    (rows,) = batches_of(reader, BEGIN)
    end = reader.latestOffset(BEGIN, ReadAllAvailable())
    log.add("orders-us", queue_offset=2)
    log.add("payments", queue_offset=3)
    log.store = tmp_path / "grown"
    log.close()
    grown = stream(log.store, topicsPattern=r".*orders-\w+")
    assert [*rows, *next(batches_of(grown, end))] == [("orders-eu", 0, 0), ("orders-us", 0, 2)]


def test_available_now_ends_at_what_was_durable(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    marked(tmp_path, log.places[10])
    reader = stream(tmp_path, maxOffsetsPerTrigger="4")
    reader.prepareForTriggerAvailableNow()
    marked(tmp_path, log.end)
    found = list(batches_of(reader, BEGIN))
    assert [row[-1] for rows in found for row in rows] == list(range(10))


def test_messages_that_retention_removed_end_a_stream(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    files = durable_log(tmp_path).files
    Path(files[0].path).unlink()
    reader = stream(tmp_path)
    with pytest.raises(
        MessagesLost, match=f"removed the log from physical offset 0 to {FILE_SIZE}"
    ):
        reader.latestOffset(BEGIN, ReadAllAvailable())
    with pytest.raises(MessagesLost, match="set failOnDataLoss to false"):
        reader.partitions(BEGIN, offset_of(log.end))
    tolerant = stream(tmp_path, failOnDataLoss="false")
    (rows,) = batches_of(tolerant, BEGIN)
    assert [row[-1] for row in rows] == [
        n for n, place in enumerate(log.places) if place >= FILE_SIZE
    ]
    beyond = offset_of(log.end + 1)
    with pytest.raises(MessagesLost, match="it is another store's"):
        reader.latestOffset(beyond, ReadAllAvailable())
    assert tolerant.latestOffset(beyond, ReadAllAvailable()) == offset_of(log.end)


def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    for fails in ("true", "false"):
        reader = stream(tmp_path, failOnDataLoss=fails)
        parts = reader.partitions(BEGIN, offset_of(log.end))
        Path(durable_log(tmp_path).files[0].path).unlink()
        if fails == "true":
            with pytest.raises(MessagesLost):
                list(reader.read(parts[0]))
            log.store.joinpath("commitlog").rename(tmp_path / "old")
            log.close()
        else:
            assert list(reader.read(parts[0])) == []


def test_damage_below_the_durable_end_is_never_skipped(tmp_path: Path) -> None:
    log = LogBytes(tmp_path, 1 << 14)
    for number in range(20):
        log.add(queue_offset=number)
    log.damage(log.places[17], b"\0" * 40)
    log.close()
    marked(tmp_path, log.places[18])
    with pytest.raises(Corruption):
        rows_of(stream(tmp_path), BEGIN, offset_of(log.places[18]))
    options = {"columns": "queue_offset", "on_damage": "skip"}
    rows = rows_of(stream(tmp_path, **options), BEGIN, offset_of(log.places[18]))
    assert [at for at, damage in rows if damage is None] == list(range(17))
    assert sum(damage is not None for _, damage in rows) == 1


def test_large_batches_are_cut_at_records(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    found = durable_log(tmp_path)
    batch = PlannedBatch(log.places[2], log.end)
    parts = stretches_between(found.files, batch, workers=2, piece_size=300)
    assert len(parts) > len(found.files)
    begins = [one.part.begin for one in parts]
    assert {at for at in begins if at % FILE_SIZE} <= set(log.places)
    assert begins[0] == log.places[2]
    assert [one.part.end for one in parts] == [*begins[1:], log.end]


def test_the_walk_that_limits_a_batch_also_cuts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POINT_SIZE", 200)
    monkeypatch.setattr(module, "cut_points", lambda task: pytest.fail("a second walk"))
    log = small_log(tmp_path)
    reader = stream(tmp_path, piece_size="400", maxOffsetsPerTrigger="1000")
    begin = offset_of(log.places[2])
    end = reader.latestOffset(begin, ReadMaxRows(1_000))
    ranges = [part.value[0].part for part in reader.partitions(begin, end)]
    assert len(ranges) > len(durable_log(tmp_path).files)
    assert {one.begin for one in ranges if one.begin % FILE_SIZE} <= set(log.places)
    assert [one.end for one in ranges] == [*(one.begin for one in ranges[1:]), log.end]
    monkeypatch.undo()
    again = stream(tmp_path, piece_size="400")
    assert rows_of(reader, begin, end) == rows_of(again, begin, end), "as after a restart"


def test_damage_is_in_one_range_of_a_limited_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POINT_SIZE", 200)
    log = LogBytes(tmp_path, 1 << 14)
    for number in range(30):
        log.add(queue_offset=number)
    log.damage(log.places[17], b"\0" * 40)
    log.close()
    marked(tmp_path, log.end)
    options = {"columns": "queue_offset", "on_damage": "skip", "piece_size": "400"}
    reader = stream(tmp_path, **options)
    rows = rows_of(reader, BEGIN, reader.latestOffset(BEGIN, ReadMaxRows(1_000)))
    assert rows == rows_of(stream(tmp_path, **options), BEGIN, offset_of(log.end))
    assert sum(damage is not None for _, damage in rows) == 1


def test_the_end_of_a_stopped_log_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, logs, searches = two_topics(tmp_path), DurableLogs(tmp_path), list[int]()

    def counted(files: list[Any]) -> int:
        searches.append(len(files))
        return records_end(files)

    monkeypatch.setattr(durable_end, "records_end", counted)
    last = Path(durable_log(tmp_path).files[-1].path)
    searches.clear()
    assert [logs.now().upto for _ in range(2)] == [log.end] * 2
    assert len(searches) == 2, "the file was written just now, and may get another record unseen"
    for second, count in ((1, 3), (2, 4)):
        os.utime(last, (second, second))
        assert [logs.now().upto for _ in range(3)] == [log.end] * 3
        assert len(searches) == count
    content = last.read_bytes()
    last.write_bytes(content[: log.places[-1] % FILE_SIZE].ljust(len(content), b"\0"))
    assert logs.now().upto == log.places[-1]


def test_limits_and_times_are_found_in_any_file(tmp_path: Path) -> None:
    log = two_topics(tmp_path)
    found = durable_log(tmp_path)
    for number, place in enumerate(log.places):
        assert begin_at_time(found, TIME_MS + 1_000 * number) == place
        end = end_of_batch(found, log.places[3], ANY, number + 1)
        count = sum(log.places[3] <= other < end for other in log.places)
        assert count == min(number + 1, 27)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffset": "latest"}, "no option 'startingOffset'"),
        ({"begin": "0"}, "a stream has no option 'begin'"),
        ({"table": "index"}, "a stream reads the table messages"),
        ({"endpoint": "127.0.0.1:1"}, "either a directory"),
        ({"tags": "a"}, r"tags needs a broker \(endpoint\)"),
        ({"startingOffsets": "first"}, "not earliest, latest or JSON"),
        ({"startingOffsets": '{"T": 3}'}, "topics and queues are JSON objects"),
        ({"startingOffsets": '{"T": {"0": "x"}}'}, "'x' is no queue offset"),
        ({"startingOffsets": '{"T": {"0": -3}}'}, "an offset below -2"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is no time"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is 0, which is not above 0"),
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger is 0, which is not above 0"),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"}, "is 3, above max.* 2"),
        ({"minOffsetsPerTrigger": "3", "maxTriggerDelay": "5"}, "maxTriggerDelay is no duration"),
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay needs minOffsetsPerTrigger"),
        ({"failOnDataLoss": "no"}, "not one of true, false"),
        ({"topic": "T", "topicsPattern": "T"}, "exclude each other"),
        ({"topicsPattern": "("}, r"topicsPattern is '\('"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: dict[str, str], told: str) -> None:
    small_log(tmp_path)
    source = PocketSource({"path": str(tmp_path), **options})
    with pytest.raises(ValueError, match=told):
        source.streamReader(source.schema())


def test_options_of_streams_are_refused_by_batches(tmp_path: Path) -> None:
    small_log(tmp_path)
    source = PocketSource({"path": str(tmp_path), "STARTINGOFFSETS": "latest"})
    with pytest.raises(ValueError, match="startingOffsets is an option of streams"):
        source.reader(source.schema())
