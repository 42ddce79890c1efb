"""Commands of `pocketmq backfill` with this process in Spark's place."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.backfill import session
from broker.rebuild.plan import map_here


class Started:
    """What Spark was asked for: masters, settings, partitions; and how often it was stopped."""

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
