"""Clients of a broker that does not live long: producers, and groups that receive and acknowledge.

    load = Consumers(history, deliveries, seed)
    asyncio.run(load.run(endpoint))        until the broker is gone
    asyncio.run(load.drain(endpoint))      everything that is open; then everything is judged

Two topics, two groups: one of them in order, by message groups. Consumers acknowledge in batches of
1 to 32, some of it never, some late, some in the next life of the broker, some by the handle of
before a change of time. A poisoned message is never acknowledged: it becomes a dead letter.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Final, NamedTuple

from pocketmq.client import (
    AsyncClient,
    ClientError,
    GroupSettings,
    Leased,
    Message,
    PullQuery,
    ReceiveQuery,
    Settled,
    SettleStatus,
    Unreachable,
)  # fmt: skip
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullStatus
from tests.faults.deliveries import CLOCK_MS, Deliveries, Held
from tests.faults.history import Code, History, Lane, Queue, body_of, code_of

GROUP, IN_ORDER = "workers", "workers-in-order"
EVENTS, ORDERS = "events", "orders"
TOPICS_OF: Final = {GROUP: (EVENTS, ORDERS), IN_ORDER: (ORDERS,)}
QUEUE_COUNT: Final = 4
CHAINS: Final = 6
"""Message groups of a lane in a queue."""
POISONED: Final = 199
"""One message in so many."""
BATCH_MAX: Final = 32
WAIT_MS: Final = 300
LATE_S: Final = 0.4
"""Until a handle that was kept is used, at most."""
LIFE_S_MAX: Final = 60.0
STUCK_MS: Final = 20_000.0
"""What does not come within this, and within five leases, comes never."""
LOOK_S: Final = 0.25
PAGE: Final = 256


class Lanes(NamedTuple):
    """Producers of a topic."""

    topic: str
    lane_count: int
    batch_max: int
    pause_s: float


class Post(NamedTuple):
    """One consumer: what it receives of."""

    group: str
    topic: str


PRODUCERS: Final = (Lanes(EVENTS, 2, BATCH_MAX, 0.06), Lanes(ORDERS, 2, 8, 0.08))
POSTS: Final = (*[Post(GROUP, EVENTS)] * 3, Post(GROUP, ORDERS), *[Post(IN_ORDER, ORDERS)] * 3)


def wall_ms() -> float:
    """Returns the time as the broker has it."""
    return time.time() * 1000


def is_poisoned(code: Code) -> bool:
    """Tells whether no consumer gets through a message."""
    return (code[1] * 7 + code[0]) % POISONED == POISONED - 1


class Consumers:
    """Everyone who talks to one store's broker, through all its lives.

    leases_ms   how long leases are asked for, one of them each time
    """

    def __init__(
        self, history: History, deliveries: Deliveries, seed: int, leases_ms: Sequence[int]
    ) -> None:
        assert min(leases_ms) >= 1_000, "the broker gives no shorter ones"
        self.history = history
        self.deliveries = deliveries
        self._chance = Random(seed)
        self._leases_ms = leases_ms
        self._lanes = [
            (history.lane(sends_again=False), lanes)
            for lanes in PRODUCERS
            for _ in range(lanes.lane_count)
        ]
        self._kept: list[list[Held]] = [[] for _ in POSTS]
        """What each consumer will acknowledge later, or in a later life."""
        self._chains: dict[Code, str] = {}
        """The message group of each message."""
        self._has_topics = False
        self._life = 0
        self._receives = 0
        self._is_draining = False
        self._delivered_ms = 0.0
        self._dead_read = dict.fromkeys(TOPICS_OF, 0)

    # -- lives -------------------------------------------------------------------------------------
    async def run(self, endpoint: str) -> None:
        """Sends, receive and settles until the broker is gone."""
        self._life += 1
        async with asyncio.timeout(LIFE_S_MAX), AsyncExitStack() as up:
            clients = [
                await up.enter_async_context(AsyncClient(endpoint, retry_ms=0)) for _ in range(3)
            ]
            try:
                await self._create(clients[0])
            except Unreachable:
                return
            work: list[Awaitable[None]] = [
                self._produce(clients[number % 3], lane, lanes)
                for number, (lane, lanes) in enumerate(self._lanes)
            ]
            work += [self._consume(clients[n % 3], n, post) for n, post in enumerate(POSTS)]
            await asyncio.gather(*work)

    async def _create(self, client: AsyncClient) -> None:
        """Makes topics and groups; what a life before made is left."""
        if self._has_topics:
            return
        for topic in (EVENTS, ORDERS):
            await self._made(client.admin.create_topic(topic, queue_count=QUEUE_COUNT))
        for group in TOPICS_OF:
            settings = GroupSettings(
                fifo=group == IN_ORDER, max_attempts=self.deliveries.attempts_max
            )
            await self._made(client.admin.create_group(group, settings))
        self._has_topics = True

    @staticmethod
    async def _made(call: Awaitable[object]) -> None:
        try:
            await call
        except ClientError as error:
            if error.reason not in ("TopicExists", "GroupExists"):
                raise

    # -- producing ---------------------------------------------------------------------------------
    async def _produce(self, client: AsyncClient, lane: Lane, lanes: Lanes) -> None:
        while True:
            seq, count = len(lane.states), self._chance.randint(1, lanes.batch_max)
            queue = (lanes.topic, self._chance.randrange(QUEUE_COUNT))
            self.history.invoke(lane, seq, count, queue)
            codes = [(lane.number, seq + index) for index in range(count)]
            chain = f"{lane.number}-{queue[1]}-{self._chance.randrange(CHAINS)}"
            self._chains.update(dict.fromkeys(codes, chain))
            padding = b"." * self._chance.randrange(200)
            try:
                receipts = await client.send_many(
                    [
                        Message(
                            queue[0], body_of(code, padding), queue_id=queue[1],
                            message_group=chain,
                        )
                        for code in codes
                    ]
                )  # fmt: skip
            except ClientError as error:
                self.history.info(lane, seq, count, error.reason)
                if isinstance(error, Unreachable):
                    return
            else:
                places = [receipt.physical_offset for receipt in receipts]
                self.history.ok(lane, seq, places, queue, receipts[0].queue_offset)
            await asyncio.sleep(self._chance.uniform(0, 2 * lanes.pause_s))

    # -- consuming ---------------------------------------------------------------------------------
    async def _consume(self, client: AsyncClient, number: int, post: Post) -> None:
        while True:
            try:
                held = await self._receive(client, number, post)
                await self._settle(client, number, held)
            except Unreachable:
                return
            except ClientError as error:
                name = f"consumer-{number}"
                self.history.event(name, "receive", "fail", err=f"{error.reason}: {error.message}")
                await asyncio.sleep(LOOK_S)

    async def _receive(self, client: AsyncClient, number: int, post: Post) -> list[Held]:
        count, lease_ms = self._chance.randint(1, BATCH_MAX), self._chance.choice(self._leases_ms)
        if self._is_draining:
            count, lease_ms = BATCH_MAX, min(self._leases_ms)
        asked_ms = wall_ms()
        leased = await client.receive(
            ReceiveQuery(*post, count, lease_ms, WAIT_MS, client_id=f"consumer-{number}")
        )
        answered_ms = wall_ms()
        self._receives += 1
        held = [self._held(post, one) for one in leased]
        for one in held:
            self.deliveries.delivered(one, self._receives, asked_ms, answered_ms)
        if held:
            self._delivered_ms = answered_ms
            told = [(*one.code, one.attempt) for one in held]
            self._note(number, "receive", post.group, messages=told, asked=asked_ms)
        return held

    def _held(self, post: Post, one: Leased) -> Held:
        code = code_of(one.message.body)
        until_ms = float(one.invisible_until_ms)
        return Held(post.group, code, one.receipt_handle, one.attempt, until_ms, self._life)

    async def _settle(self, client: AsyncClient, number: int, held: list[Held]) -> None:
        """Settles what was received, and some of what was kept, now or later or never."""
        kept = self._kept[number]
        later: list[Held] = []
        if self._is_draining:
            kept.clear()
            now = [one for one in held if not is_poisoned(one.code)]
        else:
            now, kept[:] = kept[:], []
            changes: list[Held] = []
            for one in (one for one in held if not is_poisoned(one.code)):
                chosen = self._chance.random()
                if chosen < 0.80:
                    now.append(one)
                elif chosen < 0.88:
                    changes.append(one)
                elif chosen < 0.94:
                    later.append(one)
            if changes:
                now += await self._change(client, number, changes)
        self._chance.shuffle(now)
        while now:
            count = self._chance.randint(1, BATCH_MAX)
            some, now = now[:count], now[count:]
            try:
                await self._ack(client, number, some)
            except ClientError:
                # Most is tried again in the next life: what took effect is refused then.
                kept += [one for one in (*some, *now, *later) if self._chance.random() < 0.7]
                raise
        kept += later
        if later:
            await asyncio.sleep(self._chance.uniform(0, LATE_S))

    async def _change(self, client: AsyncClient, number: int, held: list[Held]) -> list[Held]:
        """Changes the time of leases; returns what is to be acknowledged all the same."""
        times = [self._chance.choice((0, 500, *self._leases_ms)) for _ in held]
        before = [(one.handle, one.until_ms) for one in held]
        for one in held:
            self.deliveries.changing(one)
        asked_ms = wall_ms()
        entries = [(one.handle, ms) for one, ms in zip(held, times, strict=True)]
        answers = await client.change_invisible(held[0].group, self._topic(number), entries)
        answered_ms = wall_ms()
        self._note(number, "change", held[0].group, messages=[one.code for one in held])
        for one, ms, (_, until_ms), told in zip(held, times, before, answers, strict=True):
            self.deliveries.changed(
                one, told.handle, asked_ms + ms, is_ok=_is_ok(told),
                was_held=answered_ms + CLOCK_MS < until_ms,
            )  # fmt: skip
        for one, (handle, _) in zip(held, before, strict=True):
            if self._chance.random() < 0.5:
                one.handle = handle  # The old one is as good.
        return [one for one in held if self._chance.random() < 0.5]

    async def _ack(self, client: AsyncClient, number: int, held: list[Held]) -> None:
        group, asked_ms = held[0].group, wall_ms()
        told = [one.code for one in held]
        try:
            answers = await client.ack(group, self._topic(number), [one.handle for one in held])
        except ClientError as error:
            if error.is_uncertain:
                self._note(number, "ack", group, "info", messages=told, err=error.reason)
                for one in held:
                    self.deliveries.unanswered(one, asked_ms)
            raise
        answered_ms = wall_ms()
        self._note(number, "ack", group, messages=told, ok=[_is_ok(one) for one in answers])
        for one, answer in zip(held, answers, strict=True):
            self.deliveries.acked(one, asked_ms, answered_ms, is_ok=_is_ok(answer), life=self._life)

    def _topic(self, number: int) -> str:
        return POSTS[number].topic

    def _note(self, number: int, op: str, group: str, kind: str = "ok", **fields: object) -> None:
        name = f"consumer-{number}"
        self.history.event(name, op, kind, group=group, at=wall_ms(), life=self._life, **fields)

    # -- the end -----------------------------------------------------------------------------------
    async def drain(self, endpoint: str, is_behind: Callable[[], bool]) -> None:
        """Consumes until nothing is open, or nothing comes any more; then compare everything.

        is_behind   tells whether the broker says that a group has not consumed everything
        """
        self._is_draining = True
        self._life += 1
        async with AsyncClient(endpoint, timeout_ms=60_000, retry_ms=0) as client:
            await self._create(client)
            codes = await self._read_log(client)
            consumers = [
                asyncio.create_task(self._consume(client, n, post)) for n, post in enumerate(POSTS)
            ]
            self._delivered_ms = wall_ms()
            await self._until_over(client, codes, is_behind)
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
        for group, topics in TOPICS_OF.items():
            for queue in (queue for queue in codes if queue[0] in topics):
                chains = [self._chains.get(code, "") for code in codes[queue]]
                self.deliveries.judge(group, queue, codes[queue], chains)

    async def _until_over(
        self, client: AsyncClient, codes: dict[Queue, list[Code]], is_behind: Callable[[], bool]
    ) -> None:
        while not await self._is_over(client, codes, is_behind):  # noqa: ASYNC110 – others' time
            await asyncio.sleep(LOOK_S)

    async def _is_over(
        self, client: AsyncClient, codes: dict[Queue, list[Code]], is_behind: Callable[[], bool]
    ) -> bool:
        """Tells whether nothing is open and no lease is left that might bring something again."""
        for group in TOPICS_OF:
            for letter in await self._dead_letters(client, group):
                stored_ms = float(letter.store_timestamp_ms)
                self.deliveries.dead(group, code_of(letter.body), stored_ms)
        silent_ms, lease_ms = wall_ms() - self._delivered_ms, max(self._leases_ms)
        if silent_ms > max(STUCK_MS, 5.0 * lease_ms):
            return True
        if silent_ms < lease_ms + 1_000:
            return False
        is_open = any(
            self.deliveries.open_ones(group, own)
            for group, topics in TOPICS_OF.items()
            for queue, own in codes.items()
            if queue[0] in topics
        )
        return not is_open and not await asyncio.to_thread(is_behind)

    async def _read_log(self, client: AsyncClient) -> dict[Queue, list[Code]]:
        """Returns all messages of all queues; the history compares them with what was sent."""
        codes: dict[Queue, list[Code]] = {}
        for queue in [(topic, n) for topic in (EVENTS, ORDERS) for n in range(QUEUE_COUNT)]:
            codes[queue] = [code_of(one.body) for one in await self._pulled(client, *queue, 0)]
            self.history.found(queue, 0, codes[queue])
        return codes

    async def _dead_letters(self, client: AsyncClient, group: str) -> list[StoredMessage]:
        """Returns those that were not read yet."""
        try:
            found = await self._pulled(client, f"%DLQ%{group}", 0, self._dead_read[group])
        except ClientError as error:
            if error.reason != "TopicNotFound":
                raise
            return []
        self._dead_read[group] += len(found)
        return found

    @staticmethod
    async def _pulled(
        client: AsyncClient, topic: str, queue_id: int, begin: int
    ) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while True:
            query = PullQuery(topic, queue_id, begin + len(found), max_messages=PAGE)
            page = await client.admin.pull(query)
            if page.status is not PullStatus.FOUND:
                return found
            found += page.messages


def _is_ok(settled: Settled) -> bool:
    return settled.status is SettleStatus.OK
