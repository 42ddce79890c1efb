"""A broker, and a classic client of it."""

from collections.abc import AsyncIterator

import pytest

from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_broker import broker as broker


@pytest.fixture
async def client(broker: StoreBroker) -> AsyncIterator[RemotingPair]:
    """A connected client."""
    pair = RemotingPair(broker.classic.service())
    yield pair
    pair.server.cut_off()
