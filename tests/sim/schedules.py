"""A store and its services under sixteen clients, in a seeded order, and a final check.

    tally = Tally()
    for seed in range(2_000):
        play(seed, tally)               raises AssertionError with the fault
    tally.cancelled                     cancelled awaits by (file, line)

Each client does a few operations. One in three is cancelled at its n-th suspension, at once or a
little later. The end must be as without cancellations: queues are dense, acknowledged messages
exist, cancelled ones exist as a whole or not at all, no task waits, nothing is held.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pocketmq.filter.tag import EVERYTHING
from pocketmq.format.addresses import UniqueKeyMaker
from pocketmq.format.record import decode_record
from pocketmq.model.errors import TransientPoolEmpty
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.services.produce.rules import SendRules
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC
from tests.kit.drafts import draft, drafts_of
from tests.kit.store_language import BORN_HOST, STORE_HOST
from tests.sim.disk import SimDisk
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import SeededStore, messages_of, tell_seeded

CLIENTS: Final = 16
TOPICS: Final = ("orders", "bills")
DOOMED: Final = "doomed"
"""A topic that is removed at times; no client sends to it meanwhile."""
QUEUES: Final = 2
GROUPS: Final = ("readers", "auditors")
OPERATIONS: Final = (
    *("put",) * 11, *("poll",) * 6, *("commit",) * 3, *("expire",) * 5, *("flush",) * 3,
    *("remove",) * 3,
)  # fmt: skip
REOPEN_EVERY: Final = 3
CANCEL_SHARE: Final = 0.4
CANCEL_SHARE_SELDOM: Final = 0.8
"""Share of cancelled operations among those that rarely wait."""
TIMERS_LEFT_MAX: Final = 3
"""Timers of an idle store: two loops of its own, and one observer."""

Place = tuple[str, int]
"""A line of a source file at which a coroutine waits."""


@dataclass
class Tally:
    """Counts of operations, over all seeds."""

    schedules: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    cancelled: Counter[Place] = field(default_factory=Counter)
    acknowledged: int = 0
    given_up: int = 0
    """Number of cancelled puts."""
    kept: int = 0
    """Number of cancelled puts that were stored."""

    def cancels_between(self, path: str, first: int, last: int) -> int:
        """Returns the number of cancellations of tasks that waited at these lines of a file."""
        rows = self.cancelled.items()
        return sum(n for (file, line), n in rows if file == path and first <= line <= last)


@dataclass
class Put:
    """One send: its request, its begin and end, and its result."""

    topic: str
    queue_id: int
    bodies: list[str]
    begun: int
    ended: int = -1
    queue_offset: int = -1
    place: int = -1


def places_of(coroutine: Any) -> list[Place]:
    """Returns the lines at which a coroutine, and those that it awaits, wait."""
    places: list[Place] = []
    while inspect.iscoroutine(coroutine):
        if coroutine.cr_frame is not None:
            code = coroutine.cr_frame.f_code
            places.append((code.co_filename, coroutine.cr_frame.f_lineno))
        coroutine = coroutine.cr_await
    return places


class Watched:
    """An awaitable coroutine whose task is cancelled at its n-th suspension, 0: never."""

    def __init__(
        self, inner: Coroutine[Any, Any, None], at: int, delay: float, tally: Tally
    ) -> None:
        self._inner = inner
        self._at = at
        self._delay = delay
        self._tally = tally

    def __await__(self) -> Generator[Any, None, None]:
        step: Callable[[], Any] = lambda: self._inner.send(None)  # noqa: E731
        count = 0
        while True:
            try:
                waits_for = step()
            except StopIteration:
                return
            count += 1
            if count == self._at:
                self._cancel_soon()
            try:
                yield waits_for
                step = lambda: self._inner.send(None)  # noqa: E731
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                thrown = error
                step = lambda: self._inner.throw(thrown)  # noqa: B023, E731

    def _cancel_soon(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not self._delay:
            self._cancel(task)
        else:
            asyncio.get_running_loop().call_later(self._delay, self._cancel, task)

    def _cancel(self, task: "asyncio.Task[Any]") -> None:
        if task.done():
            return
        task.cancel()
        self._tally.cancelled.update(places_of(self._inner))


class Play(SeededStore):
    """One schedule."""

    def __init__(self, loop: SeededLoop, seed: int, tally: Tally) -> None:
        way = Random(seed).random()
        settings: dict[str, Any] = {"flush": FLUSH_SYNC if way < 0.6 else FLUSH_ASYNC}
        if way > 0.7:
            settings |= {"transient_pool": True, "transient_pool_file_count": 3}
        super().__init__(
            loop,
            seed,
            flush_interval_ms=20,
            commit_interval_ms=5,
            view_flush_interval_ms=10,
            view_flush_thorough_interval_ms=30,
            **settings,
        )
        self.tally = tally
        self.puts: list[Put] = []
        self.offsets: dict[tuple[str, str, int], list[int]] = {}
        self.moment = 0
        self.sending = 0
        self.is_removing = False

    def _now(self) -> int:
        self.moment += 1
        return self.moment

    # -- what clients do -----------------------------------------------------------------------
    async def run(self) -> None:
        """Plays the schedule, and checks the result."""
        await self.open()
        self.pull = Pull(self.store)
        self.send = Send(
            self.store,
            SendRules(STORE_HOST, "DefaultCluster", default_queue_count=QUEUES),
            self.loop.clock,
            key_maker=UniqueKeyMaker(address=b"\n\0\0\1", process_id=1, random_bytes=b"abcd"),
            random=self.random,
        )
        clients = [asyncio.create_task(self._client()) for _ in range(CLIENTS)]
        for result in await asyncio.gather(*clients, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        await self._settle()
        self.look()
        if self.seed % REOPEN_EVERY == 0:
            await self._reopen()
        self.tally.schedules += 1

    async def _client(self) -> None:
        for _ in range(self.random.choice((1, 2, 2, 3))):
            await self._one()
            if self.random.random() < 0.4:
                await self.loop.pause(self.random.choice((0, 0.001, 0.006, 0.03)))

    async def _one(self) -> None:
        name = self.random.choice(OPERATIONS)
        at, delay = 0, 0.0
        is_seldom = name in ("expire", "flush", "remove")
        if self.random.random() < (CANCEL_SHARE_SELDOM if is_seldom else CANCEL_SHARE):
            at = self.random.choice((1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 8))
            delay = self.random.choice((0, 0, 0, self.random.random() * 0.01))
        operation: Coroutine[Any, Any, None] = getattr(self, f"_{name}")()
        self.tally.operations[name] += 1

        async def alone() -> None:
            await Watched(operation, at, delay, self.tally)

        with suppress(asyncio.CancelledError):
            await asyncio.create_task(alone())

    async def _put(self) -> None:
        topic = self.random.choice((*TOPICS, *TOPICS, DOOMED))
        if topic == DOOMED and self.is_removing:
            return
        queue_id = self.random.randrange(QUEUES)
        put = Put(topic, queue_id, [], self._now())
        for number in range(self.random.choice((1, 1, 1, 2, 3))):
            size = self.random.choice((0, 50, 300, 900))
            put.bodies.append(f"{len(self.puts)}.{number}.".ljust(size, "x"))
        self.puts.append(put)
        drafts = drafts_of(
            *(draft(topic, body.encode(), keys=("k",), queue_id=queue_id) for body in put.bodies),
            wait=self.random.random() < 0.8,
        )
        self.sending += topic == DOOMED
        try:
            sent = await self.send.send(drafts, BORN_HOST)
            put.queue_offset, put.place = sent.result.queue_offset, sent.result.physical_offsets[0]
        except TransientPoolEmpty:
            put.bodies = []
        finally:
            put.ended = self._now()
            self.sending -= topic == DOOMED

    async def _poll(self) -> None:
        topic = self.random.choice((*TOPICS, DOOMED))
        queue_id = self.random.randrange(QUEUES)
        lower, upper = self.store.reading.queue_range(topic, queue_id)
        begin = self.random.choice((0, lower, upper, upper, upper, upper + 1))
        wait_ms = self.random.choice((0, 5, 40, 200))
        is_cold = self.random.random() < 0.4
        begin = lower if is_cold else begin
        asked = PullRequest(ReadRange(topic, queue_id, begin, 4, 1 << 16), EVERYTHING, wait_ms)
        result = await self.pulled(self.pull, asked, is_cold=is_cold)
        self._check_result(topic, queue_id, result)

    def _check_result(self, topic: str, queue_id: int, result: PullResult) -> None:
        found = messages_of(result)
        numbers = [message.queue_offset for message in found]
        assert numbers == list(range(numbers[0], numbers[0] + len(found))) if found else True
        for message in found:
            assert (message.topic, message.queue_id) == (topic, queue_id)
            if self.settings.flush == FLUSH_SYNC:
                end = message.physical_offset + message.store_size
                assert end <= self.store.flushed, "read before it was durable"

    async def _commit(self) -> None:
        key = (self.random.choice(GROUPS), self.random.choice(TOPICS), self.random.randrange(2))
        value = self._now()
        self.offsets.setdefault(key, [-1]).append(value)
        await self.store.tables.offsets.commit(*key, value)
        # The acknowledged row exists, or one that another client wrote meanwhile.
        self.offsets[key] = [v for v in self.offsets[key] if v >= value or v not in (-1,)]

    async def _flush(self) -> None:
        end = self.store.appended
        await self.store.flush()
        assert self.store.flushed >= end

    async def _remove(self) -> None:
        if self.is_removing or self.sending:
            return
        self.is_removing = True
        try:
            await self.remove(DOOMED)
        finally:
            self.is_removing = False

    async def _expire(self) -> None:
        await self.expire()

    # -- what has to be true -------------------------------------------------------------------
    async def _settle(self) -> None:
        store = self.store
        await store.flush()
        while store.dispatched < store.appended:
            await self.loop.pause(0.005)
        await self.loop.pause(0.1)  # Jobs of cancelled callers end too.
        parts = (
            store.views.flush,
            store.writing.allocation,
            store.writing.commit,
            store.writing.durability,
        )
        while any(part._job is not None for part in parts):
            await self.loop.pause(0)

    def look(self) -> None:
        """Compares log and queues with the clients' results; raises AssertionError."""
        stored = self._stored()
        by_body: dict[str, StoredMessage] = {}
        next_offsets: dict[tuple[str, int], int] = {}
        for message in stored:
            key = (message.topic, message.queue_id)
            assert message.queue_offset == next_offsets.get(key, message.queue_offset), (
                f"{key} has {message.queue_offset} behind {next_offsets[key] - 1}"
            )
            next_offsets[key] = message.queue_offset + 1
            body = message.body.decode()
            assert body not in by_body, f"{body[:20]} is stored twice"
            by_body[body] = message
        for key, end in next_offsets.items():
            assert self.store.writing.writer.next_offsets[key] == end, f"{key}: a hole at {end}"
        self._look_at_puts(by_body)
        self._look_at_order(by_body)
        self._look_at_queues(stored)
        self._look_at_gauges()

    def _stored(self) -> list[StoredMessage]:
        log = self.store.log
        found = []
        for _, file, position, size in log.scan(log.min_offset, log.appended):
            found.append(decode_record(bytes(file.view[position : position + size])))
        return found

    def _look_at_puts(self, by_body: dict[str, StoredMessage]) -> None:
        lower = self.store.min_offset
        for put in self.puts:
            found = [by_body[body] for body in put.bodies if body in by_body]
            if put.place >= 0:
                self.tally.acknowledged += 1
            else:
                self.tally.given_up += 1
                self.tally.kept += bool(found)
                assert not found or len(found) == len(put.bodies), (
                    "a cancelled put lies there in part"
                )
            if put.place >= lower:
                assert len(found) == len(put.bodies), f"acknowledged, and not there: {put}"
            for number, message in enumerate(found):
                assert (message.topic, message.queue_id) == (put.topic, put.queue_id)
                if put.place >= 0:
                    assert message.queue_offset == put.queue_offset + number
                    assert message.physical_offset >= put.place

    def _look_at_order(self, by_body: dict[str, StoredMessage]) -> None:
        """Checks that a put which began after another one had ended has the later offset."""
        newest: dict[tuple[str, int], int] = {}
        moments = [(put.begun, 1, put) for put in self.puts]
        moments += [(put.ended, 0, put) for put in self.puts]
        begun_above: dict[int, int] = {}
        for _, is_begin, put in sorted(moments, key=lambda row: row[0]):
            key = (put.topic, put.queue_id)
            if is_begin:
                begun_above[id(put)] = newest.get(key, -1)
                continue
            found = [by_body[body].queue_offset for body in put.bodies if body in by_body]
            if found:
                assert found[0] > begun_above[id(put)], f"out of order: {put}"
                newest[key] = max(newest.get(key, -1), found[-1])

    def _look_at_queues(self, stored: list[StoredMessage]) -> None:
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                lower, upper = self.store.reading.queue_range(topic, queue_id)
                expected = [m.body for m in stored if (m.topic, m.queue_id) == (topic, queue_id)]
                assert len(expected) <= upper - lower, f"{topic} {queue_id}: lost by its queue"
                bodies: list[bytes] = []
                position = upper - len(expected)
                while position < upper:
                    result = self.store.views.queues.find(topic, queue_id)
                    assert result is not None
                    unit = result.units.at(position)
                    assert unit is not None
                    message = decode_record(self.store.log.read(unit[0], unit[1]))
                    assert message.queue_offset == position
                    bodies.append(message.body)
                    position += 1
                assert bodies == expected

    def _look_at_gauges(self) -> None:
        store, parts = self.store, self.store._structures
        assert not store.writing.writer.lock._lock.locked(), "the put-lock is held"
        assert self.pull.waiter_count == 0, f"{self.pull.waiter_count} polls are parked"
        for key, mark in store.views.arrivals._marks.items():
            waiting = [row for row in mark._heap if not row[2].done()]
            assert not waiting, f"{len(waiting)} waiters of {key} are leaked"
        waiting = [row for row in store.marks.flushed._heap if not row[2].done()]
        assert len(waiting) <= 1, "more than the dispatch loop waits for a flush"
        rows = [parts.log.files, *(queue.files for queue in parts.queues.queues.values())]
        holders = Counter({f: f._holders for row in rows for f in row.files if f._holders})
        holders.update({f._file: f._file._holders for f in parts.index.files if f._file._holders})
        expected = Counter(file for file in (parts.log._last, *parts.log._full) if file is not None)
        assert holders == expected, f"held: {[(f.path, n) for f, n in holders.items()]}"
        timers = [timer for timer in self.loop._scheduled if not timer.cancelled()]
        assert len(timers) <= TIMERS_LEFT_MAX, f"timers are leaked: {timers}"
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        assert len(tasks) <= 3, f"tasks are left: {tasks}"
        for (group, topic, queue_id), values in self.offsets.items():
            found = store.tables.offsets.find(group, topic, queue_id)
            assert (-1 if found is None else found) in values

    async def _reopen(self) -> None:
        """Restarts the store: its state is unchanged, a removed topic stays removed."""
        await self._remove()
        stored = self._stored()
        offsets = {key: self.store.tables.offsets.find(*key) for key in self.offsets}
        await self.store.close()
        await self.open(SimDisk(self.disk.image))
        assert not self.store._structures.was_aborted
        again = self._stored()
        assert [(m.physical_offset, m.body) for m in again] == [
            (m.physical_offset, m.body) for m in stored
        ]
        self._look_at_queues(stored)
        for (group, topic, queue_id), offset in offsets.items():
            # A start lowers offsets beyond their queue's end to it.
            end = self.store.queue_end(topic, queue_id)
            expected = None if offset is None else min(offset, end)
            assert self.store.tables.offsets.find(group, topic, queue_id) == expected
        for queue_id in range(QUEUES):
            assert self.store.reading.queue_range(DOOMED, queue_id) == (0, 0), (
                "a removed queue is back"
            )
        await self.store.close()


def play(seed: int, tally: Tally) -> None:
    """Plays one schedule.

    Errors   AssertionError, or whatever escaped; the seed is part of its notes
    """
    repro = f"tests.sim.schedules.play({seed}, Tally())"
    tell_seeded(seed, lambda loop: Play(loop, seed, tally).run(), repro)
