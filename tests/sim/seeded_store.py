"""Parts shared by all stories of a store on a seeded loop.

class Walk(SeededStore): …              a store on a simulated disk, and choices of the same seed
tell_seeded(7, story, "repro: …")       await story(loop); the same seed, the same story
await stop_short()                      a killed store runs nothing any more
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination, PutResult
from pocketmq.model.errors import TopicNotFound
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.store.dispatch import dispatcher, expiry, views
from pocketmq.store.dispatch import flush as view_flush
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.tables import identity
from tests.kit.rows import Row, batch
from tests.kit.store_language import STORE_HOST, small_settings
from tests.sim.disk import SimDisk
from tests.sim.loop import SeededLoop, run_seeded

STORE: Final = Path("/store")
TIMED: Final = (dispatcher, expiry, views, view_flush)
"""Modules that measure an iteration's duration, which must not depend on the machine."""


def tell_seeded(seed: int, story: Callable[[SeededLoop], Awaitable[None]], repro: str) -> None:
    """Runs a story to its end.

    Errors   AssertionError, or whatever escaped; how to do it again is part of its notes
    """

    async def timed(loop: SeededLoop) -> None:
        with ExitStack() as patches:
            for module in TIMED:
                patches.enter_context(patch.object(module, "perf_counter", loop.time))
            ids = Random(seed)  # Of two leaders of one epoch, that with the higher id goes on.
            patches.enter_context(
                patch.object(identity, "token_hex", lambda size: ids.randbytes(size).hex())
            )
            await story(loop)

    try:
        run_seeded(seed, timed)
    except BaseException as error:
        error.add_note(f"repro: {repro}")
        raise


class Sorted(set[Any]):
    """A set that is iterated in sorted order, independent of hash seeds."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


def in_order(store: MessageStore) -> None:
    """Makes an open store iterate its sets in order: a seed is the same in every process."""
    store.views.queues.dirty = Sorted(store.views.queues.dirty)


class SeededStore:
    """A store on a simulated disk; a seed decides the operations and their order."""

    def __init__(self, loop: SeededLoop, seed: int, **settings: Any) -> None:
        self.loop = loop
        self.seed = seed
        self.random = Random(seed)
        self.disk = SimDisk(seed=seed)
        self.settings = small_settings(STORE, **settings)
        self._is_expiring = False

    async def open(self, disk: SimDisk | None = None) -> None:
        """Opens the store, on another disk when one is given."""
        self.disk = disk or self.disk
        self.store = await open_store(self.settings, self.loop.clock, self.disk)
        in_order(self.store)

    async def put(self, topic: str, queue_id: int, *rows: Row) -> PutResult:
        """Puts messages of one queue."""
        run = (Destination(topic, queue_id, STORE_HOST), batch(*rows))
        (result,) = await self.store.writing.put([run])
        return result

    async def expire(self, *, trim: bool = True) -> bool:
        """Removes the oldest file unless a reader holds it; returns whether one was removed."""
        if self._is_expiring:  # One file at a time, as retention does.
            return False
        self._is_expiring = True
        expiry = self.store.views.expiry
        try:
            oldest = expiry.oldest()
            if oldest is not None:
                await expiry.last_time(oldest)
                await expiry.drop(oldest)
            if trim:
                await expiry.trim_views()
            return oldest is not None
        finally:
            self._is_expiring = False

    async def remove(self, topic: str) -> None:
        """Removes a topic, its queues and its offsets, in the order of an operator's request."""
        with suppress(TopicNotFound):
            await self.store.tables.topics.remove(topic)
        await self.store.remove_topic(topic)
        await self.store.tables.offsets.remove_topic(topic)

    async def pulled(self, pull: Pull, asked: PullRequest, *, is_cold: bool) -> PullResult:
        """Pulls as a client that waits for messages."""
        if is_cold:
            result = await self.store.reading.pull_cold(asked.range)
        else:
            result = await value_of(pull.pull(asked))
        return await pull.wait(asked, result) if pull.should_wait(asked, result) else result


async def stop_short() -> None:
    """Cancels all tasks of a store."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def messages_of(result: PullResult) -> list[StoredMessage]:
    """Returns the messages a pull returned."""
    assert result.status is PullStatus.FOUND or not result.records
    return [decode_record(record) for record in result.records]
