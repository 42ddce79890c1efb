"""Delayed records become the records of a real broker, byte for byte."""

from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.java_hash import java_hash
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record, encode_records, record_sizes
from pocketmq.format.record_scan import RecordScan
from pocketmq.format.timed_records import (
    DueRecords,
    TimedFacts,
    odd_run,
    one_by_one,
    run_of,
    taken_back,
)
from pocketmq.model.batch import Destination
from pocketmq.model.system_topics import TIMER_TOPIC
from tests.golden_stores import GoldenStores
from tests.kit.rows import Row, encoded
from tests.kit.store_language import BORN_HOST, STORE_HOST

HOST = bytes((10, 0, 0, 1, 0, 0, 42, 159))


@pytest.fixture(scope="module")
def records(golden: GoldenStores) -> list[bytes]:
    """All records of the golden store, in order."""
    directory = golden.store("semantics") / "commitlog"
    return [
        content[position : position + size]
        for path in sorted(directory.iterdir())
        for content in [path.read_bytes()]
        for position, size in RecordScan(content, int(path.name))
    ]


def delivered_pairs(records: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Records of the timer's topic with what a real broker made of each."""
    waiting: dict[tuple[str, str], bytes] = {}
    pairs = []
    for record in records:
        message = decode_record(record, decompress=False)
        key = message.unique_key, message.properties.get("TIMER_OUT_MS", "")
        if message.topic == TIMER_TOPIC:
            waiting[key] = record
        elif "TIMER_DEQUEUE_MS" in message.properties:
            pairs.append((waiting[key], record))
    return pairs


def made_of(record: bytes, real: bytes, *, is_odd: bool) -> bytes:
    """Our record at the place, and at the times, of the real one."""
    message = decode_record(real, decompress=False)
    times = [int(message.properties[f"TIMER_{name}QUEUE_MS"]) for name in ("EN", "DE")]
    place = message.topic, message.queue_id
    if is_odd:
        destination, batch = odd_run(
            record, place=place, store_host=message.store_host, enqueued_ms=times[0],
            dequeued_ms=times[1],
        )  # fmt: skip
    else:
        due = DueRecords().message(record, *times)
        assert due is not None
        assert (due.topic.decode(), int(due.queue)) == place
        destination = Destination(*place, message.store_host, due.system_flag)
        destination, batch = run_of(destination, [due])
    return encode_records(
        destination, batch, record_sizes(destination, batch), queue_offset=message.queue_offset,
        physical_offset=message.physical_offset, store_timestamp_ms=message.store_timestamp_ms,
    )  # fmt: skip


@pytest.mark.parametrize("is_odd", [False, True])
def test_each_is_the_record_that_a_real_broker_wrote(records: list[bytes], is_odd: bool) -> None:
    pairs = delivered_pairs(records)
    assert len(pairs) == 68
    for record, real in pairs:
        assert made_of(record, real, is_odd=is_odd) == real


def test_columns_say_what_records_do(records: list[bytes]) -> None:
    wanted = [record for record in records if TIMER_TOPIC.encode() in record[80:4096]]
    wanted = [r for r in wanted if decode_record(r, decompress=False).topic == TIMER_TOPIC]
    facts = TimedFacts()
    for begin in range(0, len(wanted), 7):
        facts.add(b"".join(wanted[begin : begin + 7]))
    assert len(facts) == len(wanted) == 134
    for number, record in enumerate(wanted):
        message = decode_record(record, decompress=False)
        said = message.properties
        assert facts.record(number) == record
        assert facts.due_ms[number] == int(said["TIMER_OUT_MS"])
        assert facts.topic_hashes[number] == java_hash(said["REAL_TOPIC"])
        assert facts.markers[number] == ("TIMER_DEL_UNIQKEY" in said)
        assert facts.queue_offsets[number] == message.queue_offset == number
        assert facts.physical_offsets[number] == message.physical_offset
        gone = said.get("TIMER_DEL_UNIQKEY", "")
        if said.get("TAGS") == "_RECALL_TAG_":
            gone = f"{said['REAL_TOPIC']}\x01{gone}"
        assert taken_back(record).decode() == gone


def record_of(**properties: str) -> bytes:
    row = Row(b"body", encode_properties(properties), 0, 1_000, BORN_HOST)
    return encoded(Destination(TIMER_TOPIC, 0, STORE_HOST), row, physical_offset=0)


@pytest.mark.parametrize("said", ["", "x", "-5", "9" * 30])
def test_a_record_without_a_time_is_due_at_once(said: str) -> None:
    facts = TimedFacts()
    facts.add(record_of(REAL_TOPIC="T", TIMER_OUT_MS=said) if said else record_of(REAL_TOPIC="T"))
    assert facts.due_ms == [0]


def odd_blocks() -> list[bytes]:
    return [
        b"REAL_TOPIC\x01T\x02REAL_QID\x010",
        b"REAL_TOPIC\x01T\x02REAL_TOPIC\x01U\x02REAL_QID\x010\x02",
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02X\x01a\x01b\x02",
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02X\x01\x02",
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02X\x02",
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02TIMER_ENQUEUE_MS\x015\x02",
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02X\x01" + b"x" * 32_700 + b"\x02",
        b"",
    ]


@pytest.mark.parametrize("block", odd_blocks())
def test_odd_properties_take_the_slower_way(block: bytes) -> None:
    row = Row(b"body", block, 0, 1_000, BORN_HOST)
    record = encoded(Destination(TIMER_TOPIC, 0, STORE_HOST), row, physical_offset=0)
    assert DueRecords().message(record, 1, 2) is None
    _, batch = odd_run(record, place=("T", 0), store_host=HOST, enqueued_ms=1, dequeued_ms=2)
    assert batch.bodies == [b"body"]


def test_a_name_that_looks_like_a_format_is_none() -> None:
    record = record_of(**{"%s%d%": "100%", "REAL_TOPIC": "T", "REAL_QID": "3"})
    due = DueRecords().message(record, 1, 2)
    assert due is not None
    assert b"%s%d%\x01100%\x02" in due.row[1]
    assert (due.topic, due.queue) == (b"T", b"3")


def test_a_run_taken_apart_is_the_same_messages(tmp_path: Path) -> None:
    due = DueRecords()
    rows: list[Any] = [due.message(record_of(UNIQ_KEY=f"K{n}"), n, n) for n in range(3)]
    whole = run_of(Destination("T", 0, HOST), rows)
    parts = one_by_one(whole)
    for name in (
        "bodies",
        "property_blocks",
        "unique_keys",
        "keys",
        "tags",
        "born_ms",
        "born_hosts",
        "flags",
        "reconsume_times",
    ):
        assert [getattr(batch, name)[0] for _, batch in parts] == getattr(whole[1], name)
