"""How late a broker's event loop was is told apart from how long it had no core."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.daemon import LATE_FACTOR, LATE_S, Daemon

LATE_LOOK_S = 4 * LATE_FACTOR * LATE_S


class Starved(Daemon):
    """No process: its first page took so long that the next one tells of a late look.

    waited_s   of that time it had no core
    """

    def __init__(self, store: Path, waited_s: float) -> None:
        super().__init__(store)
        self._waits_s = waited_s
        self._waited_s = 0.0
        self._late_count = 0.0

    def begin(self) -> None:
        """Starts nothing."""
        process: Any = SimpleNamespace(poll=lambda: None)
        self._process = process

    def serve(self) -> None:
        """Marks the daemon as ready."""
        self.ready = {"grpc": ""}

    def end(self) -> None:
        """Ends nothing."""

    def lateness(self) -> dict[float, float]:
        """Returns how many looks were late when the page was begun."""
        found = {LATE_LOOK_S: self._late_count}
        if not self._late_count:
            self._late_count, self._waited_s = 1.0, self._waits_s
        return found

    def kept_waiting_s(self) -> float:
        """Returns how long it had no core."""
        return self._waited_s


def test_what_it_was_late_without_a_core_does_not_count(tmp_path: Path) -> None:
    with Starved(tmp_path / "store", LATE_LOOK_S):
        pass


def test_what_it_was_late_with_a_core_does(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="the event loop was late by more than"),
        Starved(tmp_path / "store", 0.0),
    ):
        pass
