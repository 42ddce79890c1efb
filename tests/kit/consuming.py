"""Consuming over a real store on a simulated disk, with time that a test moves.

async with consuming() as desk:             group g, topic orders of 2 queues
    await desk.send("a", "b")
    got = await desk.receive()              bodies(got) == ["a", "b"]
    await desk.ack(got)
    desk = await desk.killed()              what kill -9 leaves, opened again
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

from pocketmq.filter.tag import EVERYTHING
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.consuming import Received, ReceiveRequest, Settled, SettleStatus
from pocketmq.model.message import SHARDING_KEY, StoredMessage
from pocketmq.model.step import Now
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.store.job import Job
from tests.kit.rows import Row, batch
from tests.kit.store_language import (
    BORN_HOST,
    BORN_MS,
    STORE_HOST,
    TalkingStore,
    store_at,
    turns,
)

GROUP, TOPIC = "g", "orders"
INVISIBLE_MS = 30_000
SIZES = {"commit_log_file_size_bytes": 1 << 20, "consume_queue_file_size_bytes": 20_000}


def messages(received: Received) -> list[StoredMessage]:
    """Returns the decoded messages of a receive."""
    return [decode_record(record) for record in received.records]


def bodies(received: Received) -> list[str]:
    """Returns the bodies of the messages of a receive."""
    return [message.body.decode() for message in messages(received)]


class ConsumeDesk:
    """A store, its consuming, and the clock of both."""

    def __init__(self, talking: TalkingStore, **settings: Any) -> None:
        self.talking = talking
        self.store = talking.store
        self.clock = talking.clock
        self.consume = Consume(
            self.store, ConsumeSettings("DefaultCluster", "broker-a", STORE_HOST, **settings)
        )

    async def send(self, *texts: str, topic: str = TOPIC, queue_id: int = 0, **words: Any) -> None:
        """Stores messages, visible."""
        for text in texts:
            await self.talking.send(topic, text, queue_id=queue_id, wait=False, **words)
        await self.settled()

    async def send_grouped(self, *texts: str, topic: str = TOPIC, queue_id: int = 0) -> None:
        """Stores messages whose first letter is their message group, visible."""
        rows = [
            Row(text.encode(), encode_properties({SHARDING_KEY: text[0]}), 0, BORN_MS, BORN_HOST)
            for text in texts
        ]
        await self.store.writing.put([(Destination(topic, queue_id, STORE_HOST), batch(*rows))])
        await self.settled()

    async def settled(self) -> None:
        """Returns once all stored messages are visible."""
        await self.store.writing.drain()
        await self.talking.settled()
        await turns()

    def asked(self, **changes: Any) -> ReceiveRequest:
        """Returns a receive's request, by default without a wait."""
        fields: dict[str, Any] = {
            "group": GROUP, "topic": TOPIC, "wanted": EVERYTHING, "max_messages": 32,
            "invisible_ms": INVISIBLE_MS, "wait_ms": 0,
        }  # fmt: skip
        return ReceiveRequest(**(fields | changes))

    async def receive(self, **changes: Any) -> Received:
        """Receives messages; waits for an answer that comes later."""
        found = self.consume.receive(self.asked(**changes))
        received: Received = await found if isawaitable(found) else found
        return received

    async def parked(self, **changes: Any) -> "asyncio.Future[Received]":
        """Returns a parked receive."""
        found = self.consume.receive(self.asked(**({"wait_ms": 20_000} | changes)))
        assert isawaitable(found)
        task = asyncio.ensure_future(found)
        await turns()
        assert not task.done()
        return task

    async def ack(self, received: Received, *, topic: str = TOPIC) -> list[SettleStatus]:
        """Acknowledges all messages of a receive."""
        return statuses(await self.consume.ack(GROUP, topic, received.handles))

    async def step(self, by_ms: int = 0) -> None:
        """Advances the clock, and runs the step until all due work is done."""
        self.clock.advance(by_ms)
        for _ in range(100):
            now = Now(self.clock.monotonic_ms(), self.clock.wall_ms())
            following = self.consume.step(now)
            if not isinstance(following.mark, Job):
                break
            await following.mark.reached()
        await self.settled()

    @property
    def in_flight(self) -> int:
        """The number of leased messages."""
        return int(sum(self.consume.in_flight().values()))


def statuses(settled: list[Settled]) -> list[SettleStatus]:
    """Returns the result of each entry."""
    return [entry.status for entry in settled]


@asynccontextmanager
async def consuming(directory: Path, **settings: Any) -> AsyncIterator[ConsumeDesk]:
    """Opens a store, recovers its leases, and closes it in the end.

    settings   of the store, `clock` and `disk` as for `store_at`; `in_flight_max` and `journal_max`
    """
    own = {
        name: settings.pop(name) for name in ("in_flight_max", "journal_max") if name in settings
    }
    async with store_at(directory, **{**SIZES, **settings}) as talking:
        talking.store.tables.topics.adopt(TOPIC, 2)
        await talking.store.tables.groups.ensure(GROUP)
        desk = ConsumeDesk(talking, **own)
        await desk.consume.recover()
        yield desk
        desk.consume.drain()
        await desk.consume.close()
