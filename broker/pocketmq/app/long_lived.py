"""Excludes new queues, topics and groups from garbage collections.

They are long-lived, and visiting the objects of ten thousand topics would block all callers for
100 ms. At its start the broker excludes those that it finds.
"""

import gc
from collections.abc import Callable
from typing import Final

from pocketmq.model.step import Next, Now
from pocketmq.store.message_store import MessageStore

EVERY_MS: Final = 250
GROWTH: Final = 256
"""Number of new queues, topics and groups that a garbage collection may visit: 5 ms."""


def exclude_present() -> None:
    """Removes garbage, then excludes all present objects from garbage collections."""
    gc.collect()  # Garbage that is excluded would be kept until the end.
    gc.freeze()


class LongLived:
    """Calls `exclude` after each growth of the store.

    count   returns the number of long-lived things
    """

    __slots__ = ("_count", "_exclude", "_excluded")

    def __init__(
        self, count: Callable[[], int], exclude: Callable[[], None] = exclude_present
    ) -> None:
        self._count = count
        self._exclude = exclude
        self._excluded = count()

    def step(self, now: Now) -> Next:
        """Excludes new objects if there are many."""
        count = self._count()
        self._excluded = min(self._excluded, count)  # Deleted ones were freed without a collection.
        if count - self._excluded >= GROWTH:
            self._exclude()
            self._excluded = count
        assert count - self._excluded < GROWTH, "a collection would visit many"
        return Next(now.monotonic_ms + EVERY_MS)


def long_lived_of(store: MessageStore, exclude: Callable[[], None] = exclude_present) -> LongLived:
    """Returns the exclusion for an open store."""
    tables, queues = store.tables, store.views.queues
    return LongLived(
        lambda: len(queues.queues) + tables.topics.count + tables.groups.count, exclude
    )
