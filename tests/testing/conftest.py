"""A client that asks once: what a fault did to a call is seen as it is."""

from collections.abc import Iterator

import pytest

from pocketmq.client import Client
from pocketmq.testing import RocketMQ


@pytest.fixture
def client(rocketmq_module: RocketMQ) -> Iterator[Client]:
    """A client on the broker of a module's tests."""
    with Client(rocketmq_module.endpoint, retry_ms=0) as made:
        yield made
