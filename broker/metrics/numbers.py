"""All numbers of one broker, wired: what its parts count, and what is computed at a scrape.

numbers = Numbers(store, parts, …)      the parts have `stats`; the store need not be open
await numbers.refresh()                 before a page is made
Exposition(numbers.stats, find_names=numbers.names, …)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from broker.metrics.lag import Lag, Position
from broker.metrics.loop_lag import LoopLag
from broker.metrics.reloads import Reloads
from broker.metrics.storage import Files, Storage, queue_gauges
from broker.model.errors import IllegalConfig
from broker.model.stats import Stat
from broker.store.message_store import MessageStore

PUBLIC: Final = "public"
FULL: Final = "full"
DETAILS: Final = (PUBLIC, FULL)
OPEN_STATES: Final = frozenset({"running", "disk_full", "read_only", "damaged"})
OPENING_STATES: Final = frozenset({"starting", "recovering"})


class Counting(Protocol):
    """A part that counts."""

    @property
    def stats(self) -> Sequence[Stat]:
        """What it counts."""


@dataclass(frozen=True)
class _Mapped:
    count: int
    size_bytes: int


class Numbers:
    """What metrics show of a broker.

    parts            send, pull, the server, retention, and what else has `stats`
    read_positions   returns where every group stands
    detail           "public", or "full" for series of every queue

    Errors   IllegalConfig for another detail
    """

    __slots__ = ("_lag", "_parts", "_queue_gauges", "_storage", "_store", "loop_lag", "reloads")

    def __init__(
        self,
        store: MessageStore,
        parts: Sequence[Counting],
        *,
        read_positions: Callable[[], Iterable[Position]],
        permission: int,
        detail: str = PUBLIC,
    ) -> None:
        if detail not in DETAILS:
            why = f"{detail!r} is none of {', '.join(DETAILS)}"
            raise IllegalConfig(field="metrics.detail", why=why)
        is_full = detail == FULL
        clock = store.clock
        self._store = store
        self._parts = parts
        self._lag = Lag(store, read_positions, clock.wall_ms, is_detailed=is_full)
        self._storage = Storage(
            store,
            clock.wall_ms,
            topics=store.topics,
            groups=store.groups,
            find_files=self._mapped_files,
            permission=permission,
        )
        self._queue_gauges = queue_gauges(self._ranges) if is_full else []
        self.loop_lag = LoopLag()
        self.reloads = Reloads(clock.wall_ms)

    def stats(self) -> list[Stat]:
        """Return all stats there are now; those of the store once it is open."""
        found: list[Stat] = [self.loop_lag.seconds, *self.reloads.stats, *self._store.stats]
        for part in self._parts:
            found += part.stats
        if self._store.state not in OPENING_STATES:
            found += [*self._storage.gauges, *self._lag.gauges, *self._queue_gauges]
        return found

    def names(self) -> dict[str, list[str]]:
        """Return the topics and groups there are, by the label that names them."""
        if self._store.state in OPENING_STATES:
            return {}
        return {
            "topic": self._store.topics.names(),
            "consumer_group": self._store.groups.names(),
        }

    async def refresh(self) -> None:
        """Compute what takes a while; while the store opens or ends, what was found is kept."""
        if self._store.state in OPEN_STATES:
            await self._storage.refresh()
            await self._lag.refresh()

    def _mapped_files(self) -> list[Files]:
        parts = self._store.structures
        index_count = len(parts.index.files)  # Index files are mapped all the time.
        index = _Mapped(index_count, index_count * parts.index.geometry.file_size)
        return [parts.log_files, parts.queue_files, index]

    def _ranges(self) -> list[tuple[str, int, int, int]]:
        queues = self._store.structures.queues.queues
        return [
            (topic, queue_id, queue.min_offset, queue.max_offset)
            for (topic, queue_id), queue in queues.items()
        ]
