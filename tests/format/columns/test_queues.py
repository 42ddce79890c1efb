"""Queue numbers: the same for the same topic and queue id, whatever the topics look like."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns import queues as module
from pocketmq.format.columns.heads import BEHIND, FRONT, read_heads, starts
from pocketmq.format.columns.queues import QueueTable
from pocketmq.format.index_layout import index_key
from pocketmq.format.java_hash import WRAP, java_hash
from tests.kit.log_bytes import LogBytes


def numbered(log: LogBytes, table: QueueTable) -> list[tuple[str, int]]:
    content = bytes(log.files[0])
    buffer = bytearray(bytes(FRONT) + content + bytes(BEHIND))
    heads = read_heads(buffer, starts(buffer, FRONT, FRONT + len(content)))
    return [table.keys[number] for number in table.number(buffer, heads).tolist()]


def log_of(tmp_path: Path, keys: list[tuple[str, int]]) -> LogBytes:
    log = LogBytes(tmp_path / "s", 1 << 22)
    for topic, queue_id in keys:
        log.add(topic, queue_id)
    return log


def test_topics_of_one_java_hash_and_prefixes_of_each_other_are_told_apart(tmp_path: Path) -> None:
    topics = ["Aa", "BB", "A", "AaA", "t" * 8, "t" * 9, "t" * 127, "%RETRY%" + "t" * 150]
    keys = [(topic, queue_id) for queue_id in (0, 1, 70_000) for topic in topics] * 2
    table = QueueTable()
    assert numbered(log_of(tmp_path, keys), table) == keys
    assert len(table.keys) == len(set(keys))
    assert numbered(log_of(tmp_path, keys[::-1]), table) == keys[::-1]
    assert len(table.keys) == len(set(keys))


def test_several_thousand_queues_at_once(tmp_path: Path) -> None:
    keys = [(f"topic-{number}", number % 3) for number in range(6_000)]
    table = QueueTable()
    assert numbered(log_of(tmp_path, keys), table) == keys
    assert len(table.prefixes) >= len(keys)


def test_topics_that_fold_alike_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FACTORS", np.zeros_like(module._FACTORS))
    keys = [("Aa", 0), ("BB", 0), ("Aa", 1), ("Aa", 0)]
    table = QueueTable()
    for _ in range(2):  # At first all queues are new.
        assert numbered(log_of(tmp_path / str(len(table.keys)), keys), table) == keys
    assert len(table.keys) == 3


def test_prefixes_are_the_hashes_of_what_stands_before_a_key(tmp_path: Path) -> None:
    table = QueueTable()
    numbered(log_of(tmp_path, [("orders", 0), ("Aa", 1)]), table)
    for number, (topic, _) in enumerate(table.keys):
        assert table.prefixes[number] == java_hash(index_key(topic, "")) & WRAP
        assert table.tag_prefixes[number] == java_hash(index_key(topic, "", "T")) & WRAP


topics = st.one_of(
    st.sampled_from(["", "Aa", "BB", "AaAa", "BBBB", "AaBB", "t" * 8, "t" * 16, "t" * 127]),
    st.text("AaB\0", max_size=18),
    st.sampled_from(
        ["é" * 64, "%RETRY%" + "g" * 121, "%RETRY%" + "g" * 249, "x" * 400, "x" * 399 + "y"]
    ),
)
queue_ids = st.sampled_from([0, 1, 255, -1, 2**31 - 1, -(2**31)])


@settings(max_examples=120)
@given(st.lists(st.lists(st.tuples(topics, queue_ids), max_size=20), max_size=3))
def test_any_queues_in_any_order(batches: list[list[tuple[str, int]]]) -> None:
    table = QueueTable()
    for keys in batches:
        log = LogBytes(Path("/none"), 1 << 20)
        for topic, queue_id in keys:
            log.add(topic, queue_id)
        assert numbered(log, table) == keys
    assert len(table.keys) == len({key for keys in batches for key in keys})


def test_topics_that_are_no_text_are_told_apart_though_they_look_alike() -> None:
    log = LogBytes(Path("/none"))
    for octet in (0xFF, 0xFE, 0xFF, 0xC3):
        place = log.add("?")
        log.damage(place + 93, bytes([octet]))
    table = QueueTable()
    assert numbered(log, table) == [("\ufffd", 0)] * 4
    assert len(table.keys) == 3


def test_what_stands_behind_a_topic_is_no_part_of_it() -> None:
    log = LogBytes(Path("/none"), 1 << 16)
    for number in range(40):
        log.add("orders"[: number % 7], number % 2, block=bytes([number]) * number, body=b"")
    table = QueueTable()
    numbered(log, table)
    assert len(table.keys) == 14


def test_queues_of_removed_topics_have_a_lowest_offset() -> None:
    log = LogBytes(Path("/none"))
    for topic, queue_id in (("orders", 0), ("orders", 1), ("others", 0)):
        log.add(topic, queue_id)
    table = QueueTable('{"orders": {"1": 7}}')
    numbered(log, table)
    assert table.lowest is not None
    assert table.lowest[:3].tolist() == [0, 7, 0]
    assert QueueTable().lowest is None
