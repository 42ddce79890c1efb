"""A broker in memory for the methods of Admin."""

import pytest

from tests.fakes.memory_broker import MemoryBroker


@pytest.fixture
def broker() -> MemoryBroker:
    """A broker with the topic orders, 2 queues."""
    return MemoryBroker()
