"""Fixtures of the command line's tests."""

from collections.abc import Iterator

import pytest

from tests.cli.local_broker import LocalBroker, served


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """A broker that every command of the test talks to."""
    with served(monkeypatch) as local:
        yield local
