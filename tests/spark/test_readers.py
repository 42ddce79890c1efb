"""Tables, options and ranges that are asked of Spark when a store is read."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.format.index_layout import IndexGeometry
from pocketmq.model.errors import NotAStore, StoreGap
from pocketmq.rebuild.plan import map_here
from pocketmq.spark import readers
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.readers import (
    read_consume_queue,
    read_index,
    read_messages,
    register,
)
from tests.backfill.jobs import small_log


class Session:
    """A session that notes what is asked of it."""

    def __init__(self) -> None:
        self.sources: list[type] = []
        self.asked: list[dict[str, str]] = []
        self.sparkContext = SimpleNamespace(defaultParallelism=2)
        self.dataSource = SimpleNamespace(register=self.sources.append)
        self.read = SimpleNamespace(format=lambda name: SimpleNamespace(options=self._options))

    def _options(self, **options: str) -> Any:
        return SimpleNamespace(load=lambda: self.asked.append(options))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(readers, "spark_mapper", lambda session: map_here)
    monkeypatch.setattr(readers, "equip", lambda session: None)
    return Session()


def test_a_session_is_told_of_the_source(session: Any) -> None:
    register(session)
    assert session.sources == [PocketSource]


def test_the_log_is_read_range_by_range(session: Any, tmp_path: Path) -> None:
    log = small_log(tmp_path)
    read_messages(session, tmp_path, columns=["topic", "tag"], piece_size=300, check_crc=True)
    (options,) = session.asked
    spans = [(p["part"]["begin"], p["part"]["end"]) for p in json.loads(options.pop("ranges"))]
    assert len(spans) > len(log.files)
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert options == {
        "path": str(tmp_path), "table": "messages", "columns": "topic,tag", "piece_size": "300",
        "check_crc": "true", "on_damage": "fail", "workers": "2",
    }  # fmt: skip


def test_no_more_than_asked_for_is_read(session: Any, tmp_path: Path) -> None:
    log = small_log(tmp_path)
    read_messages(session, str(tmp_path), upto=log.places[3])
    (part,) = json.loads(session.asked[0]["ranges"])
    assert part["part"]["end"] == log.places[3]


def test_views_are_read_by_options(session: Any, tmp_path: Path) -> None:
    small_log(tmp_path)
    read_consume_queue(session, str(tmp_path), topic="orders", queue_id=1)
    read_index(session, tmp_path, IndexGeometry(500, 2000), on_damage="skip")
    read_index(session, tmp_path)
    common = {"path": str(tmp_path), "workers": "2", "on_damage": "fail"}
    units, sized, plain = session.asked
    assert units == common | {"table": "units", "topic": "orders", "queue_id": "1"}
    assert plain == common | {"table": "index"}
    sizes = {"maxHashSlotNum": "500", "maxIndexNum": "2000", "on_damage": "skip"}
    assert sized == common | {"table": "index"} | sizes


def test_wrong_use_is_told_at_once(session: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", str(tmp_path)):
        for read in (read_messages, read_consume_queue, read_index):
            with pytest.raises(NotAStore, match="is not a store"):
                read(session, path)
    log = small_log(tmp_path)
    with pytest.raises(ValueError, match="no column 'bodi'"):
        read_messages(session, tmp_path, columns=["bodi"])
    with pytest.raises(ValueError, match="not one of fail, skip"):
        read_messages(session, tmp_path, on_damage="ignore")
    Path(log.found()[1].path).unlink()
    with pytest.raises(StoreGap):
        read_messages(session, tmp_path)
    assert session.asked == []
