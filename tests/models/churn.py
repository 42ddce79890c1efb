"""Readers of topics that are deleted, expire or lose their open files.

    tally = ChurnTally()
    churn(seed, tally, deletes=20)      raises the first unexpected error

Sixteen readers and writers run meanwhile. Very few files may be open, and half of the pulled
messages are read off the loop. Readers get messages in order, or one of the known statuses.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.services.pull import Pull, PullRequest
from tests.kit.store_language import put_row
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import SeededStore, messages_of, tell_seeded

TOPICS: Final = ("orders", "bills", "mails")
OPEN_MAX: Final = 2
READERS: Final = 8
WRITERS: Final = 4
KEPT_FILES: Final = 3


@dataclass
class ChurnTally:
    """Counts of operations, over all seeds."""

    deletes: int = 0
    expired_files: int = 0
    messages: int = 0
    statuses: Counter[str] = field(default_factory=Counter)


class Churn(SeededStore):
    """One run."""

    def __init__(self, loop: SeededLoop, seed: int, tally: ChurnTally, deletes: int) -> None:
        super().__init__(
            loop,
            seed,
            open_queue_files_max=OPEN_MAX,
            view_flush_interval_ms=5,
            view_flush_thorough_interval_ms=10,
            consume_queue_file_size_bytes=60,
        )
        self.tally = tally
        self.deletes = deletes
        self.is_over = False
        self.removing = ""
        self.sending: Counter[str] = Counter()
        self.number = 0

    async def run(self) -> None:
        """Deletes a number of topics while files expire."""
        await self.open()
        self.pull = Pull(self.store)
        self.store._structures.log_files.count_max = OPEN_MAX
        others = [asyncio.create_task(self._read()) for _ in range(READERS)]
        others += [asyncio.create_task(self._write()) for _ in range(WRITERS)]
        others.append(asyncio.create_task(self._expire()))
        for _ in range(self.deletes):
            await self._delete()
            await self.loop.pause(self.random.random() * 0.02)
        self.is_over = True
        await asyncio.wait_for(asyncio.gather(*others), 60)
        assert self.pull.waiter_count == 0
        await self.store.close()

    async def _delete(self) -> None:
        topic = self.removing = self.random.choice(TOPICS)
        while self.sending[topic]:
            await self.loop.pause(0.001)
        await self.remove(topic)
        for queue_id in range(2):
            assert self.store.reading.queue_range(topic, queue_id) == (0, 0)
        await self.store.tables.topics.create(topic, queue_count=2)
        self.removing = ""
        self.tally.deletes += 1

    async def _write(self) -> None:
        while not self.is_over:
            topic = self.random.choice(TOPICS)
            if topic != self.removing:
                self.sending[topic] += 1
                self.number += 1
                row = put_row(f"{self.number}.".ljust(self.random.choice((10, 300, 900)), "x"))
                await self.put(topic, self.random.randrange(2), row)
                self.sending[topic] -= 1
            await self.loop.pause(self.random.random() * 0.01)

    async def _expire(self) -> None:
        while not self.is_over:
            if len(self.store.log.files.files) > KEPT_FILES:
                is_trimming = self.random.random() < 0.5
                self.tally.expired_files += await self.expire(trim=is_trimming)
            await self.loop.pause(self.random.random() * 0.01)
        await self.store.views.expiry.trim_views()

    async def _read(self) -> None:
        topic, queue_id, begin = self.random.choice(TOPICS), self.random.randrange(2), 0
        while not self.is_over:
            asked = PullRequest(ReadRange(topic, queue_id, begin, 3, 1 << 16), EVERYTHING, 20)
            is_cold = self.random.random() < 0.5
            result = await self.pulled(self.pull, asked, is_cold=is_cold)
            assert isinstance(result.status, PullStatus)
            self.tally.statuses[result.status.name] += 1
            numbers = [message.queue_offset for message in messages_of(result)]
            self.tally.messages += len(numbers)
            for message in messages_of(result):
                assert (message.topic, message.queue_id) == (topic, queue_id)
            assert numbers == sorted(set(numbers))
            assert not numbers or numbers[0] >= begin
            begin = result.next_begin_offset
            if self.random.random() < 0.2:
                topic, queue_id = self.random.choice(TOPICS), self.random.randrange(2)
                begin = self.random.choice(
                    (0, begin, self.store.reading.queue_range(topic, queue_id)[0])
                )
            await self.loop.pause(self.random.random() * 0.002)


def churn(seed: int, tally: ChurnTally, *, deletes: int) -> None:
    """Runs one churn.

    Errors   AssertionError, or whatever escaped; the seed is part of its notes
    """

    repro = f"tests.models.churn.churn({seed}, ChurnTally(), deletes={deletes})"
    tell_seeded(seed, lambda loop: Churn(loop, seed, tally, deletes).run(), repro)
