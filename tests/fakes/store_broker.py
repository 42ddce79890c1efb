"""The whole API over a store on disk, called with bytes and without a transport.

    async with store_broker(tmp_path / "s") as broker:
        await broker.answer("SendMessage", pb.SendMessageRequest(…))
        await broker.outcome("Admin/CreateTopic", b"what a fuzzer thinks of")

Files are small and time stands still, as in store_language.py.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.message import Message

from broker.format.message_id import UniqueKeyMaker
from broker.model.errors import BrokerError
from broker.rpc.service import Method
from broker.rpc.v1.admin import Admin
from broker.rpc.v1.admin.needs import Process
from broker.rpc.v1.messaging import Messaging
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.send import Send, SendRules
from broker.store.message_store import MessageStore
from tests.fakes.call import FakeCall
from tests.fakes.clock import FakeClock
from tests.fakes.store_language import STORE_HOST, TalkingStore, store_at

CALL = FakeCall(time_left_ms=0)
"""Its deadline is past, so that polls are answered at once."""


class StoreBroker:
    """Services and methods, wired as the broker wires them."""

    def __init__(self, talking: TalkingStore) -> None:
        self.talking = talking
        store: MessageStore = talking.store
        pull, query = Pull(store), Query(store)
        self.send = Send(
            store,
            SendRules(STORE_HOST, "DefaultCluster", default_queue_count=2),
            store.clock,
            key_maker=UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd"),
            random=Random(1),
        )
        messaging = Messaging(
            self.send, pull, query, topics=store.topics, offsets=store.offsets
        ).service()
        admin = Admin(
            pull,
            query,
            store=store,
            topics=store.topics,
            offsets=store.offsets,
            process=Process(list, lambda: None),
        ).service()
        self.methods: dict[str, Method] = {
            **{f"Admin/{method.name}": method for method in admin.methods},
            **{method.name: method for method in messaging.methods},
        }

    async def outcome(self, name: str, raw: bytes) -> str:
        """Serve a call as a transport does; returns "ok", or the name of our own error.

        Errors   whatever would reach the edge and is none of ours
        """
        try:
            await self._served(name, raw)
        except BrokerError as error:
            return error.reason
        return "ok"

    async def answer(self, name: str, request: Message) -> Any:
        """Serve a call and return its response message.

        Errors   BrokerError kinds
        """
        method = self.methods[name]
        return method.response.FromString(await self._served(name, request.SerializeToString()))

    async def _served(self, name: str, raw: bytes) -> bytes:
        method = self.methods[name]
        answer = method.handler(method.reader()(raw), CALL)
        return method.writer()(await answer if isawaitable(answer) else answer)


@asynccontextmanager
async def store_broker(
    directory: Path, *, clock: FakeClock | None = None, **settings: Any
) -> AsyncIterator[StoreBroker]:
    """Open a broker without a transport over a store of small files; close it in the end."""
    async with store_at(directory, clock=clock, **settings) as talking:
        yield StoreBroker(talking)
