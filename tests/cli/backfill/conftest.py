"""Commands of `pocketmq backfill` with this process in Spark's place."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.backfill import session
from pocketmq.backfill.job import new_job, run
from pocketmq.rebuild.plan import map_here
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import golden_settings


class Started:
    """Requests to Spark: masters, settings, partitions; and how often it was stopped."""

    def __init__(self) -> None:
        self.masters: list[str] = []
        self.settings: dict[str, str] = {}
        self.partitions: list[int] = []
        self.stopped = 0

    def open_session(self, master: str, *, settings: dict[str, str]) -> Any:
        self.masters.append(master)
        self.settings |= settings
        return SimpleNamespace(stop=self._stop)

    def _stop(self) -> None:
        self.stopped += 1

    def spark_mapper(self, _: Any, partitions: int) -> Any:
        self.partitions.append(partitions)
        return map_here


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Spark, without Spark."""
    found = Started()
    monkeypatch.setattr(session, "open_session", found.open_session)
    monkeypatch.setattr(session, "spark_mapper", found.spark_mapper)
    monkeypatch.setattr(session, "wait_for_workers", lambda _: 2)
    return found


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> Path:
    """A store of its own, with its views."""
    return golden.copy("rebuild-base", tmp_path / "store")


def build(golden: GoldenStores, store: Path, out: Path, upto: int | None = None) -> Path:
    """Builds views from the log of a store."""
    size = golden.manifest("rebuild-base")["params"]["mappedFileSizeCommitLog"]
    settings = golden_settings(golden, "rebuild-base")
    run(new_job(store, out, settings, log_file_bytes=size, upto=upto), map_here)
    return out


@pytest.fixture
def built(golden: GoldenStores, store: Path, tmp_path: Path) -> Path:
    """Views built from the store's own log."""
    return build(golden, store, tmp_path / "out")
