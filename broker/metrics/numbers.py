"""All numbers of one broker, wired: what its parts count, and what is computed at a scrape.

numbers = Numbers(store, count, …)      `count` returns what the parts count
await numbers.refresh()                 before a page is made
Exposition(numbers.stats, find_names=numbers.names, …)
"""

from collections.abc import Callable, Iterable
from typing import Final

from broker.metrics.lag import Lag, Position
from broker.metrics.storage import Oldest, queue_gauges, storage_gauges
from broker.model.stats import Stat
from broker.store.message_store import MessageStore

PUBLIC: Final = "public"
FULL: Final = "full"
OPEN_STATES: Final = frozenset({"running", "disk_full", "read_only", "damaged"})


class Numbers:
    """What metrics show of a broker.

    count            returns the stats of send, pull, the server and retention
    read_positions   returns where every group stands
    detail           "public", or "full" for series of every queue
    """

    __slots__ = ("_count", "_gauges", "_lag", "_oldest", "_store")

    def __init__(
        self,
        store: MessageStore,
        count: Callable[[], Iterable[Stat]],
        *,
        read_positions: Callable[[], Iterable[Position]],
        permission: int,
        detail: str = PUBLIC,
    ) -> None:
        assert detail in (PUBLIC, FULL)
        now_ms = store.clock.wall_ms
        self._store = store
        self._count = count
        self._oldest = Oldest(
            lambda: (store.min_offset, store.appended),
            lambda place: store.reading.message_at(place),
            now_ms,
        )
        self._lag = Lag(
            lambda *queue: store.reading.queue_range(*queue),
            lambda *place: store.reading.store_timestamp_at(*place),
            read_positions,
            now_ms,
            is_detailed=detail == FULL,
        )
        self._gauges = [*storage_gauges(store, self._oldest, permission), *self._lag.gauges]
        if detail == FULL:
            self._gauges += queue_gauges(store)

    def stats(self) -> list[Stat]:
        """Return all stats there are."""
        return [*self._store.stats, *self._count(), *self._gauges]

    def names(self) -> dict[str, list[str]]:
        """Return the topics and groups there are, by the label that names them."""
        return {
            "topic": self._store.tables.topics.names(),
            "consumer_group": self._store.tables.groups.names(),
        }

    async def refresh(self) -> None:
        """Compute what takes a while; while the store ends, what was found is kept."""
        if self._store.state in OPEN_STATES:
            await self._oldest.refresh()
            await self._lag.refresh()
