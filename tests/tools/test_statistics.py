"""Sums by column are what counting one by one gives."""

import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.record import decode_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.message import FLAG_COMPRESSED, StoredMessage
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools import statistics
from pocketmq.tools.selection import LogSearch, Selection
from pocketmq.tools.statistics import DIMENSIONS, IN_ORDER, Statistics, measure
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import IPV6, TIME_MS, LogBytes, golden_files

Label = dict[str, Any]


def measured(files: list[LogFile], by: str | None = None, top: int = 9999) -> Statistics:
    return measure(LogSearch(files, Selection()), files, by=by, top=top)


def stored(files: list[LogFile]) -> list[StoredMessage]:
    """Every message, its body as it is stored."""
    return [
        decode_record(content, position, decompress=False)
        for file in files
        for content in [Path(file.path).read_bytes()]
        for position, _ in RecordScan(content, file.base)
    ]


def amounts(messages: list[StoredMessage]) -> dict[str, Any]:
    bodies = [len(message.body) for message in messages]
    times = [message.store_timestamp_ms for message in messages]
    compressed = sum(message.system_flag & FLAG_COMPRESSED for message in messages)
    return {
        "messages": len(messages),
        "bytes": sum(message.store_size for message in messages),
        "body_bytes": sum(bodies),
        "body_bytes_average": round(sum(bodies) / len(bodies), 1),
        "body_bytes_max": max(bodies),
        "compressed_ratio": round(compressed / len(bodies), 4),
        "keys_per_message": round(sum(len(m.keys) for m in messages) / len(bodies), 2),
        "first_store_timestamp_ms": min(times),
        "last_store_timestamp_ms": max(times),
    }


def at(message: StoredMessage) -> datetime:
    return datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC)


def bits(message: StoredMessage) -> int:
    return len(message.body).bit_length()


LABELS: dict[str, Callable[[StoredMessage], list[Label]]] = {
    "topic": lambda m: [{"topic": m.topic}],
    "queue": lambda m: [{"topic": m.topic, "queue_id": m.queue_id}],
    "tag": lambda m: [{"topic": m.topic, "tag": m.tag}],
    "key": lambda m: [{"topic": m.topic, "key": key} for key in m.keys],
    "host": lambda m: [{"born_host": str(ip_address(m.born_host[:-4]))}],
    "hour": lambda m: [{"hour": f"{at(m):%Y-%m-%dT%H:00Z}"}],
    "day": lambda m: [{"day": f"{at(m):%Y-%m-%d}"}],
    "size": lambda m: [
        {"from_bytes": 1 << bits(m) - 1 if bits(m) else 0, "below_bytes": 1 << bits(m)}
    ],
}


@pytest.mark.parametrize("by", DIMENSIONS)
@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_groups_of_a_real_store(golden: GoldenStores, name: str, by: str) -> None:
    files = golden_files(golden, name)
    groups: dict[str, tuple[Label, list[StoredMessage]]] = {}
    for message in stored(files):
        for label in LABELS[by](message):
            groups.setdefault(str(label), (label, []))[1].append(message)
    expected = [label | amounts(messages) for label, messages in groups.values()]
    found = measured(files, by)
    assert sorted(map(str, found.rows)) == sorted(map(str, expected))
    assert found.group_count == len(expected)
    counts = [row["messages"] for row in found.rows]
    if by in IN_ORDER:
        first = next(iter(LABELS[by](stored(files)[0])[0]))
        assert [row[first] for row in found.rows] == sorted(row[first] for row in found.rows)
    else:
        assert counts == sorted(counts, reverse=True)


def test_the_whole_is_what_the_manifest_says(golden: GoldenStores) -> None:
    files, records = golden_files(golden, "basic"), golden.manifest("basic")["records"]
    found = measured(files)
    assert found.summary == amounts(stored(files)) | {
        "topics": len({record["topic"] for record in records}),
        "queues": len({(record["topic"], record["queueId"]) for record in records}),
    }
    assert found.summary["messages"] == len(records)
    assert found.rows == []


def test_the_largest_messages(golden: GoldenStores) -> None:
    files = golden_files(golden, "basic")
    order = sorted(stored(files), key=lambda m: (-len(m.body), m.physical_offset))
    found = measured(files, top=7).largest
    assert [row["physical_offset"] for row in found] == [m.physical_offset for m in order[:7]]
    assert found[0] == {
        "topic": order[0].topic, "queue_id": order[0].queue_id,
        "queue_offset": order[0].queue_offset, "physical_offset": order[0].physical_offset,
        "store_size": order[0].store_size, "body_bytes": len(order[0].body),
    }  # fmt: skip


def test_a_few_rows_and_how_many_there_are(golden: GoldenStores) -> None:
    found = measured(golden_files(golden, "basic"), "key", top=3)
    assert len(found.rows) == 3 < found.group_count
    assert not found.is_rough


def test_nothing_found(golden: GoldenStores) -> None:
    files = golden_files(golden, "basic")
    found = measure(LogSearch(files, Selection(topics=("none",))), files, by="topic")
    assert (found.rows, found.largest, found.group_count) == ([], [], 0)
    assert found.summary["messages"] == found.summary["queues"] == 0
    assert found.summary["first_store_timestamp_ms"] is None


def test_only_queues_with_messages_found_count(golden: GoldenStores) -> None:
    files = golden_files(golden, "basic")
    found = measure(LogSearch(files, Selection(queue_ids=frozenset({0}))), files, by="queue")
    assert found.summary["queues"] == found.group_count
    assert {row["queue_id"] for row in found.rows} == {0}


def test_long_hosts_texts_that_are_none_and_empty_bodies(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(born=IPV6, body=b"", block=b"TAGS\x01\xff\x02", keys="k " + "x" * 30)
    log.add(body=zlib.compress(b"x" * 50), flags=FLAG_COMPRESSED, keys="k")
    files = log.close().found()
    assert [row["born_host"] for row in measured(files, "host").rows] == [
        "2001:db8::7",
        "127.0.0.1",
    ]
    assert {row["tag"] for row in measured(files, "tag").rows} == {None, "�"}
    assert [row["below_bytes"] for row in measured(files, "size").rows] == [1, 16]
    keys = measured(files, "key").rows
    assert [(row["key"], row["messages"]) for row in keys] == [("k", 2), ("x" * 30, 1)]
    assert measured(files).summary["compressed_ratio"] == 0.5


@pytest.mark.parametrize("time_ms", [-(2**62), 2**62, 0, -1])
def test_times_no_calendar_knows(tmp_path: Path, time_ms: int) -> None:
    log = LogBytes(tmp_path)
    log.add(time_ms=time_ms)
    files = log.close().found()
    for by in ("hour", "day"):
        assert len(measured(files, by).rows) == 1


def test_with_too_many_groups_the_smallest_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "GROUPS_MAX", 8)
    monkeypatch.setattr(statistics, "PENDING_MAX", 4)
    log = LogBytes(tmp_path, 1024)
    for number in range(60):
        log.add(keys=f"often k{number}", time_ms=TIME_MS + number)
    files = log.close().found()
    found = measured(files, "key", top=2)
    assert found.is_rough
    assert (found.rows[0]["key"], found.rows[0]["messages"]) == ("often", 60)
