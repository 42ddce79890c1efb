"""A store with consumers, and the actions on them, compared with a model.

    walk = ConsumeWalk(loop, seed)       two groups of a topic, one of a topic in order
    await walk.begin()
    await walk.receive(…)                raises AssertionError at the first answer that differs
    await walk.park(…)                   a parked receive; its result is compared later
    await walk.killed_during(call)       kill -9 while a call is under way

Calls are awaited one after the other, except parked receives and the call that a kill cuts off.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

from pocketmq.filter.tag import EVERYTHING, parse
from pocketmq.format.java_hash import tags_code
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings
from pocketmq.model.consuming import Received, ReceiveRequest, SettleStatus
from pocketmq.model.message import SHARDING_KEY, TAGS, UNIQUE_KEY
from pocketmq.model.step import Now
from pocketmq.model.topic import TYPE_ATTRIBUTE
from pocketmq.services.consume.clients import ALIVE_MS
from pocketmq.services.consume.consume import Consume
from pocketmq.services.consume.journal import ConsumeSettings
from pocketmq.services.delay.levels import Schedule
from pocketmq.store.job import Job
from tests.kit.rows import Row
from tests.kit.store_language import BORN_HOST, BORN_MS, STORE_HOST
from tests.models.consume_model import (
    LEASED,
    Asked,
    Delivery,
    GroupModel,
    Message,
    State,
)
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import SeededStore, stop_short

QUEUES: Final = 2
ATTEMPTS: Final = 3
GROUPS: Final = {"workers": "orders", "auditors": "orders", "readers": "steps"}
"""The topic of each group; `steps` is received in order."""
ORDERED_PART: Final = 0.4
"""Share of walks in which auditors also receive in order."""
AT_END_PART: Final = 0.3
"""Of walks, in which workers begin at the end of their topic."""
DELAYS_MS: Final = (1_000, 5_000, 10_000, 30_000)
HANDLES_KEPT: Final = 64
CALLS_TOLD: Final = 60
"""Number of last calls that a failed walk reports."""
QUIET_S: Final = 0.1
"""Time within which other tasks finish the work that a call caused."""
OK: Final = SettleStatus.OK


class Handle(NamedTuple):
    """A handle that a receive returned, with its delivery."""

    group: str
    text: str
    body: str
    delivery: int


class Parked(NamedTuple):
    """A parked receive."""

    group: str
    asked: Asked
    answer: "asyncio.Future[Received]"


Attempts = dict[tuple[str, str], list[Delivery]]
"""Deliveries of receives with an attempt id, by group and id."""


class ConsumeWalk(SeededStore):
    """One walk."""

    at_end_part: ClassVar[float] = AT_END_PART

    def __init__(self, loop: SeededLoop, seed: int, *, flush: str = "sync") -> None:
        sizes = {"commit_log_file_size_bytes": 1 << 15, "consume_queue_file_size_bytes": 2_000}
        super().__init__(loop, seed, flush=flush, **sizes)
        self.is_sync = flush == "sync"
        begins_so = self.random.random() < ORDERED_PART
        self.in_order = {"readers", "auditors"} if begins_so else {"readers"}
        """Groups that receive in order, those that begin so."""
        self.at_end = {"workers"} if self.random.random() < self.at_end_part else set()
        """Groups that begin at the end of their topic."""
        self.models = {
            group: GroupModel(
                attempts_max=ATTEMPTS,
                is_ordered=group in self.in_order,
                at_end=group in self.at_end,
            )
            for group in GROUPS
        }
        self.handles: list[Handle] = []
        self.parked: list[Parked] = []
        self.attempts: Attempts = {}
        self.sent: dict[tuple[str, int], list[tuple[str, int]]] = {}
        """(body, wall time before it was sent) of each message of a queue."""
        self.queues = dict.fromkeys(GROUPS.values(), QUEUES)
        """Number of queues of each topic."""
        self.floors: dict[tuple[str, int], int] = {}
        """Offset of a queue below which messages were purged, or deleted with their topic."""
        self.redriven: set[str] = set()
        """Topics that contain messages twice."""
        self.counts: Counter[str] = Counter()
        self.calls: deque[str] = deque(maxlen=CALLS_TOLD)
        self.number = 0
        self.deliveries = 0
        self.consume: Consume
        self.schedule: Schedule

    @property
    def now_ms(self) -> int:
        """The wall time."""
        return self.loop.clock.wall_ms()

    def note(self, what: str, *words: object) -> None:
        """Counts a call."""
        self.counts[what] += 1
        self.calls.append(f"{self.now_ms} {what} {' '.join(map(str, words))}")

    # -- lives ---------------------------------------------------------------------------------
    async def begin(self) -> None:
        """Opens an empty store, with topics and groups."""
        await self._open(self.disk.image)
        for topic in self.queues:
            await self.create(topic)
        for group in GROUPS:
            await self.create_group(group)

    async def create_group(self, group: str) -> None:
        """Creates a group as its model is."""
        begin = "max" if group in self.at_end else "min"
        fifo = self.models[group].is_ordered
        settings = GroupSettings(max_attempts=ATTEMPTS, fifo=fifo, begin=begin)
        await self.store.tables.groups.create(group, settings)

    async def create(self, topic: str) -> None:
        """Creates a topic; messages of `steps` are received in order."""
        attributes = {TYPE_ATTRIBUTE: "FIFO"} if topic == "steps" else {}
        await self.store.tables.topics.create(topic, queue_count=QUEUES, attributes=attributes)

    async def open_crashed(self, image: Image) -> None:
        """Opens the store that a crash left."""
        await stop_short()
        await self._open(image)
        self._restarted(is_crash=True)

    def _restarted(self, *, is_crash: bool) -> None:
        for key in [key for key in self.attempts if not self.models[key[0]].is_ordered]:
            del self.attempts[key]  # FIFO leases keep their attempt ids over a restart.
        for model in self.models.values():
            model.restarted(is_crash=is_crash, now_ms=self.now_ms)

    async def _open(self, image: Image) -> None:
        await self.open(SimDisk(image, seed=self.random.getrandbits(32)))
        self.consume = Consume(self.store, ConsumeSettings("C", "b", STORE_HOST))
        self.schedule = Schedule(self.store, STORE_HOST)
        await self.consume.recover()

    async def restart(self) -> None:
        """Stops cleanly, and opens again."""
        self.note("restarts")
        await self.close()
        await self._open(self.disk.image)
        self._restarted(is_crash=False)

    async def close(self) -> None:
        """Stops cleanly: parked receives are answered."""
        self.consume.drain()
        await self.served()
        assert not self.parked, "a stop answers those who wait"
        await self.consume.close()
        await self.schedule.close()
        await self.store.close()

    async def kill(self) -> None:
        """Ends the broker's process: written bytes stay."""
        self.note("kills")
        await self.leave()
        await self.open_crashed(self.disk.image.copy())

    async def cut(self) -> None:
        """Cuts the power: synced bytes stay."""
        self.note("power cuts")
        await self.leave()
        await self.open_crashed(self.disk.image.cut(Random(self.random.getrandbits(32))))

    async def killed_during(self, call: Awaitable[Any], turns: int) -> Any:
        """Kills the broker during a call; returns the call's answer, None without one."""
        assert not self.parked, "what they get would not be seen"
        task = asyncio.ensure_future(call)
        for _ in range(turns):
            await asyncio.sleep(0)
        answer = task.result() if task.done() else None
        await self.kill()
        return answer

    async def answered(self, call: Callable[[], Awaitable[Any]], turns: int | None) -> Any:
        """Awaits a call and kills the broker after `turns` of the loop; None: it had no answer."""
        if turns is None:
            return await call()
        await self.leave()
        return await self.killed_during(call(), turns)

    async def seen(self) -> None:
        """Waits until stored messages are readable, and parked receives have them."""
        while self.store.dispatched < self.store.appended:
            await self.loop.pause(0.005)
        await self.served()

    async def step_all(self) -> None:
        """Runs all due work."""
        for service in (self.consume.step, self.schedule.step, self.consume.step):
            for _ in range(200):
                now = Now(self.loop.clock.monotonic_ms(), self.now_ms)
                following = service(now)
                if isinstance(following.mark, Job):
                    await following.mark.reached()
                elif following.at_ms is None or following.at_ms > now.monotonic_ms:
                    break
            while self.store.dispatched < self.store.appended:
                await self.loop.pause(0.005)

    async def steps(self) -> None:
        """Runs all due work, and compares the result with the model."""
        await self.step_all()
        for model in self.models.values():
            model.steps_done(self.now_ms)
        await self.served()
        for group in {parked.group: None for parked in self.parked}:
            self.models[group].nothing_more(self.now_ms)

    def emptied(self, topic: str, floors: dict[int, int], *, is_whole: bool) -> None:
        """Tells the models that messages below offsets of queues were removed.

        is_whole   whether the retries of all messages of the topic are gone
        """
        for group, model in self.models.items():
            if GROUPS[group] == topic:
                model.emptied(floors, is_whole=is_whole)

    # -- producing -----------------------------------------------------------------------------
    async def send(self, topic: str, queue_id: int, *words: tuple[str, str]) -> None:
        """Stores messages, each with a (key, tag)."""
        self.note("sends", topic, queue_id, words)
        for key, tag in words:
            self.number += 1
            body = f"{topic}-{self.number}"
            properties = {UNIQUE_KEY: body, SHARDING_KEY: key, TAGS: tag}
            block = encode_properties(properties)
            row = Row(body.encode(), block, 0, BORN_MS, BORN_HOST, body, "", tag)
            before_ms = self.now_ms
            result = await self.put(topic, queue_id, row)
            queue = self.sent.setdefault((topic, queue_id), [])
            assert result.queue_offset == len(queue)
            queue.append((body, before_ms))
            message = Message(body, queue_id, result.queue_offset, key, tag)
            for group, model in self.models.items():
                if GROUPS[group] == topic:
                    model.sent(message)
        await self.seen()

    # -- consuming -----------------------------------------------------------------------------
    async def receive(
        self, group: str, count: int = 32, invisible_ms: int = 30_000, tag: str = "",
        turns: int | None = None, *, attempt: str = "", renews: bool = False,
    ) -> int:  # fmt: skip
        """Receives; `turns` of the loop later the broker is killed. Returns how many came.

        attempt   attempt id: a repeated receive gets the same messages again
        renews    whether its leases last while its client makes calls
        """
        self.note("receives", group, count, invisible_ms, tag, turns, attempt, renews)
        asked, model = Asked(count, tag, self.now_ms), self.models[group]
        request = self.request(group, asked, invisible_ms)._replace(attempt_id=attempt)
        if renews:
            request = request._replace(client_id="alive", auto_renew=True)
        received = await self.answered(partial(self.received, request), turns)
        model.begin(asked.at_ms, is_told=received is not None)
        if received is None:
            self.deliveries += 1
            until_ms = self.now_ms + invisible_ms
            model.received_unanswered(self.now_ms, until_ms, self.deliveries)
            await self.seen()
            return 0
        if renews and turns is None:
            model.alive_until_ms = self.now_ms + ALIVE_MS
        found = self.given(group, received, renews=renews)
        is_again = bool(attempt) and self._is_again(group, attempt, found)
        if turns is not None:  # No lease is renewed any more that was renewed at this look.
            asked = asked._replace(most=len(found))
        if not is_again:
            model.received(found, asked, self.now_ms)
        if turns is not None:
            self._restarted(is_crash=True)
        await self.seen()
        return len(found)

    def request(self, group: str, asked: Asked, invisible_ms: int) -> ReceiveRequest:
        """Returns the request of a receive that does not wait."""
        wanted = parse(asked.tag, tags_code) if asked.tag else EVERYTHING
        most = asked.most
        return ReceiveRequest(group, GROUPS[group], wanted, most, invisible_ms, 0, "client")

    def given(self, group: str, received: Received, *, renews: bool = False) -> list[Delivery]:
        """Returns the received messages, with numbers of their deliveries."""
        found: list[Delivery] = []
        for record, attempt, text in zip(
            received.records, received.attempts, received.handles, strict=True
        ):
            body = decode_record(record).body.decode()
            self.deliveries += 1
            until_ms = received.invisible_until_ms
            found.append((body, State(LEASED, attempt, until_ms, self.deliveries, renews)))
            self.handles.append(Handle(group, text, body, self.deliveries))
        del self.handles[:-HANDLES_KEPT]
        self.counts["received"] += len(found)
        self.calls.append(f"  {[(body, lease.number) for body, lease in found]}")
        return found

    def _is_again(self, group: str, attempt: str, found: list[Delivery]) -> bool:
        """Returns whether a repeated receive got its earlier messages."""
        given = self.attempts.get((group, attempt), [])
        left, same = [*given], []
        for one in found:  # A message may have been delivered twice, for the same attempt.
            told = (one[0], one[1].number)
            old = next((old for old in left if (old[0], old[1].number) == told), one)
            same.append(old)
            if old is not one:
                left.remove(old)
        if not self.models[group].repeated(same, given, self.now_ms):
            self.attempts[group, attempt] = found
            return False
        self.counts["given again"] += len(same)
        numbers = {new[1].delivery: old[1].delivery for new, old in zip(found, same, strict=True)}
        self.handles = [
            h._replace(delivery=numbers.get(h.delivery, h.delivery)) for h in self.handles
        ]
        return True

    async def received(self, request: ReceiveRequest) -> Received:
        """Returns the answer of a receive, at once or later."""
        found = self.consume.receive(request)
        return await found if isawaitable(found) else found

    # -- waiting -------------------------------------------------------------------------------
    async def park(self, group: str, count: int, invisible_ms: int, wait_ms: int) -> None:
        """Begins a receive, which parks without messages."""
        self.note("waits", group, count, invisible_ms, wait_ms)
        asked = Asked(count, "", self.now_ms)
        request = self.request(group, asked, invisible_ms)._replace(wait_ms=wait_ms)
        answer = asyncio.ensure_future(self.received(request))
        self.models[group].begin(self.now_ms)
        self.parked.append(Parked(group, asked, answer))
        await self.served()

    async def served(self) -> None:
        """Compares the answers of parked receives, in their order."""
        if self.parked:
            await self.loop.pause(QUIET_S)
        waiting, self.parked = self.parked, []
        for one in waiting:
            self.models[one.group].looked("", self.now_ms)
            if not one.answer.done():
                self.parked.append(one)
                continue
            received = one.answer.result()
            found = self.given(one.group, received)
            self.counts["waits served"] += bool(found)
            # Messages that arrived while it was served went to the next receive.
            asked = one.asked._replace(most=len(found))
            self.models[one.group].received(found, asked, self.now_ms)

    async def leave(self) -> None:
        """Cancels all parked receives, which must change no message."""
        await self.served()
        for one in self.parked:
            one.answer.cancel()
        self.parked.clear()
