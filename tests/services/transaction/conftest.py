"""A store with transactions, and nothing in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.disk import SimDisk
from tests.fakes.transacting import TransactionDesk, transacting


@pytest.fixture
async def desk() -> AsyncIterator[TransactionDesk]:
    """A store on a simulated disk."""
    async with transacting(Path("/store"), disk=SimDisk()) as opened:
        yield opened
