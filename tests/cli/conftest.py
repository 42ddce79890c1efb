"""Fixtures of the command line's tests."""

import pytest

from tests.cli.fake_broker import FakeBroker, install


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """A broker that every command of the test talks to."""
    return install(monkeypatch)
