"""A store with consuming around each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.consuming import ConsumeDesk, consuming


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ConsumeDesk]:
    """Group g, topic orders of 2 queues."""
    async with consuming(tmp_path / "store") as opened:
        yield opened
