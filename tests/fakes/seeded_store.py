"""What all stories about a store on a seeded loop share.

tell_seeded(7, story, "repro: …")       await story(loop); the same seed, the same story
in_order(store)                         the store walks its sets in order from now on
await stop_short()                      nothing of a store runs on: it was killed
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

from broker.format.record import decode_record
from broker.model.message import StoredMessage
from broker.model.reading import PullResult, PullStatus
from broker.store.message_store import MessageStore
from broker.store.views import dispatcher, expiry, views
from broker.store.views import flush as view_flush
from tests.fakes.loop import SeededLoop, run_seeded

TIMED: Final = (dispatcher, expiry, views, view_flush)
"""Modules that look how long a turn took, which must not depend on the machine."""


def tell_seeded(seed: int, story: Callable[[SeededLoop], Awaitable[None]], repro: str) -> None:
    """Tell a story to its end.

    Errors   AssertionError, or whatever escaped; how to do it again is part of its notes
    """

    async def timed(loop: SeededLoop) -> None:
        with ExitStack() as patches:
            for module in TIMED:
                patches.enter_context(patch.object(module, "perf_counter", loop.time))
            await story(loop)

    try:
        run_seeded(seed, timed)
    except BaseException as error:
        error.add_note(f"repro: {repro}")
        raise


class Sorted(set[Any]):
    """A set that is walked in order, which does not depend on how texts are hashed."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


def in_order(store: MessageStore) -> None:
    """Let an open store walk its sets in order: a seed is the same in every process."""
    store.views.queues.dirty = Sorted(store.views.queues.dirty)
    arrived = store.views.dispatcher._arrived
    store.views.dispatcher._arrived = lambda keys: arrived(Sorted(keys))


async def stop_short() -> None:
    """Let nothing of a store run on."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def messages_of(result: PullResult) -> list[StoredMessage]:
    """Return the messages a pull returned."""
    assert result.status is PullStatus.FOUND or not result.records
    return [decode_record(record) for record in result.records]
