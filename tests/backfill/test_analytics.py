"""Questions whose answers need no Spark; the others are in test_spark.py."""

from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill.analytics import committed_offsets, duplicate_keys, largest_keys
from tests.golden_stores import GoldenStores

NOTHING: Any = None


def test_committed_offsets_are_those_of_the_brokers_table(golden: GoldenStores) -> None:
    rows = committed_offsets(golden.store("semantics"))
    assert rows == sorted(rows)
    assert all(at >= 0 for *_, at in rows)
    groups = {group for group, *_ in rows}
    assert {"pop-group", "retry-group"} <= groups


def written(store: Path, text: str, name: str = "consumerOffset.json") -> Path:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / name).write_text(text)
    return store


def test_queue_ids_may_be_quoted_or_not(tmp_path: Path) -> None:
    table = '{"offsetTable": {"T@G": {0: 5, "1": 6}, "T@H": {}}}'
    assert committed_offsets(written(tmp_path, table)) == [("G", "T", 0, 5), ("G", "T", 1, 6)]


def test_a_table_that_cannot_be_read_is_taken_from_its_backup(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path) == []
    written(tmp_path, "{")
    with pytest.raises(ValueError, match=r"consumerOffset\.json cannot be read"):
        committed_offsets(tmp_path)
    written(tmp_path, '{"offsetTable": {"T@G": {3: 4}}}', "consumerOffset.json.bak")
    assert committed_offsets(tmp_path) == [("G", "T", 3, 4)]


def test_offsets_of_light_queues_count_as_in_the_broker(tmp_path: Path) -> None:
    written(tmp_path, '{"dataVersion": {"timestamp": 1}, "offsetTable": {"T@G": {0: 5}}}')
    newer = '{"dataVersion": {"timestamp": 2}, "offsetTable": {"T@G": {0: 9}, "%LMQ%a@G": {0: 1}}}'
    written(tmp_path, newer, "lmqConsumerOffset.json")
    assert committed_offsets(tmp_path) == [("G", "%LMQ%a", 0, 1), ("G", "T", 0, 9)]


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="not one of messages, bytes"):
        largest_keys(NOTHING, by="weight")
    with pytest.raises(ValueError, match="not one of keys, message_id"):
        duplicate_keys(NOTHING, of="tag")
