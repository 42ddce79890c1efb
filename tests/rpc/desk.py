"""A broker served on a port, and its client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pocketmq.client import AsyncClient
from pocketmq.rpc.own.server import OwnServer
from tests.kit.store_broker import StoreBroker, running, store_broker


class Desk:
    """Both sides of one connection."""

    def __init__(self, broker: StoreBroker, server: OwnServer, client: AsyncClient) -> None:
        self.broker = broker
        self.server = server
        self.client = client
        self.admin = client.admin


@asynccontextmanager
async def opened_desk() -> AsyncIterator[Desk]:
    """Serves a broker and connect to it."""
    async with store_broker() as broker:
        server = OwnServer(broker.services())
        async with running(server) as address, AsyncClient(address, retry_ms=0) as client:
            yield Desk(broker, server, client)
