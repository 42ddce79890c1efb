"""A broker in the measuring process: store, services and runner as the application has them.

Without a transport: a send is from request bytes to reply bytes.
"""

import asyncio
import gc
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from bench.servers import ASYNC
from harness.inside import ADDRESS, opened_broker
from pocketmq.app.parts import Parts
from pocketmq.files.disk import Disk
from pocketmq.format.addresses import UniqueKeyMaker, host_from_text
from pocketmq.model.batch import Batch
from pocketmq.model.step import Clock, SystemClock
from pocketmq.rpc.call import May, anything
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_message import SendMessage, parse_send_request
from pocketmq.rpc.v2.send_shortcut import CLIENT_ID_KEY
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.settings import StoreSettings

TOPIC: Final = "bench"
HOST: Final = host_from_text(ADDRESS)
DIFFERENT: Final = 200
"""Requests that differ in their times; more are the same again."""
PAUSE_S: Final = 0.002
HANG_S: Final = 120.0


class _Peer:
    """A call without a user."""

    user = ""
    may: May = staticmethod(anything)
    peer = "ipv4:127.0.0.1:4711"
    peer_host = host_from_text("127.0.0.1:4711")

    def metadata(self, name: str, /) -> str | None:
        return "bench" if name == CLIENT_ID_KEY else None

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Ignores the user."""

    def time_left_ms(self) -> int | None:
        return None

    def room(self, wanted: int, /) -> int:
        return wanted

    def check_room(self, size: int, /) -> None:
        """Finds room for any answer."""

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Nothing is lost."""


PEER: Final = _Peer()


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[MessageStore, Send]]:
    """Opens a store of its own, and the service that sends to it."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        settings = StoreSettings(directory=Path(directory) / "store", flush="async")
        store = await open_store(settings, SystemClock(), Disk())
        maker = UniqueKeyMaker(address=b"\x7f\0\0\1", process_id=1, random_bytes=b"send")
        rules = SendRules(HOST, "DefaultCluster")
        yield store, Send(store, rules, store.clock, key_maker=maker, random=random.Random(1))
        await store.close()


def batch_like(
    body: bytes, blocks: Sequence[bytes], unique_keys: Sequence[str], keys: Sequence[str]
) -> Batch:
    """Returns messages of one body and tag, as many as property blocks."""
    count = len(blocks)
    return Batch(
        bodies=[body] * count, property_blocks=[*blocks], unique_keys=[*unique_keys], keys=[*keys],
        tags=["TagA"] * count, born_ms=[1_790_000_000_000] * count, born_hosts=[HOST] * count,
        flags=[0] * count, reconsume_times=[0] * count,
    )  # fmt: skip


class Broker(NamedTuple):
    """A broker without its transport, and the seconds of each phase of its start."""

    store: MessageStore
    parts: Parts
    send: SendMessage
    phases: dict[str, float]

    async def sent(self, raws: Sequence[bytes], turn: int = 1) -> None:
        """Sends requests; others have a turn after some, and dispatch keeps up."""
        for number, raw in enumerate(raws, 1):
            reply = self.send.shortcut(raw, PEER.peer_host, PEER.metadata)
            if reply is None:
                reply = await self.send(parse_send_request(raw), PEER)
            if not isinstance(reply, bytes):
                await reply
            if number % turn == 0:
                await asyncio.sleep(0)
            if number % DIFFERENT == 0:
                await self.store.marks.dispatched.reached(self.store.appended)

    async def settled(self) -> None:
        """Waits until dispatch is done and the timer took in what came."""
        timer = self.parts.timer
        await self.store.marks.dispatched.reached(self.store.appended)
        # Of a timer that has not begun nothing may go: the floor is at the log's begin.
        await until(lambda: timer.floor() > 0 and not timer.lag)

    async def filled(self, raws: Sequence[bytes], count: int, batch: int) -> None:
        """Sends so many messages and waits until all is quiet."""
        repeated = [raws[number % len(raws)] for number in range(count // batch)]
        await self.sent(repeated)
        await self.settled()
        await self.store.writing.durable()
        gc.collect()

    async def came(self, count: int) -> None:
        """Waits until the topic has so many messages."""
        await until(lambda: self.delivered() >= count)

    def delivered(self) -> int:
        """Returns how many messages the topic has."""
        reading = self.store.reading
        return sum(reading.queue_range(TOPIC, one)[1] for one in reading.queue_ids(TOPIC))


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so.

    Errors   SystemExit: for HANG_S it was not
    """
    end = perf_counter() + HANG_S
    while not is_so():
        if perf_counter() > end:
            raise SystemExit(f"nothing came for {HANG_S:g} s")
        await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def serving(directory: Path, clock: Clock, queue_count: int = 8) -> AsyncIterator[Broker]:
    """Runs a broker on a store for a block, from when its timer knows all that waits."""
    assignments = [ASYNC, "broker.check_message_types=false", f"store.directory={directory}"]
    begun = perf_counter()
    async with opened_broker(assignments, clock) as (store, parts, runner):
        opened = perf_counter()
        await parts.recover()
        recovered = perf_counter()
        send, phases = SendMessage(parts.backing.send), {"log": opened - begun}
        broker = Broker(store, parts, send, phases)
        if not store.appended:
            await store.tables.topics.create(TOPIC, queue_count=queue_count)
            first = pb.Message(topic="first", body=b"what is timed lies behind it")
            await broker.sent([pb.SendMessageRequest(messages=[first]).SerializeToString()])
        runner.run(*parts.steps)
        await broker.settled()
        phases.update(leases=recovered - opened, timer=perf_counter() - recovered)
        yield broker
