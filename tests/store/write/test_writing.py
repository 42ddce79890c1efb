"""The writer: one block assigns offsets, encodes and appends; a real broker's log comes out."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.java_hash import tags_code
from pocketmq.format.properties import decode_properties, encode_properties
from pocketmq.format.record import (
    BLANK_SIZE,
    PROPERTY_CRC_SIZE,
    check_record,
    decode_record,
    split_record,
)
from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.batch import Destination, PutStatus, Written
from pocketmq.model.due_time import LEAD_MAX_MS
from pocketmq.model.errors import StoreBusy
from pocketmq.model.message import (
    DELAY,
    KEYS,
    TAGS,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    UNIQUE_KEY,
    StoredMessage,
)
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import SCHEDULE_TOPIC
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, index_contents, open_log
from tests.kit.records import columns_of
from tests.kit.rows import Row, batch
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import (
    BORN_HOST,
    BORN_MS,
    STORE_HOST,
    TalkingStore,
    rebuilt_views,
    store_at,
    view_files,
)
from tests.kit.store_writing import FILE_SIZE, WritingLog
from tests.sim.clock import START_MS, FakeClock


@pytest.fixture
def told() -> list[Sequence[Written]]:
    """Records that the dispatcher was given."""
    return []


@pytest.fixture
def log(tmp_path: Path, told: list[Sequence[Written]]) -> Iterator[WritingLog]:
    made = WritingLog(tmp_path, told.append)
    yield made
    made.close()


def messages(log: CommitLog) -> list[StoredMessage]:
    return [decode_record(file.view, position) for _, file, position, _ in log.scan(0)]


# -- the block -------------------------------------------------------------------------------------


def test_a_put_says_where_its_records_lie(log: WritingLog) -> None:
    first = log.put("T", "a")
    second = log.put("T", "b", "c")
    places = [message.physical_offset for message in messages(log.log)]
    assert first.physical_offsets + second.physical_offsets == places
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    assert (first.end, second.end) == (places[1], log.log.appended)
    assert second.status is PutStatus.OK
    assert second.store_timestamp_ms == START_MS


def test_queue_offsets_are_dense_in_each_queue(log: WritingLog) -> None:
    for queue_id in (0, 1, 0, 0, 1):
        log.put("T", "a", "b", queue_id=queue_id)
    log.put("U", "a")
    found = [(m.topic, m.queue_id, m.queue_offset) for m in messages(log.log)]
    assert [number for topic, queue, number in found if (topic, queue) == ("T", 0)] == [*range(6)]
    assert [number for topic, queue, number in found if (topic, queue) == ("T", 1)] == [*range(4)]
    assert found[-1] == ("U", 0, 0)


@pytest.mark.parametrize("flag", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_prepared_and_rollback_records_take_no_queue_offset(log: WritingLog, flag: int) -> None:
    log.put("T", "a")
    half = log.put("T", "half", "half", system_flag=flag)
    log.put("T", "b", system_flag=TRANSACTION_COMMIT)
    assert half.queue_offset == 0
    assert [message.queue_offset for message in messages(log.log)] == [0, 0, 0, 1]


def test_store_times_never_go_back(log: WritingLog) -> None:
    for step in (0, 10, -500, 3):
        log.clock.wall += step
        log.put("T", "a")
    times = [message.store_timestamp_ms for message in messages(log.log)]
    assert times == [START_MS, START_MS + 10, START_MS + 10, START_MS + 10]
    assert log.marks.appended.time_ms == START_MS + 10


def test_store_times_follow_a_clock_that_was_far_ahead_and_was_set_right(log: WritingLog) -> None:
    for step in (0, -LEAD_MAX_MS, -1, 5, -2 * LEAD_MAX_MS):
        log.clock.wall += step
        log.put("T", "a")
    times = [message.store_timestamp_ms for message in messages(log.log)]
    back_ms = START_MS - LEAD_MAX_MS
    assert times == [START_MS, START_MS, back_ms - 1, back_ms + 4, back_ms + 4 - 2 * LEAD_MAX_MS]
    assert log.marks.appended.time_ms == times[-1]


async def test_a_store_of_a_clock_that_was_ahead_goes_on_with_the_time(tmp_path: Path) -> None:
    """Views built from the log are those of the running store, and every message is found."""
    clock = FakeClock(START_MS + 24 * 365 * 86_400_000)
    async with store_at(tmp_path / "s", clock=clock) as store:
        for wall_ms, body in ((clock.wall, "ahead"), (START_MS, "now"), (START_MS + 5, "later")):
            clock.wall = wall_ms
            await store.send("orders", body, key="k")
        await store.settled()
        image = store.killed(tmp_path / "image")
    for directory in (tmp_path / "s", image):
        async with store_at(directory, clock=clock) as store:
            assert await store.pulled("orders") == ["ahead", "now", "later"]
            assert await store.found("orders", "k") == ["later", "now", "ahead"]
            assert store.store.marks.appended.time_ms == START_MS + 5
    anew = await rebuilt_views(tmp_path / "s", tmp_path / "anew", clock=clock)
    there = view_files(tmp_path / "s")
    assert sorted(anew.values()) == sorted(there.values())


def first_of(run: Written) -> tuple[object, ...]:
    return columns_of(
        Written(
            run.destination,
            run.queue_offset,
            physical_offsets=run.physical_offsets[:1],
            sizes=run.sizes[:1],
            tags_codes=run.tags_codes[:1],
            store_time_ms=run.store_time_ms,
            unique_keys=run.unique_keys[:1],
            keys=run.keys[:1],
            tags=run.tags[:1],
        )
    )


def test_the_dispatcher_is_told_what_a_scan_would_read(
    log: WritingLog, told: list[Sequence[Written]]
) -> None:
    log.put("T", "a", "b", key="k l", tag="TagA", unique_key="id")
    log.put("U", "c", system_flag=TRANSACTION_PREPARED)
    log.put("T", "d" * 3900)
    log.put("T", "e", tag="\u6807\u7b7e", queue_id=3)
    for level in ("3", "0", "99", "x"):
        block = encode_properties({TAGS: "TagA", DELAY: level})
        row = Row(b"f", block, 0, BORN_MS, BORN_HOST, tag="TagA")
        log.put_rows(Destination(SCHEDULE_TOPIC, 2, STORE_HOST), [row])
    levels = DelayLevels()
    read = [written_at(file.view, place, levels) for _, file, place, _ in log.log.scan(0)]
    runs = [run for put in told for run in put]
    singly = [run.behind(number) for run in runs for number in range(len(run))]
    assert [first_of(record) for record in singly] == [columns_of(record) for record in read]
    assert [len(run) for run in runs] == [2, 1, 1, 1, 1, 1, 1, 1]
    codes = [record.tags_codes[0] for record in read[-4:]]
    assert codes == [START_MS + 10_000, tags_code("TagA"), START_MS + 7_200_000, tags_code("TagA")]


def test_a_batch_that_does_not_fit_moves_whole(log: WritingLog) -> None:
    log.put("T", "x" * 2_000)
    moved = log.put("T", "y" * 950, "z" * 950)
    assert moved.physical_offsets[0] == FILE_SIZE
    assert [message.queue_offset for message in messages(log.log)] == [0, 1, 2]


def test_a_busy_store_takes_nothing(log: WritingLog) -> None:
    log.put("T", "a")
    before = log.log.appended
    with log.writer.lock, pytest.raises(StoreBusy):
        log.put("T", "b")
    assert log.log.appended == before
    assert log.put("T", "c").queue_offset == 1


def test_with_property_crc_every_record_says_so(tmp_path: Path) -> None:
    log = WritingLog(tmp_path, lambda _: None, property_crc=True)
    log.put("T", "a", "b", key="k")
    log.put("T", "c")
    for place, file, position, size in log.log.scan(0):
        assert check_record(file.view, position, place, crc=True) == size
        assert "__CRC32#" in decode_record(file.view, position).properties
    log.close()


def test_appends_are_timed(log: WritingLog) -> None:
    log.put("T", "a", "b")
    assert sum(log.writer.append_seconds.counts) == 1
    assert sum(log.writer.lock.hold_seconds.counts) == 1


# -- a real broker's log, written anew -------------------------------------------------------------

Put = tuple[Destination, list[Row], int]
"""A destination, rows, and the store time in ms."""


@pytest.mark.parametrize("name", ["basic", "rebuild-base", "propcrc", "v533", "semantics"])
async def test_a_real_log_written_anew_is_the_same_byte_for_byte(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    puts = puts_of(golden, name)
    clock, settings = FakeClock(), golden_sizes(golden, name)
    has_crc = name == "propcrc"
    async with store_at(
        tmp_path / name, clock=clock, flush="async", property_crc=has_crc, **settings
    ) as store:
        await write(store, puts)
    real = golden.store(name)
    assert files_below(tmp_path / name / "commitlog") == files_below(real / "commitlog")
    assert files_below(tmp_path / name / "consumequeue") == files_below(real / "consumequeue")
    assert index_contents(tmp_path / name) == index_contents(real)


async def write(store: TalkingStore, puts: list[Put]) -> None:
    for destination, rows, time_ms in puts:
        store.clock.wall = time_ms
        (result,) = await store.store.writing.put([(destination, batch(*rows))])
        assert result.store_timestamp_ms == time_ms


def puts_of(golden: GoldenStores, name: str) -> list[Put]:
    """The puts that made a log, told from its records.

    A batch shows where a BLANK stands before a record that would have fitted alone: the batch is
    the shortest run of records of one queue and time that did not.
    """
    log = open_log(golden, name)
    size = log.file_size_bytes
    records = [(*put_of(file.view, at), place, length) for place, file, at, length in log.scan(0)]
    log.close()
    puts: list[Put] = []
    number, end = 0, 0
    while number < len(records):
        destination, row, time_ms, place, length = records[number]
        rows, left = [row], (size - end % size) % size
        has_blank = place != end and place % size == 0
        if has_blank and length + BLANK_SIZE <= left:
            for following in count(number + 1):
                other, row, other_ms, _, more = records[following]
                assert (other, other_ms) == (destination, time_ms)
                rows.append(row)
                length += more
                if length + BLANK_SIZE > left:
                    break
        puts.append((destination, rows, time_ms))
        number += len(rows)
        end = place + length
    return puts


def put_of(view: memoryview, position: int) -> tuple[Destination, Row, int]:
    """Returns the arguments and the time of a put that writes a record as it is."""
    message: StoredMessage = decode_record(view, position, decompress=False)
    _, _, _, _, begin, end = split_record(view, position)
    block = bytes(view[begin:end])
    properties: dict[str, Any] = decode_properties(block)
    if "__CRC32#" in properties:
        block = block[:-PROPERTY_CRC_SIZE]
    destination = Destination(
        message.topic,
        message.queue_id,
        message.store_host,
        message.system_flag,
        message.prepared_transaction_offset,
    )
    unique_key, keys, tag = (properties.get(name, "") for name in (UNIQUE_KEY, KEYS, TAGS))
    row = Row(
        message.body,
        block,
        message.flag,
        message.born_timestamp_ms,
        message.born_host,
        unique_key,
        keys,
        tag,
        message.reconsume_times,
    )
    return destination, row, message.store_timestamp_ms


def test_puts_told_from_a_log_hold_batches(golden: GoldenStores) -> None:
    puts = puts_of(golden, "basic")
    assert sum(len(rows) for _, rows, _ in puts) == 2_871
    assert any(len(rows) > 1 for _, rows, _ in puts)
