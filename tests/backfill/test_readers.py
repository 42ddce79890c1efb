"""What is asked of Spark when a store is read: which source, which partitions."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.backfill import readers
from broker.backfill.readers import read_consume_queue, read_index, read_messages
from broker.format.index_layout import IndexGeometry
from broker.model.errors import StoreGap
from broker.rebuild.plan import map_here
from tests.backfill.jobs import small_log
from tests.golden_stores import GoldenStores

Asked = tuple[str, dict[str, Any]]
SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What would be loaded: (source, options)."""
    found: list[Asked] = []

    def load(session: Any, kind: str, options: dict[str, str]) -> None:
        plain = {name: json.loads(text) for name, text in options.items() if name != "on_damage"}
        found.append((kind, plain | {"on_damage": options["on_damage"]}))

    monkeypatch.setattr(readers, "_load", load)
    monkeypatch.setattr(readers, "spark_mapper", lambda session: map_here)
    return found


def test_the_log_is_read_range_by_range(asked: list[Asked], tmp_path: Path) -> None:
    log = small_log(tmp_path)
    read_messages(SESSION, tmp_path, columns=["topic"], piece_size=300, check_crc=True)
    (source, options), = asked  # fmt: skip
    assert source == "messages"
    spans = [(p["part"]["begin"], p["part"]["end"]) for (p,) in options["partitions"]]
    assert len(spans) > len(log.files)
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert (options["columns"], options["check_crc"]) == (["topic"], True)
    assert options["on_damage"] == "fail"


def test_no_more_than_asked_for_is_read(asked: list[Asked], tmp_path: Path) -> None:
    log = small_log(tmp_path)
    read_messages(SESSION, tmp_path, upto=log.places[3])
    (lot,) = asked[0][1]["partitions"]
    assert lot[0]["part"]["end"] == log.places[3]
    read_messages(SESSION, tmp_path / "nothing")
    assert asked[1][1]["partitions"] == []


def test_queues_are_read_in_a_few_lots(asked: list[Asked], golden: GoldenStores) -> None:
    store = golden.store("basic")
    read_consume_queue(SESSION, store)
    read_consume_queue(SESSION, store, topic="orders")
    read_consume_queue(SESSION, store, topic="orders", queue_id=1)
    every, topic, queue = ([f for lot in o["partitions"] for f in lot] for _, o in asked)
    assert len(asked[0][1]["partitions"]) == 8
    assert len(every) == len([p for p in (store / "consumequeue").rglob("*") if p.is_file()])
    assert {(file["topic"], file["queue_id"]) for file in queue} == {("orders", 1)}
    assert queue == [file for file in topic if file["queue_id"] == 1]


def test_the_index_is_read_file_by_file(asked: list[Asked], golden: GoldenStores) -> None:
    store = golden.store("v533")
    read_index(SESSION, store, IndexGeometry(500, 2000), on_damage="skip")
    (source, options), = asked  # fmt: skip
    assert source == "entries"
    assert [Path(path).name for lot in options["partitions"] for path in lot] == sorted(
        path.name for path in (store / "index").iterdir()
    )
    assert (options["geometry"], options["on_damage"]) == ([500, 2000], "skip")


def test_wrong_use_is_told_at_once(asked: list[Asked], tmp_path: Path) -> None:
    log = small_log(tmp_path)
    with pytest.raises(ValueError, match="no column 'bodi'"):
        read_messages(SESSION, tmp_path, columns=["bodi"])
    with pytest.raises(ValueError, match="not one of fail, skip"):
        read_messages(SESSION, tmp_path, on_damage="ignore")
    Path(log.found()[1].path).unlink()
    with pytest.raises(StoreGap):
        read_messages(SESSION, tmp_path)
    assert asked == []
