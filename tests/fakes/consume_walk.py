"""A store, everything that consumes, and what is done to them, beside a model of it.

    walk = ConsumeWalk(loop, seed)       two groups of a topic, one of a topic in order
    await walk.open()
    await walk.receive(…)                raises AssertionError at the first answer that differs
    await walk.killed_during(call)       kill -9 while a call is under way
    await walk.end()                     everything comes, is settled, or lies among dead letters

Calls are awaited one after the other, but for the one that a kill cuts off.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from random import Random
from typing import Any, Final, NamedTuple

from broker.filter.tag import EVERYTHING, parse
from broker.format.content import encode_properties
from broker.format.java_hash import tags_code
from broker.format.record import decode_record
from broker.model.administration import GroupSettings
from broker.model.consuming import Received, ReceiveRequest, Settled, SettleStatus
from broker.model.message import SHARDING_KEY, TAGS, UNIQUE_KEY
from broker.model.reading import ReadRange
from broker.model.step import Now
from broker.model.topic import TYPE_ATTRIBUTE, dead_letter_topic
from broker.services.consume.consume import Consume
from broker.services.consume.journal import ConsumeSettings
from broker.services.schedule.schedule import Schedule
from broker.store.job import Job
from broker.store.reading.patience import value_of
from tests.fakes.consume_model import BURIED, DONE, Asked, GroupModel, Message, State
from tests.fakes.disk import SimDisk
from tests.fakes.disk_image import Image
from tests.fakes.loop import SeededLoop
from tests.fakes.rows import Row
from tests.fakes.seeded_store import SeededStore, stop_short
from tests.fakes.store_language import BORN_HOST, BORN_MS, STORE_HOST

QUEUES: Final = 2
ATTEMPTS: Final = 3
GROUPS: Final = {"workers": "orders", "auditors": "orders", "readers": "steps"}
"""The topic of each group; `steps` is received in order."""
DELAYS_MS: Final = (1_000, 5_000, 10_000, 30_000)
HANDLES_KEPT: Final = 64
END_ROUNDS: Final = 40
OK: Final = SettleStatus.OK


class Handle(NamedTuple):
    """A handle that was given out, by its delivery."""

    group: str
    text: str
    body: str
    number: int


class ConsumeWalk(SeededStore):
    """One walk."""

    def __init__(self, loop: SeededLoop, seed: int, *, flush: str = "sync") -> None:
        sizes = {"commit_log_file_size_bytes": 1 << 15, "consume_queue_file_size_bytes": 2_000}
        super().__init__(loop, seed, flush=flush, **sizes)
        self.is_sync = flush == "sync"
        self.models = {
            group: GroupModel(topic, attempts_max=ATTEMPTS, is_ordered=topic == "steps")
            for group, topic in GROUPS.items()
        }
        self.handles: list[Handle] = []
        self.ends: Counter[tuple[str, int]] = Counter()
        self.counts: Counter[str] = Counter()
        self.number = 0
        self.consume: Consume
        self.schedule: Schedule

    @property
    def now_ms(self) -> int:
        """Wall time."""
        return self.loop.clock.wall_ms()

    # -- lives ---------------------------------------------------------------------------------
    async def begin(self) -> None:
        """Open an empty store, with topics and groups."""
        await self._open(self.disk.image)
        tables = self.store.tables
        await tables.topics.create("orders", queue_count=QUEUES)
        await tables.topics.create("steps", queue_count=QUEUES, attributes={TYPE_ATTRIBUTE: "FIFO"})
        for group in GROUPS:
            await tables.groups.create(group, GroupSettings(max_attempts=ATTEMPTS))

    async def _crashed(self, image: Image) -> None:
        await stop_short()
        await self._open(image)
        for model in self.models.values():
            model.crashed()

    async def _open(self, image: Image) -> None:
        await self.open(SimDisk(image, seed=self.random.getrandbits(32)))
        self.consume = Consume(self.store, ConsumeSettings("C", "b", STORE_HOST))
        self.schedule = Schedule(self.store, STORE_HOST)
        await self.consume.recover()

    async def restart(self) -> None:
        """Stop in order, and open again."""
        self.counts["restarts"] += 1
        await self._close()
        await self._open(self.disk.image)

    async def _close(self) -> None:
        self.consume.drain()
        await self.consume.close()
        await self.schedule.close()
        await self.store.close()

    async def kill(self) -> None:
        """What programs wrote stays."""
        self.counts["kills"] += 1
        await self._crashed(self.disk.image.copy())

    async def cut(self) -> None:
        """What was synced stays."""
        self.counts["power cuts"] += 1
        await self._crashed(self.disk.image.cut(Random(self.random.getrandbits(32))))

    async def killed_during(self, call: Awaitable[Any], turns: int) -> Any:
        """Kill while a call is under way; returns what it was answered, None if nothing."""
        task = asyncio.ensure_future(call)
        for _ in range(turns):
            await asyncio.sleep(0)
        answer = task.result() if task.done() else None
        await self.kill()
        return answer

    async def seen(self) -> None:
        """Return when what is stored can be read."""
        while self.store.dispatched < self.store.appended:
            await self.loop.pause(0.005)

    async def steps(self) -> None:
        """Let everything happen that is due by itself."""
        for service in (self.consume.step, self.schedule.step, self.consume.step):
            for _ in range(200):
                now = Now(self.loop.clock.monotonic_ms(), self.now_ms)
                following = service(now)
                if isinstance(following.mark, Job):
                    await following.mark.reached()
                elif following.at_ms is None or following.at_ms > now.monotonic_ms:
                    break
            await self.seen()
        for model in self.models.values():
            model.steps_done(self.now_ms)

    # -- producing -----------------------------------------------------------------------------
    async def send(self, topic: str, queue_id: int, *words: tuple[str, str]) -> None:
        """Store messages, each with a (key, tag)."""
        for key, tag in words:
            self.number += 1
            body = f"{topic}-{self.number}"
            properties = {UNIQUE_KEY: body, SHARDING_KEY: key, TAGS: tag}
            block = encode_properties(properties)
            row = Row(body.encode(), block, 0, BORN_MS, BORN_HOST, body, "", tag)
            result = await self.put(topic, queue_id, row)
            assert result.queue_offset == self.ends[topic, queue_id]
            self.ends[topic, queue_id] += 1
            message = Message(body, topic, queue_id, result.queue_offset, key, tag)
            for model in self.models.values():
                if model.topic == topic:
                    model.sent(message)
        await self.seen()

    # -- consuming -----------------------------------------------------------------------------
    def _request(self, group: str, count: int, invisible_ms: int, tag: str) -> ReceiveRequest:
        wanted = parse(tag, tags_code) if tag else EVERYTHING
        return ReceiveRequest(group, GROUPS[group], wanted, count, invisible_ms, 0, "client")

    async def receive(
        self, group: str, count: int = 32, invisible_ms: int = 30_000, tag: str = "",
        turns: int | None = None,
    ) -> int:  # fmt: skip
        """Receive; `turns` of the loop later the broker is killed. Returns how many came."""
        asked = Asked(count, tag, self.now_ms)
        model = self.models[group]
        call = self._received(self._request(group, count, invisible_ms, tag))
        received = await (call if turns is None else self.killed_during(call, turns))
        if received is None:
            model.received_unanswered(self.now_ms, self.now_ms + invisible_ms)
            await self.seen()
            return 0
        found = []
        for record, attempt, text in zip(
            received.records, received.attempts, received.handles, strict=True
        ):
            body = decode_record(record).body.decode()
            found.append((body, attempt))
            self.handles.append(Handle(group, text, body, attempt))
        del self.handles[:-HANDLES_KEPT]
        self.counts["received"] += len(found)
        model.received(found, asked, self.now_ms, received.invisible_until_ms)
        if turns is not None:
            model.crashed()
        await self.seen()
        return len(found)

    async def _received(self, request: ReceiveRequest) -> Received:
        found = self.consume.receive(request)
        return await found if isawaitable(found) else found

    async def settle(
        self, call: Callable[[], Awaitable[list[Settled]]], handles: list[Handle],
        change: Callable[[State], State], turns: int | None = None,
    ) -> None:  # fmt: skip
        """Use handles of one group; `change` is what becomes of their messages."""
        settled = await (call() if turns is None else self.killed_during(call(), turns))
        answers = [None] * len(handles) if settled is None else [s.status is OK for s in settled]
        for handle, answer in zip(handles, answers, strict=True):
            model = self.models[handle.group]
            model.applied(handle.body, handle.number, answer, change)
            self.counts["settled" if answer else "refused" if answer is False else "cut off"] += 1
            if answer is None:
                model.may_die_twice.add(handle.body)
        await self.seen()

    def _texts(self, handles: list[Handle]) -> list[str]:
        return [handle.text for handle in handles]

    async def ack(self, group: str, handles: list[Handle], turns: int | None = None) -> None:
        """Acknowledge messages."""
        call = partial(self.consume.ack, group, GROUPS[group], self._texts(handles))
        await self.settle(call, handles, lambda _: DONE, turns)

    async def change(
        self, group: str, handles: list[Handle], invisible_ms: int, turns: int | None = None
    ) -> None:
        """Hide messages for another time."""
        entries = [(text, invisible_ms) for text in self._texts(handles)]
        call = partial(self.consume.change_invisible, group, GROUPS[group], entries)
        until_ms = self.now_ms + invisible_ms
        await self.settle(call, handles, lambda s: s._replace(at_ms=until_ms), turns)

    async def back(
        self, group: str, handles: list[Handle], level: int, turns: int | None = None
    ) -> None:
        """Send messages back."""
        entries = [(text, level) for text in self._texts(handles)]
        call = partial(self.consume.send_back, group, GROUPS[group], entries)
        at_ms, model = self.now_ms + DELAYS_MS[level - 1], self.models[group]
        await self.settle(call, handles, lambda s: model.sent_back(s, at_ms), turns)

    async def give_up(self, group: str, handles: list[Handle], turns: int | None = None) -> None:
        """Make messages dead letters."""
        call = partial(
            self.consume.forward_to_dead_letters, group, GROUPS[group], self._texts(handles)
        )
        await self.settle(call, handles, lambda _: BURIED, turns)

    # -- comparing -----------------------------------------------------------------------------
    async def bodies_of(self, topic: str, queue_id: int) -> list[str]:
        """Return the bodies of a queue."""
        found: list[str] = []
        end = self.store.reading.queue_range(topic, queue_id)[1]
        while len(found) < end:
            asked = ReadRange(topic, queue_id, len(found), 99, 1 << 20)
            result = await value_of(self.store.reading.pull(asked))
            found += [decode_record(record).body.decode() for record in result.records]
        return found

    async def check_topics(self) -> None:
        """Compare what was sent with what is pulled."""
        for topic, queue_id in self.ends:
            model = next(m for m in self.models.values() if m.topic == topic)
            sent = [m.body for m in model.messages.values() if m.queue_id == queue_id]
            assert await self.bodies_of(topic, queue_id) == sent

    async def end(self) -> None:
        """Settle everything that comes until nothing does, then compare what is left."""
        self.handles.clear()
        for _ in range(END_ROUNDS):
            for group in GROUPS:
                while await self.receive(group):
                    mine = [handle for handle in self.handles if handle.group == group]
                    await self.ack(group, mine)
                    self.handles.clear()
            if not any(model.unsettled() for model in self.models.values()):
                break
            self.loop.clock.advance(61_000)
            await self.steps()
        await self.check_topics()
        for group, model in self.models.items():
            dead = await self.bodies_of(dead_letter_topic(group), 0)
            self.counts["dead letters"] += len(dead)
            model.check_end(dead)
        self.counts["sent"] += self.number
        await self._close()
