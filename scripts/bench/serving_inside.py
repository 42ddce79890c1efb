"""A broker in the measuring process: store, services and runner, as in the application.

There is no transport: a send lasts from request bytes to reply bytes.
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
"""Requests with different times; further requests repeat them."""
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
        """Accepts a reply of any size."""

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Ignores the callback: no reply is lost."""


PEER: Final = _Peer()


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[MessageStore, Send]]:
    """Opens a temporary store, and the send service."""
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
    """Returns messages with the same body and tag, one for each property block."""
    count = len(blocks)
    return Batch(
        bodies=[body] * count, property_blocks=[*blocks], unique_keys=[*unique_keys], keys=[*keys],
        tags=["TagA"] * count, born_ms=[1_790_000_000_000] * count, born_hosts=[HOST] * count,
        flags=[0] * count, reconsume_times=[0] * count,
    )  # fmt: skip


class Broker(NamedTuple):
    """A broker without transport, and the seconds of each phase of its start."""

    store: MessageStore
    parts: Parts
    send: SendMessage
    phases: dict[str, float]

    async def sent(self, raws: Sequence[bytes], turn: int = 1) -> None:
        """Sends requests; other tasks, such as dispatch, run after every `turn` requests."""
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
        """Waits until dispatch is complete and the timer has enqueued all messages."""
        timer = self.parts.timer
        await self.store.marks.dispatched.reached(self.store.appended)
        # Until the timer has begun, its floor is the log's begin.
        await until(lambda: timer.floor() > 0 and not timer.lag)

    async def filled(self, raws: Sequence[bytes], count: int, batch: int) -> None:
        """Sends `count` messages, and waits until dispatch and timer are idle."""
        repeated = [raws[number % len(raws)] for number in range(count // batch)]
        await self.sent(repeated)
        await self.settled()
        await self.store.writing.durable()
        gc.collect()

    async def came(self, count: int) -> None:
        """Waits until the topic has `count` messages."""
        await until(lambda: self.delivered() >= count)

    def delivered(self) -> int:
        """Returns the number of messages in the topic."""
        reading = self.store.reading
        return sum(reading.queue_range(TOPIC, one)[1] for one in reading.queue_ids(TOPIC))


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until a condition holds.

    Errors   SystemExit: it does not hold after HANG_S
    """
    end = perf_counter() + HANG_S
    while not is_so():
        if perf_counter() > end:
            raise SystemExit(f"nothing came for {HANG_S:g} s")
        await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def serving(directory: Path, clock: Clock, queue_count: int = 8) -> AsyncIterator[Broker]:
    """Runs a broker on a store; the block begins when the timer has loaded all pending messages."""
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
