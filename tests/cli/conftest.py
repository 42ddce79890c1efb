"""Fixtures of the command line's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.local_broker import LocalBroker, served


@pytest.fixture(autouse=True)
def _own_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps tests from the contexts of the user who runs them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """A broker that every command of the test talks to."""
    with served(monkeypatch) as local:
        yield local
