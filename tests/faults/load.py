"""Clients of a broker that does not live long: producers, consumers, and a look at what is there.

    load = Load(history, seed)
    asyncio.run(load.look(endpoint))                       after each start, before anything is sent
    asyncio.run(load.run(endpoint, wanted, end))           until the broker is gone

`end` is called once as many messages as wanted are acknowledged. Eight lanes send batches, each one
after the other; every second one sends again, in the next life, batches of unknown outcome.
Consumers read every queue and commit where they stand.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Final

from pocketmq.client import AsyncClient, ClientError, Message, PullQuery, Shape, Unreachable
from pocketmq.format.record import split_record
from pocketmq.model.batch import PutStatus
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus
from tests.faults.history import Code, History, Illegible, Lane, Loss, Queue, body_of, code_of

TOPICS: Final = ("orders", "events")
QUEUE_COUNT: Final = 4
LANES: Final = 8
GROUP: Final = "readers"
BATCH_SIZES: Final = (1, 2, 32, 64, 100)
PADDING_MAX: Final = 120
PADDING_LONG: Final = 3_000
"""One message in fifty is as long as that."""
REFUSALS: Final = frozenset(
    {
        "Draining",
        "Recovering",
        "NotAccepting",
        "StoreBusy",
        "DiskFull",
        "DiskAboveLimit",
        "DiskNearlyFull",
    }
    | {"TooManyRequests", "TransientPoolEmpty", "BrokerReadOnly"}
)
"""Errors that promise that nothing was stored."""
PAUSE_S: Final = 0.01
LIFE_S_MAX: Final = 90.0
"""A broker that has not ended by then hangs."""
WAIT_MS: Final = 500
PAGE: Final = 1024


class Load:
    """Everyone who talks to one store's broker, through all its lives."""

    def __init__(self, history: History, seed: int) -> None:
        self.history = history
        self._chance = Random(seed)
        self._lanes = [history.lane(sends_again=bool(n % 2)) for n in range(LANES)]
        self._again: dict[int, tuple[int, int, Queue]] = {}
        self._padding = self._chance.randbytes(64 * 1024)
        self._has_topics = False
        self._here = 0
        self._positions: dict[Queue, int] = {}

    @property
    def queues(self) -> list[Queue]:
        """Every queue there is."""
        return [(topic, number) for topic in TOPICS for number in range(QUEUE_COUNT)]

    # -- looking -----------------------------------------------------------------------------------
    async def look(self, endpoint: str, *, whole: bool = False, loss_since: float = -1.0) -> None:
        """Compares what the store holds: what is new, or all of it.

        loss_since   what was acknowledged after that may be gone, with everything behind it
        Errors       Violation
        """
        async with AsyncClient(endpoint, timeout_ms=60_000, retry_ms=0) as client:
            if not self._has_topics:
                await self._create_topics(client)
            loss = None
            if loss_since >= 0:
                loss = Loss((await client.admin.store_status()).appended_offset, loss_since)
            for queue in self.queues:
                state = await client.query_offsets(*queue)
                known = self.history.log.get(queue, [])
                begin = 0 if whole else min(len(known), state.max_offset)
                codes = await self._codes(client, queue, begin, state.max_offset)
                self.history.found(queue, begin, codes, loss=loss)
                at = await client.fetch_offset(GROUP, *queue)
                self.history.fetched(GROUP, queue, at, state.max_offset)
                self._positions[queue] = at or 0
        self.history.settle()

    async def _create_topics(self, client: AsyncClient) -> None:
        for topic in TOPICS:
            try:
                await client.admin.create_topic(topic, queue_count=QUEUE_COUNT)
            except ClientError as error:
                if error.reason != "TopicExists":
                    raise
        self._has_topics = True

    async def _codes(self, client: AsyncClient, queue: Queue, begin: int, end: int) -> list[Code]:
        """Returns the messages of a queue in a range, taken from the records themselves."""
        codes: list[Code] = []
        while begin + len(codes) < end:
            position = begin + len(codes)
            query = PullQuery(*queue, position, max_messages=PAGE, shape=Shape.RECORDS)
            page = await client.pull(query)
            if page.status is not PullStatus.FOUND:
                self.history.jumped("checker", queue, f"{page.status} at {position} of {end}")
                break
            codes += self._codes_of(queue, position, page.records)
        return codes

    def _codes_of(self, queue: Queue, queue_offset: int, records: bytes) -> list[Code]:
        codes: list[Code] = []
        position = 0
        while position < len(records):
            head, body, topic, *_ = split_record(records, position)
            if (head[3], head[5]) != (queue[1], queue_offset + len(codes)):
                text = f"a record says queue {head[3]}, offset {head[5]}"
                self.history.jumped("checker", queue, f"at {queue_offset + len(codes)} {text}")
            try:
                codes.append(code_of(records[body : topic - 1]))
            except Illegible:
                self.history.jumped("checker", queue, f"{queue_offset + len(codes)} is illegible")
                codes.append((-1, -1))
            position += head[0]
        return codes

    # -- working -----------------------------------------------------------------------------------
    async def run(self, endpoint: str, wanted: int, end: Callable[[], None]) -> int:
        """Sends and reads until the broker is gone; returns how much was acknowledged."""
        self._here = 0
        is_ending = False

        def acknowledged(count: int) -> None:
            nonlocal is_ending
            self._here += count
            if self._here >= wanted and not is_ending:
                is_ending = True
                end()

        async with asyncio.timeout(LIFE_S_MAX), AsyncExitStack() as up:
            clients = [
                await up.enter_async_context(AsyncClient(endpoint, retry_ms=0)) for _ in range(4)
            ]
            work: list[Awaitable[None]] = [
                self._produce(clients[lane.number % 4], lane, acknowledged) for lane in self._lanes
            ]
            work += [
                self._consume(clients[index % 4], queue) for index, queue in enumerate(self.queues)
            ]
            await asyncio.gather(*work)
        return self._here

    async def _produce(
        self, client: AsyncClient, lane: Lane, acknowledged: Callable[[int], None]
    ) -> None:
        while True:
            batch = self._again.pop(lane.number, None) or self._next_batch(lane)
            seq, count, queue = batch
            self.history.invoke(lane, seq, count, queue)
            try:
                receipts = await client.send_many(self._messages(lane, *batch))
            except ClientError as error:
                self._missed(lane, batch, error)
                if isinstance(error, Unreachable):
                    return
                await asyncio.sleep(PAUSE_S)
                continue
            first = receipts[0]
            if any(receipt.status is not PutStatus.OK for receipt in receipts):
                self.history.info(lane, seq, count, str(first.status))
                continue
            places = [receipt.physical_offset for receipt in receipts]
            self.history.ok(lane, seq, places, queue, first.queue_offset)
            acknowledged(count)

    def _missed(self, lane: Lane, batch: tuple[int, int, Queue], error: ClientError) -> None:
        seq, count, _ = batch
        why = f"{error.reason}: {error.message}"
        if error.reason in REFUSALS:
            self.history.fail(lane, seq, count, why)
            return
        self.history.info(lane, seq, count, why)
        if lane.sends_again:
            self._again[lane.number] = batch

    def _next_batch(self, lane: Lane) -> tuple[int, int, Queue]:
        return len(lane.states), self._chance.choice(BATCH_SIZES), self._chance.choice(self.queues)

    def _messages(self, lane: Lane, seq: int, count: int, queue: Queue) -> list[Message]:
        return [
            Message(
                queue[0], body_of((lane.number, seq + index), self._padded()), queue_id=queue[1],
                keys=[f"k{seq % 7}"], tag="a" if index % 2 else None,
            )
            for index in range(count)
        ]  # fmt: skip

    def _padded(self) -> bytes:
        size = self._chance.randrange(PADDING_MAX)
        if not self._chance.randrange(50):
            size = PADDING_LONG
        begin = self._chance.randrange(len(self._padding) - size)
        return self._padding[begin : begin + size]

    async def _consume(self, client: AsyncClient, queue: Queue) -> None:
        """Reads a queue from where the group stands, page by page."""
        position = self._positions[queue]
        commit: int | None = None
        while True:
            query = PullQuery(
                *queue, position, group=GROUP, max_messages=256, wait_ms=WAIT_MS,
                commit_offset=commit,
            )  # fmt: skip
            try:
                if commit is not None:
                    self.history.committing(GROUP, queue, commit)
                page = await client.pull(query)
                if commit is not None:
                    self.history.committed(GROUP, queue, commit)
                    commit = None
                position = self._read(queue, position, page.messages, page.next_begin_offset)
                if page.messages and not self._chance.randrange(3):
                    commit = await self._commit(client, queue, position)
            except Unreachable:
                return
            except ClientError:
                await asyncio.sleep(PAUSE_S)

    def _read(
        self, queue: Queue, position: int, messages: list[StoredMessage], following: int
    ) -> int:
        for index, message in enumerate(messages):
            if message.queue_offset != position + index:
                text = f"{message.queue_offset} came at {position + index}"
                self.history.jumped(GROUP, queue, text)
            self.history.read(GROUP, queue, message.queue_offset, message.body)
        if messages and following != position + len(messages):
            self.history.jumped(GROUP, queue, f"{following} follows {position + len(messages)}")
        return following

    async def _commit(self, client: AsyncClient, queue: Queue, position: int) -> int | None:
        """Commits now, or returns what the next pull is to commit."""
        if self._chance.randrange(2):
            return position
        self.history.committing(GROUP, queue, position)
        await client.commit_offset(GROUP, *queue, position)
        self.history.committed(GROUP, queue, position)
        return None
