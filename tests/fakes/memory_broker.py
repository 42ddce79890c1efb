"""The whole API over a store in memory: handlers to call directly, or served on a port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import cast

import grpc

from broker.format.message_id import UniqueKeyMaker
from broker.rpc.grpcio.server import GrpcioServer
from broker.rpc.service import Service
from broker.rpc.v1.admin import Admin
from broker.rpc.v1.admin.needs import Process
from broker.rpc.v1.messaging import Messaging
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.send import Send, SendRules
from broker.store.message_store import MessageStore
from tests.fakes.memory_store import STORE_HOST, MemoryStore


class MemoryBroker:
    """Store, services and methods, wired as the broker wires them; topic `orders` has 2 queues."""

    def __init__(self) -> None:
        self.store = store = MemoryStore()
        store.topics.add("orders", 2)
        self.pull = Pull(store)
        self.query = Query(store)
        self.send = Send(
            cast(MessageStore, store),
            SendRules(STORE_HOST, "DefaultCluster", default_queue_count=4),
            store.clock,
            key_maker=UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd"),
            random=Random(1),
        )
        self.messaging = Messaging(
            self.send, self.pull, self.query, topics=store.topics, offsets=store.offsets
        )
        self.settings = [("store.flush", "async", "--set")]
        self.drains: list[str] = []
        """One entry for each time the broker was asked to end."""
        self.admin = Admin(
            self.pull,
            self.query,
            store=store,
            topics=store.topics,
            offsets=store.offsets,
            process=Process(lambda: self.settings, lambda: self.drains.append("asked")),
        )

    def services(self) -> list[Service]:
        """Return the services of the API."""
        return [self.messaging.service(), self.admin.service()]


@asynccontextmanager
async def running(server: GrpcioServer) -> AsyncIterator[str]:
    """Start a server on a free port and yield its address; stop it in the end."""
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield address
    finally:
        server.drain()
        await server.stop(0)


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """Yield a channel to an address."""
    async with grpc.aio.insecure_channel(
        address, options=(("grpc.max_receive_message_length", 17 << 20),)
    ) as channel:
        yield channel
