"""Spark finds the data source `pocketmq` by itself, and sessions of Spark Connect use it."""

import io
import pickle
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.worker import lookup_data_sources

import pyspark_pocketmq
from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.readers import read_messages


def test_spark_finds_the_source() -> None:
    found = io.BytesIO()
    lookup_data_sources._main(io.BytesIO(), found)
    found.seek(0)

    def number() -> int:
        return int.from_bytes(found.read(4))

    assert number() == 1
    name, source = (found.read(number()) for _ in range(2))
    assert name == b"pocketmq"
    assert pickle.loads(source) is PocketSource


def test_without_the_extra_there_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(Path(pyspark_pocketmq.__file__))
    assert runpy.run_path(path)["DefaultSource"] is PocketSource
    monkeypatch.setitem(sys.modules, "pocketmq.spark.data_source", None)
    assert "DefaultSource" not in runpy.run_path(path)


class Reader:
    """Collects the options of `session.read`."""

    def format(self, name: str) -> "Reader":
        assert name == "pocketmq"
        return self

    def options(self, **given: str) -> "Reader":
        self.given = given
        return self

    def load(self) -> dict[str, str]:
        return self.given


def test_a_session_of_connect_leaves_the_plan_to_its_server() -> None:
    registered: list[Any] = []
    source = SimpleNamespace(register=registered.append)
    session: Any = SimpleNamespace(dataSource=source, read=Reader())
    found: Any = read_messages(session, "/only/on/the/server", columns=("topic",))
    assert registered == [PocketSource]
    assert (found["path"], found["columns"]) == ("/only/on/the/server", "topic")
    assert "ranges" not in found
