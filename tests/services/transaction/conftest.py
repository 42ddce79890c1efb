"""A store with transactions, and nothing in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.transacting import TransactionDesk, transacting
from tests.sim.disk import SimDisk


@pytest.fixture
async def desk() -> AsyncIterator[TransactionDesk]:
    """A store on a simulated disk."""
    async with transacting(Path("/store"), disk=SimDisk()) as opened:
        yield opened
