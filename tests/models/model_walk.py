"""A random walk through a store's interface, compared with a model.

    walk(seed, steps=50, counts)        raises AssertionError at the first answer that differs

Every call is awaited before the next, with sync flush. Its promise holds after a kill (written
bytes stay) and after a power cut (synced bytes stay).
"""

from collections import Counter
from random import Random
from typing import Final

from pocketmq.format.record import decode_record
from pocketmq.model.reading import Bound, KeyRange, ReadRange
from pocketmq.store.read.cold_read import value_of
from tests.kit.store_language import put_row
from tests.models.store_model import Queue, StoreModel
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import SeededStore, stop_short, tell_seeded

TOPICS: Final = ("orders", "bills", "mails")
GROUPS: Final = ("readers", "auditors")
KEYS: Final = ("", "k1", "k2")
STEPS: Final = (
    *("put",) * 12, *("pull",) * 8, *("query",) * 4, *("look",) * 2, *("commit",) * 4, "create",
    *("expire",) * 3, "remove", "flush", "restart", "kill", "cut",
)  # fmt: skip


class Walk(SeededStore):
    """One walk."""

    def __init__(self, loop: SeededLoop, seed: int, counts: Counter[str]) -> None:
        super().__init__(loop, seed, view_flush_interval_ms=5, view_flush_thorough_interval_ms=15)
        self.counts = counts
        self.model = StoreModel()
        self.number = 0

    async def run(self, steps: int) -> None:
        """Takes some steps, then compares everything."""
        await self._open(self.disk.image)
        for _ in range(steps):
            name = self.random.choice(STEPS)
            self.counts[name] += 1
            await getattr(self, f"_{name}")()
        await self.compare()
        await self.store.close()
        self.counts["walks"] += 1

    async def _open(self, image: Image) -> None:
        await self.open(SimDisk(image, seed=self.random.getrandbits(32)))

    async def _seen(self) -> None:
        """Waits until stored messages are readable."""
        while self.store.dispatched < self.store.appended:
            await self.loop.pause(0.005)

    def _queue(self) -> Queue:
        return self.random.choice(TOPICS), self.random.randrange(2)

    # -- steps ---------------------------------------------------------------------------------
    async def _put(self) -> None:
        queue, rows = self._queue(), []
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self.number += 1
            body = f"{self.number}.".ljust(self.random.choice((0, 40, 300, 900)), "x")
            rows.append((body, self.random.choice(KEYS), f"U{self.number}"))
        puts = [put_row(body, key=key, unique_key=unique) for body, key, unique in rows]
        result = await self.put(*queue, *puts)
        first = self.model.put(queue, rows, result.physical_offsets, result.store_timestamp_ms)
        assert result.queue_offset == first

    async def _pull(self) -> None:
        await self._seen()
        queue = self._queue()
        lower, upper = self.model.range_of(queue)
        begin = self.random.choice((0, lower, self.random.randint(0, upper), upper, upper + 3))
        count = self.random.choice((1, 2, 9))
        await self._compare_pull(queue, begin, count, is_cold=self.random.random() < 0.3)

    async def _compare_pull(self, queue: Queue, begin: int, count: int, *, is_cold: bool) -> None:
        told = self.model.pull(queue, begin, count)
        reading = self.store.reading
        pull = reading.pull_cold if is_cold else reading.pull
        result = await value_of(pull(ReadRange(*queue, begin, count, 1 << 20)))
        bodies = [decode_record(record).body.decode() for record in result.records]
        assert (result.status, result.next_begin_offset, bodies) == told, (queue, begin)

    async def _query(self) -> None:
        await self._seen()
        topic, key = self.random.choice(TOPICS), self.random.choice(("k1", "k2", "U1", "U7"))
        result = await self.store.reading.query(KeyRange(topic, key, 99))
        assert [m.body.decode() for m in result.messages] == self.model.by_key(topic, key)

    async def _look(self) -> None:
        await self._seen()
        if not self.model.log:
            return
        wanted = self.random.choice(self.model.log)
        reading = self.store.reading
        found = await value_of(reading.message_at(wanted.place))
        assert found is not None
        assert found.body.decode() == wanted.body
        found = await reading.message_by_unique_key(wanted.topic, wanted.unique_key)
        assert found is not None
        assert found.body.decode() == wanted.body
        queue = (wanted.topic, wanted.queue_id)
        if self.model.listing(queue):
            position = await value_of(
                reading.queue_offset_by_time(*queue, wanted.time_ms, Bound.LOWER)
            )
            assert position == self.model.by_time(queue, wanted.time_ms)

    async def _commit(self) -> None:
        queue = self._queue()
        key = (self.random.choice(GROUPS), *queue)
        # A start lowers offsets beyond the end to it.
        value = self.random.randint(0, self.model.range_of(queue)[1])
        await self.store.tables.offsets.commit(*key, value)
        self.model.commit(*key, value)

    async def _create(self) -> None:
        topic = self.random.choice(TOPICS)
        if topic not in self.model.topics and self.store.tables.topics.find(topic) is None:
            await self.store.tables.topics.create(topic, queue_count=2)
            self.model.topics.add(topic)

    async def _remove(self) -> None:
        topic = self.random.choice(TOPICS)
        await self.remove(topic)
        self.model.remove_topic(topic)

    async def _expire(self) -> None:
        await self.loop.pause(0.05)
        self.counts["expired files"] += await self.expire()
        self.model.expire(self.store.min_offset)

    async def _flush(self) -> None:
        await self.store.flush()
        assert self.store.flushed == self.store.appended

    async def _restart(self) -> None:
        await self.store.close()
        await self._open(self.disk.image)

    async def _kill(self) -> None:
        await self._end_with(self.disk.image.copy())

    async def _cut(self) -> None:
        await self._end_with(self.disk.image.cut(Random(self.random.getrandbits(32))))

    async def _end_with(self, image: Image) -> None:
        await stop_short()
        await self._open(image)
        await self.compare()

    # -- comparing -----------------------------------------------------------------------------
    async def compare(self) -> None:
        """Compares everything; raises AssertionError where it differs."""
        await self._seen()
        store, model = self.store, self.model
        for queue in ((topic, number) for topic in TOPICS for number in range(2)):
            assert store.reading.queue_range(*queue) == model.range_of(queue), queue
            await self._compare_pull(queue, model.range_of(queue)[0], 99, is_cold=True)
        for topic in TOPICS:
            for key in ("k1", "k2"):
                result = await store.reading.query(KeyRange(topic, key, 99))
                assert [m.body.decode() for m in result.messages] == model.by_key(topic, key)
        assert model.topics <= set(store.tables.topics.names())
        assert model.groups == set(store.tables.groups.names())
        for group in GROUPS:
            found = {
                (group, topic, queue_id): value
                for topic, row in store.tables.offsets.all_of(group).items()
                for queue_id, value in row.items()
            }
            expected = {k: v for k, v in model.offsets.items() if k[0] == group}
            assert found == expected, f"{found} {expected}"


def walk(seed: int, steps: int, counts: Counter[str]) -> None:
    """Takes one walk.

    Errors   AssertionError, or whatever escaped; the seed is part of its notes
    """

    repro = f"tests.models.model_walk.walk({seed}, {steps}, Counter())"
    tell_seeded(seed, lambda loop: Walk(loop, seed, counts).run(steps), repro)


def shortest(seed: int, steps: int) -> int:
    """Returns the least number of steps with which a failing walk fails."""
    for count in range(steps):
        try:
            walk(seed, count, Counter())
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            return count
    return steps
