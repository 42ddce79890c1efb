"""A store at work on a simulated disk, and the power cuts that it may meet.

    life = Life(seed=7)
    cuts = life.run(ops=60, cut_share=0.1)     crash states of one life, with its promises so far
    life = Life(seed=8, image=recovered)       a later life of the same store

The seed decides everything. Time is virtual, and work of threads runs inline, a little later. The
disk's hook records the promises before each call.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from pocketmq.model.batch import Destination, PutStatus
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.settings import FLUSH_ASYNC, FLUSH_SYNC, StoreSettings
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row, small_settings
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import TORN, File, Folder, Image
from tests.sim.loop import SeededLoop
from tests.sim.seeded_store import in_order, stop_short, tell_seeded

STORE: Final = Path("/store")
LOG: Final = STORE / "commitlog"
TOPICS: Final = ("orders", "bills", "mails")
GEOMETRIES: Final = tuple(
    {
        "commit_log_file_size_bytes": log,
        "consume_queue_file_size_bytes": queue,
        "index_slot_count": slots,
        "index_entry_count_max": entries,
    }
    for log, queue, slots, entries in (
        (4096, 200, 8, 16),
        (4096, 1200, 150, 90),
        (8192, 600, 20, 40),
    )
)
"""File sizes of one sector and of several."""
GROUPS: Final = ("readers", "auditors")


@dataclass(frozen=True, slots=True)
class Promise:
    """The promises of a store at a moment.

    flushed        log bytes below it have to stay: flushed, and in sync mode acknowledged or shown
    appended       end of the log
    log            bytes of each log file, by base, as they stood
    expired        (log files removed for good, log files whose removal had begun), as bases
    offsets        (group, topic, queue) -> offsets that may be found: last acknowledged and later
    topics         topics whose creation was acknowledged
    removed        queues removed for good: next offset by (topic, queue)
    """

    call: str
    flushed: int
    appended: int
    log: dict[int, bytes]
    dropped: tuple[int, int]
    offsets: dict[tuple[str, str, int], list[int]]
    topics: frozenset[str]
    removed: dict[tuple[str, int], int]
    is_sync: bool
    geometry: dict[str, int]

    @property
    def torn(self) -> frozenset[str]:
        """Folders in which a sector may be torn: only if a checksum covers each whole record."""
        return TORN if self.geometry["property_crc"] else frozenset()

    @property
    def file_size(self) -> int:
        """Length of a log file."""
        return self.geometry["commit_log_file_size_bytes"]


@dataclass(slots=True)
class Cut:
    """One crash state, and the promises that must hold in it."""

    image: Image
    promise: Promise
    seed: int


@dataclass(slots=True)
class Life:
    """One run of a store from its start to its stop."""

    seed: int
    image: Image = field(default_factory=Image)
    start: Promise | None = None
    rng: Random = field(init=False)
    cuts: list[Cut] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    disk: SimDisk = field(init=False)
    offsets: dict[tuple[str, str, int], list[tuple[int, int]]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=lambda: {0: 0})
    """End of each offset commit by its begin; `number` is the clock."""
    topics: set[str] = field(default_factory=set)
    removed: dict[tuple[str, int], int] = field(default_factory=dict)
    store: MessageStore | None = None
    dropped: list[int] = field(default_factory=lambda: [0, 0])
    flushed: int = 0
    appended: int = 0
    acknowledged: int = 0
    number: int = 0
    is_sync: bool = True
    is_expiring: bool = False
    geometry: dict[str, int] = field(default_factory=dict)
    share: float = 0.1
    draws: int = 2

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.is_sync = self.rng.random() < 0.6
        has_crc = self.rng.random() < 0.3
        chosen = {**self.rng.choice(GEOMETRIES), "property_crc": has_crc}
        self.geometry = self.start.geometry if self.start else chosen
        self.disk = SimDisk(self.image, seed=self.seed)

    def settings(self) -> StoreSettings:
        """Settings of this life: small files, quick timers."""
        rng = self.rng
        return small_settings(
            STORE,
            flush=FLUSH_SYNC if self.is_sync else FLUSH_ASYNC,
            **self.geometry,
            flush_interval_ms=rng.choice((20, 100, 500)),
            flush_least_pages=rng.choice((0, 1, 4)),
            flush_thorough_interval_ms=rng.choice((50, 1000)),
            view_flush_interval_ms=rng.choice((10, 100, 1000)),
            view_flush_thorough_interval_ms=rng.choice((30, 200, 1000)),
            view_flush_least_pages=rng.choice((0, 1, 2)),
        )

    # -- what is promised ----------------------------------------------------------------------
    def promise(self, call: str = "") -> Promise:
        """Returns the store's promises so far."""
        if self.store is not None:
            self.flushed, self.appended = self.store.flushed, self.store.appended
            if self.is_sync:  # Acknowledged and visible bytes must stay too.
                self.flushed = max(self.flushed, self.acknowledged, self.store.dispatched)
        found = self.disk.image.find(LOG)
        files = found.live if isinstance(found, Folder) else {}
        return Promise(
            call,
            self.flushed,
            self.appended,
            {int(n): node.content for n, node in files.items() if isinstance(node, File)},
            (self.dropped[0], self.dropped[1]),
            {key: [v for _, v in values] for key, values in self.offsets.items()},
            frozenset(self.topics),
            dict(self.removed),
            self.is_sync,
            self.geometry,
        )

    def _on_call(self, call: str, path: Path) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1
        if self.rng.random() >= self.share:
            return
        promise = self.promise(call)
        for _ in range(self.draws):
            seed = self.rng.getrandbits(32)
            image = self.disk.image.cut(Random(seed), torn=promise.torn)
            self.cuts.append(Cut(image, promise, seed))

    # -- working -------------------------------------------------------------------------------
    def run(self, ops: int, *, share: float = 0.1, draws: int = 2) -> list[Cut]:
        """Runs some operations; returns the crash states met meanwhile."""
        self.share, self.draws = share, draws
        self.disk.hook = self._on_call

        async def work(loop: SeededLoop) -> None:
            loop.clock.advance(self.seed % 1000 * 60_000 if self.start is None else 10**9)
            await self._work(ops, loop)

        try:
            tell_seeded(self.seed, work, f"python -m tests.sim.crash_lives {self.seed}")
        finally:
            self.disk.hook = None
        return self.cuts

    async def _open(self, clock: FakeClock) -> MessageStore:
        store = await open_store(self.settings(), clock, self.disk)
        in_order(store)
        self.store = store
        return store

    async def _work(self, ops: int, loop: SeededLoop) -> None:
        store = await self._open(loop.clock)
        tasks: dict[asyncio.Task[Any], None] = {}
        for _ in range(ops):
            if self.rng.random() < 0.02:
                await self._settle(tasks)
                await store.close()
                store = await self._open(loop.clock)
            if self.rng.random() < 0.02:  # No task may send to the topic meanwhile.
                await self._settle(tasks)
                await self._remove_topic(store)
            task = asyncio.create_task(self._one(store))
            tasks[task] = None
            task.add_done_callback(tasks.pop)
            if len(tasks) > 4 or self.rng.random() < 0.3:
                await self._settle(tasks)
            elif self.rng.random() < 0.5:
                await loop.pause(self.rng.choice((0.0, 0.0, 0.003, 0.02, 0.2, 1.1)))
        await self._settle(tasks)
        if self.rng.random() < 0.7:
            await store.close()
        else:
            await stop_short()
        self.promise()  # The store's steps may continue for a moment, so the appended end is kept.
        self.store = None

    async def _settle(self, tasks: dict[asyncio.Task[Any], None]) -> None:
        for task in [*tasks]:
            await task

    def _one(self, store: MessageStore) -> Coroutine[Any, Any, None]:
        way = self.rng.random()
        if way < 0.72:
            return self._put(store)
        if way < 0.84:
            return self._commit_offset(store)
        if way < 0.88:
            return self._create_topic(store)
        if way < 0.95:
            return self._expire(store)
        return self._flush(store)

    async def _flush(self, store: MessageStore) -> None:
        await store.flush()

    async def _put(self, store: MessageStore) -> None:
        rng = self.rng
        count = rng.choice((1, 1, 1, 2, 4))
        topic, queue_id = rng.choice(TOPICS), rng.choice((0, 0, 1))
        rows = []
        for _ in range(count):
            self.number += 1
            body = f"{self.seed}.{self.number}." + "x" * rng.choice((0, 5, 60, 300, 700))
            key = rng.choice(("", "k1", "k1 k2", f"k{self.number}"))
            rows.append(put_row(body, key=key, tag=rng.choice(("", "t"))))
        run = (Destination(topic, queue_id, STORE_HOST), batch(*rows))
        (result,) = await store.writing.put([run])
        if self.is_sync and result.status is PutStatus.OK:
            self.acknowledged = max(self.acknowledged, result.end)

    async def _commit_offset(self, store: MessageStore) -> None:
        rng = self.rng
        key = (rng.choice(GROUPS), rng.choice(TOPICS), rng.choice((0, 1)))
        self.number += 1
        queue = store.views.queues.find(*key[1:])
        end = queue.units.first_at_or_behind(store.flushed) if queue is not None else 0
        mine = (self.number, rng.randint(0, end))
        values = self.offsets.setdefault(key, [(0, -1)])
        values.append(mine)
        await store.tables.offsets.commit(*key, mine[1])
        self.number += 1
        self.committed[mine[0]] = self.number
        # Of concurrent commits, any may be the last.
        values[:] = [one for one in values if self.committed.get(one[0], self.number) >= mine[0]]

    async def _create_topic(self, store: MessageStore) -> None:
        name = f"made{self.rng.randrange(5)}"
        await store.tables.topics.create(name, queue_count=2)
        self.topics.add(name)

    async def _remove_topic(self, store: MessageStore) -> None:
        topic = "mails"
        ends = {k: v for k, v in store.writing.writer.next_offsets.items() if k[0] == topic}
        await store.remove_topic(topic)
        self.removed.update(ends)

    async def _expire(self, store: MessageStore) -> None:
        if self.is_expiring:  # One file at a time, as retention does.
            return
        self.is_expiring = True
        try:
            await self._expire_one(store)
        finally:
            self.is_expiring = False

    async def _expire_one(self, store: MessageStore) -> None:
        oldest = store.views.expiry.oldest()
        if oldest is not None:
            end = oldest.base + oldest.size_bytes
            self.dropped[1] = end
            await store.views.expiry.drop(oldest)
            self.dropped[0] = end
        await store.views.expiry.trim_views()
