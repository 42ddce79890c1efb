"""The store of a broker: its parts, which are opened and closed together.

    put ──lock──► log ──flush──► visible ──dispatch──► queues, index ──► pull, query
                                   sync: flushed records    async: committed records
    async with opened(settings, clock, disk) as store:
        store.writing   puts, and their durability
        store.marks     how far the log is appended, flushed, dispatched
        store.reading   pulls and lookups
        store.views     queues and index, kept up to date with the log
        store.tables    topics, groups, offsets
        store.timer     files of delayed messages

All methods are called on one event loop. A put is one synchronous block under the put-lock, so a
cancelled caller changes nothing that was stored.
Source: DefaultMessageStore.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import (
    DiskFull,
    Draining,
    FollowersLate,
    NotLeader,
    NotReplicated,
    StoreDamaged,
    StoreFailed,
)
from pocketmq.model.errors.code import shown_room
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.model.stats import Gauge, LabelValues, Stat
from pocketmq.model.step import Clock, Next, Now, Step
from pocketmq.store.clamping import clamp_tables
from pocketmq.store.dispatch.views import Views
from pocketmq.store.heavy_turns import HeavyTurns
from pocketmq.store.marks import End, Marks
from pocketmq.store.read.reading import Reading
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.progress import Starting
from pocketmq.store.recovery.start import StoreStart
from pocketmq.store.runner import Runner
from pocketmq.store.settings import StoreSettings
from pocketmq.store.tables.copied_files import FLOORS, TOPICS
from pocketmq.store.tables.order_files import ORDER_JOURNAL_BYTES
from pocketmq.store.tables.tables import Tables
from pocketmq.store.timer.level_clocks import LevelClocks
from pocketmq.store.timer.timer_files import timer_files
from pocketmq.store.write.allocation import Reserve
from pocketmq.store.write.durability import Durability
from pocketmq.store.write.log_copy import LogCopy
from pocketmq.store.write.writing import Writing

# -- metrics -----------------------------------------------------------------------------------
STATES: Final = (
    "starting", "recovering", "running", "following", "disk_full", "read_only", "damaged",
    "draining", "failed",
)  # fmt: skip


def store_gauges(
    read_state: Callable[[], str], marks: Marks, behind_count: Callable[[], int]
) -> list[Gauge]:
    """Returns gauges of a store.

    read_state     returns one of STATES
    behind_count   returns the number of records in memory that wait for dispatch
    """

    def states() -> dict[LabelValues, float]:
        now = read_state()
        return {(state,): float(state == now) for state in STATES}

    def behind(end: End) -> Callable[[], float]:
        return lambda: float(marks.appended.value - end.value)

    dispatched, flushed = behind(marks.dispatched), behind(marks.flushed)
    rows = (
        (
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the log that are not dispatched yet.",
            dispatched,
        ),
        (
            "rocketmq_storage_flush_behind_bytes",
            "Bytes of the log that are not durable yet.",
            flushed,
        ),
        ("pocketmq_reput_behind_bytes", "Bytes that wait for dispatch.", dispatched),
        (
            "pocketmq_reput_behind_messages",
            "Records that wait for dispatch.",
            lambda: float(behind_count()),
        ),
    )
    state = Gauge(
        "pocketmq_store_state", "1 for the state that the store is in.", states, ("state",)
    )
    return [state, *(Gauge(*row) for row in rows)]


# -- the store ---------------------------------------------------------------------------------
RUNNING: Final = "running"

logger = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    settings: StoreSettings, clock: Clock, disk: Disk, starting: Starting | None = None
) -> AsyncIterator["MessageStore"]:
    """Opens a store for the duration of a block; see `open_store`."""
    store = await open_store(settings, clock, disk, starting)
    try:
        yield store
    finally:
        await store.close()


async def open_store(
    settings: StoreSettings, clock: Clock, disk: Disk, starting: Starting | None = None
) -> "MessageStore":
    """Locks, loads and recovers a store, then starts flushing and dispatching.

    Errors     StorageError and its subclasses, DiskFull, IllegalConfig
    """
    starting = starting or Starting(clock)
    with ExitStack() as undo:
        # At most the size of a commit-log file, so that small stores stay small.
        journal_bytes = min(ORDER_JOURNAL_BYTES, settings.commit_log_file_size_bytes)
        tables = Tables(
            disk, settings.directory, clock, is_sync=settings.is_sync,
            order_journal_bytes=journal_bytes,
        )  # fmt: skip
        undo.callback(tables.close)
        parts = StoreComponents(settings, disk, tables.removed.next_offsets)
        undo.callback(parts.close)
        starting.recover()
        start = StoreStart(parts, starting)
        start.look()
        tables.removed.load()
        tables.read()  # Nothing is written before: a refused store stays unchanged.
        size_bytes = min(parts.settings.reserve_size_bytes, parts.log.file_size_bytes)
        reserve = Reserve(disk, parts.own_directory, size_bytes)
        reserve.begin()
        reporting = undo.enter_context(ExitStack())
        reporting.enter_context(disk.trouble.reporting(full=reserve.release))
        for share in start.steps(clock.wall_ms()):
            starting.progress = share
            logger.debug("recovery.progress", extra={"share": share})
            await asyncio.sleep(0)
        tables.adopt(parts.queues.queues, parts.batch_topics)
        store = MessageStore(start, parts, tables, reserve, clock, reporting, starting.stats)
        tables.know_ends(store.writing.writer.next_offsets)
        await store.begin()
        starting.end()
        undo.pop_all()
    return store


class MessageStore:
    """One store directory, open for writing; created by `open_store`."""

    __slots__ = (
        "_floors_upto", "_reporting", "_runner", "_start", "_state", "_structures", "clock", "copy",
        "failure", "level_clocks", "log", "marks", "reading", "settings", "state_since_ms", "stats",
        "tables", "timer", "turns", "views", "writing",
    )  # fmt: skip

    def __init__(
        self,
        start: StoreStart,
        parts: StoreComponents,
        tables: Tables,
        reserve: Reserve,
        clock: Clock,
        reporting: ExitStack,
        stats: list[Stat],
    ) -> None:
        found, log, settings = start.recovery, parts.log, parts.settings
        self._start = start
        self._floors_upto = 0
        """Physical offset from which on no floor is above what its queue has."""
        self._structures = parts
        self._reporting = reporting
        self._state = RUNNING
        self._runner = Runner(clock, self._step_failed)
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises the store's error once the store has failed."""
        self.settings = settings
        self.clock = clock
        self.turns = HeavyTurns(clock)
        self.state_since_ms = clock.wall_ms()
        """Wall time (ms) of the last change of state; `read_only` and `disk_full` do not count."""
        self.log = log
        self.tables = tables
        self.marks = marks = Marks(
            log.appended, found.last_time, found.last_record, is_sync=settings.is_sync,
            is_bounded=settings.is_bounded, confirmed=parts.mark.confirmed_upto,
            is_confirmed=parts.mark.is_confirmed,
        )  # fmt: skip
        durability = Durability(log, parts.mark, marks, settings, clock, self._fail)
        self.views = views = Views(parts, marks, durability.request, self._fail)
        refusal = NotLeader(leader=settings.leader) if settings.leader else None
        self.writing = Writing(
            parts, marks, clock, durability, views.dispatcher, reserve, found.damage or refusal,
            self._fail,
        )  # fmt: skip
        self.copy = LogCopy(log, marks, self.writing) if settings.leader else None
        """The copy of the leader's log; None: this broker leads."""
        self.timer = timer_files(parts, tables.timer_check, self.writing.writer.next_offsets)
        self.reading = Reading(parts, views.arrivals, marks, is_writing=found.damage is None)
        next_offsets = self.writing.writer.next_offsets
        next_offsets.update(tables.removed.next_offsets)
        for key, queue in parts.queues.queues.items():
            next_offsets[key] = max(queue.max_offset, next_offsets.get(key, 0))
        now = Now(clock.monotonic_ms(), clock.wall_ms())
        level_count = len(settings.levels.delays_ms)
        self.level_clocks = LevelClocks(level_count, tables.delay_offsets.clocks, now, next_offsets)
        self.timer.observe_clock(now, marks.appended.time_ms)  # Detects a changed clock from now.
        self.writing.before_waiting = self.look_at_clocks
        behind = views.dispatcher
        self.stats: list[Stat] = [
            *store_gauges(lambda: self.state, marks, lambda: behind.remembered.count),
            *stats,
            *views.stats,
            *self.reading.stats,
            *self.writing.stats,
        ]

    async def begin(self) -> None:
        """Starts flushing and dispatching, unless the store is damaged; called once.

        Errors   DiskFull, StoreFailed: clamped offsets or the abort mark could not be saved
        """
        assert self._state == RUNNING
        plan = self._start.recovery.plan
        directory = self._structures.directory
        is_lowered = self.tables.floors.lower_to(self.queue_end)
        self._apply_floors(self.tables.floors.all())
        if self.damage is None:
            if not self.settings.leader:  # A follower's tables are those of its leader.
                if is_lowered:
                    await self.tables.floors.saved()
                await clamp_tables(self.tables, self.queue_end, self.log.appended)
            directory.remove_drafts()
            directory.mark_running(self._structures.disk.own_process_id())
        loop = asyncio.get_running_loop()
        fail_soon = self._structures.disk.trouble.reporting(
            lost=lambda error: loop.call_soon_threadsafe(self._fail, error)
        )
        self._reporting.enter_context(fail_soon)
        self._hide_unconfirmed()
        logger.info("store.opened", extra={"plan": plan.label, "end": self.log.appended})
        if self.damage is not None:
            logger.warning("store.refused", extra={"reason": str(self.damage)})
            return
        tables = self.tables
        self._runner.run(*self.views.steps, *self.writing.steps)
        if not self.settings.leader:
            self._runner.run(tables.offsets.step)
        self.writing.allocation.request()

    def _hide_unconfirmed(self) -> None:
        """Hides records that a promotion could remove, until enough followers have them."""
        visible, end = self.marks.visible(), self.appended
        if self.damage is not None and self.settings.is_bounded:
            # Its log ends at the damage, its queues do not.
            self.reading.hide(self._structures.mark.confirmed_upto)
            return
        if visible.value >= end:
            return
        self.reading.hide(visible.value)

        def show(reached: "asyncio.Future[bool]") -> None:
            if not reached.cancelled() and reached.exception() is None and reached.result():
                self.reading.show()

        visible.reached(end).add_done_callback(show)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Returns the queue offset of a queue's next message; OFFSET_MAX for a batch queue."""
        if topic in self._structures.batch_topics:
            return OFFSET_MAX
        if self.copy is not None:
            queue = self._structures.queues.find(topic, queue_id)
            return queue.max_offset if queue is not None else 0
        return self.writing.writer.next_offsets.get((topic, queue_id), 0)

    def _apply_later_floors(self, keys: Sequence[QueueKey]) -> None:
        self._apply_floors(keys)
        if self.dispatched >= self._floors_upto:
            self.views.grew = None

    def _apply_floors(self, keys: Iterable[QueueKey]) -> None:
        floors = self.tables.floors.all()
        for key in keys:
            queue = self._structures.queues.find(*key)
            if queue is not None:
                queue.set_floor(min(floors.get(key, 0), queue.max_offset))

    async def all_durable(self) -> None:
        """Waits until every record appended so far is durable, in either flush mode.

        It does not wait for followers: the tables of a promoted follower fit its own log.
        A caller that moves a message waits here before it records the move in another file.
        Errors   StoreFailed, such as FsyncFailed
        Cost     a flush, unless one has covered the last append
        """
        end = self.marks.appended.value
        await self.writing.commit.reached(end)
        while self.marks.flushed.value < end:
            await self.writing.durability.reached(end)

    # -- properties ----------------------------------------------------------------------------
    @property
    def state(self) -> str:
        """State of the store, one of STATES after the start."""
        if self._state != RUNNING or self.writing.is_writable:
            return self._state
        if self.damage is not None:
            return "damaged"
        if isinstance(self.writing.refusal, NotLeader):
            return "following"
        return "read_only" if self.writing.refusal is not None else "disk_full"

    @property
    def damage(self) -> StoreDamaged | None:
        """Damage because of which the store refuses sends, and serves only valid records."""
        return self._start.recovery.damage

    def refuse_damaged(self, damage: StoreDamaged) -> None:
        """Refuses messages until the store closes, for damage that another broker has noticed."""
        logger.error("log.damaged", extra={
            "path": damage.path, "physical_offset": damage.begin,
            "bytes": damage.end - damage.begin, "reason": damage.why,
        })  # fmt: skip
        self._start.recovery.damage = damage
        self.writing.refuse_for_good(damage)

    @property
    def made_here(self) -> bool:
        """Whether PocketMQ created the store."""
        return self._structures.made_here

    @property
    def appended(self) -> int:
        """Physical offset after the last record."""
        return self.marks.appended.value

    @property
    def flushed(self) -> int:
        """Physical offset below which all records are durable."""
        return self.marks.flushed.value

    @property
    def dispatched(self) -> int:
        """Physical offset up to which every view has every record."""
        return self.marks.dispatched.value

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte of the oldest file."""
        return self.log.min_offset

    def look_at_clocks(self, now: Now | None = None) -> None:
        """Detects a changed wall clock; called periodically and before delayed messages are put."""
        now = now or Now(self.clock.monotonic_ms(), self.clock.wall_ms())
        self.level_clocks.look(now)
        self.timer.observe_clock(now)

    def look(self) -> None:
        """Runs the due steps after a test has moved their clock."""
        self._runner.look()

    def disk_space(self) -> tuple[str, int, int]:
        """Returns (path, bytes used, bytes usable) of the store's file system."""
        directory = self.settings.directory
        return (str(directory), *self._structures.disk.space(directory))

    def no_room_aside(self, begin: int) -> str:
        """Returns why the log from an offset on cannot be set aside; "": the disk has room."""
        path, _, free_bytes = self.disk_space()
        size_bytes = self.appended - begin
        if free_bytes >= size_bytes + self.settings.reserve_size_bytes:
            return ""
        return (
            f"{shown_room(size_bytes)} of its log must be set aside first, and the disk under "
            f"{path} has {shown_room(free_bytes)} free"
        )

    # -- failing, draining, closing ------------------------------------------------------------
    def _enter(self, state: str) -> None:
        self._state = state
        self.state_since_ms = self.clock.wall_ms()

    def _step_failed(self, step: Step, error: BaseException, now: Now) -> Next | None:
        if isinstance(error, StoreFailed):
            self._fail(error)
        else:
            logger.error("store.task_failed", exc_info=error)
            self._fail(StoreFailed(why=f"a part of it ended: {error}"))
        return None

    def _fail(self, error: BaseException) -> None:
        failure = StoreFailed.by(error)
        self._enter("failed")
        if not self.failure.done():
            logger.critical("store.failed", extra={"reason": str(failure)})
            self.failure.set_exception(failure)
            self.failure.exception()  # Marks it as retrieved, so that asyncio does not log it.
        self._runner.close()
        self.marks.fail(failure)
        self.views.arrivals.release()

    def drain(self) -> None:
        """Refuses further puts, and ends all waits for messages."""
        if self._state == RUNNING:
            self._enter("draining")
        self.writing.end()
        self.views.arrivals.release()

    async def close(self) -> None:
        """Flushes and dispatches all records, removes the abort mark, and closes the files.

        The mark remains if the store is damaged or has failed, or records are not dispatched. Puts
        that wait for followers get an error.
        Errors   StoreFailed and its subclasses: the store is closed; the next start recovers it
        """
        self.drain()
        try:
            if not self.failure.done() and self.damage is None:
                await self._finish_work()
        finally:
            self.marks.dispatched.close()  # A view may be blocked by a full disk.
            try:
                await self._end_parts()
            finally:  # After a failure, further errors of closing are its consequences.
                ignored = suppress(StoreFailed) if self.failure.done() else nullcontext()
                with self._reporting, ignored:
                    self._structures.close()

    async def _finish_work(self) -> None:
        parts, views, marks = self._structures, self.views, self.marks
        await self.writing.drain()
        if marks.is_bounded:
            marks.end()
            self.writing.durability.write_mark(marks.flushed.value)
        await self.dispatch_below(marks.flushed.value)
        await self._end_steps()
        if self.failure.done():
            return
        if not self.settings.leader:
            await self._save_tables()
        await views.flush.finish()
        if not self.failure.done() and marks.dispatched.value >= marks.appended.value:
            assert marks.flushed.value == marks.appended.value
            try:
                parts.write_manifest(parts.closed_state())
            except DiskFull as full:  # Without a manifest, the next start checks the files itself.
                logger.error("disk.full", extra={"path": full.path})
                return
            parts.directory.mark_stopped()

    async def _save_tables(self) -> None:
        self.tables.offsets.hold_nothing()
        try:
            await self.tables.offsets.saved()
            await self.tables.orders.folded()
        except DiskFull as full:  # Offsets advanced since the last save are lost, as in a crash.
            logger.error("disk.full", extra={"path": full.path})

    async def dispatch_below(self, end_offset: int) -> None:
        """Dispatches visible records below a physical offset, unless a view is blocked."""
        marks, views = self.marks, self.views
        end = min(end_offset, marks.visible().value)
        while marks.dispatched.value < end and not views.dispatcher.is_blocked:
            views.dispatch_some(self.clock.monotonic_ms())
            await asyncio.sleep(0)

    async def _end_steps(self) -> None:
        self._runner.close()
        await self.writing.allocation.close()
        await self.writing.pages_ahead.close()

    async def _end_parts(self) -> None:
        await self._end_steps()
        await self.views.close()
        for part in (self.writing, self.tables, self.reading, self.timer):
            part.close()

    # -- for operators -------------------------------------------------------------------------
    async def remove_topic(self, topic: str) -> None:
        """Removes the queues of a topic; its messages stay in the log until they expire.

        If the topic is created again, its queue offsets continue above the old ones. The caller
        ensures that no message is sent to the topic until this returns.

        Errors   DiskFull, StoreDamaged, NotReplicated, StoreFailed, FollowersLate
        """
        if self.damage is not None:
            raise self.damage
        await self.caught_up()
        next_offsets = self.writing.writer.next_offsets
        ends = {queue_id: end for (name, queue_id), end in next_offsets.items() if name == topic}
        await self.tables.removed.add(topic, ends)
        await self.views.expiry.drop_queues(topic)
        with suppress(DiskFull):  # A floor that stays on disk is at most the topic's next offset.
            await self.tables.floors.remove_topic(topic)

    async def caught_up(self) -> None:
        """Waits until every record appended so far is dispatched.

        Dispatch stops at the visible end, so records that no flush covers yet are flushed.
        Errors   StoreFailed, such as FsyncFailed; Draining: the store closes before that;
                 FollowersLate: too few followers are connected, or do not get the records in time
        """
        end = self.appended
        if max(self.marks.visible().value, self.dispatched) < end:
            await self.all_durable()
            await self._all_replicated()
        await self._dispatched(end)

    async def all_dispatched(self) -> None:
        """Waits until every record appended so far is dispatched; requests no flush.

        Errors   StoreFailed, Draining, FollowersLate as `caught_up`
        """
        end = self.appended
        if self.dispatched < end:
            await self._all_replicated()
        await self._dispatched(end)

    async def _dispatched(self, end: int) -> None:
        if not await self.marks.dispatched.reached(end):
            raise self.marks.failure or Draining()

    async def _all_replicated(self) -> None:
        settings = self.settings
        if settings.is_replicated and await self.writing.acknowledged() is not PutStatus.OK:
            count, wait_ms = settings.in_sync_replicas, settings.ack_timeout_ms
            raise FollowersLate(count=count, wait_ms=wait_ms)

    async def purge(self, floors: Mapping[QueueKey, int]) -> None:
        """Makes the messages below queue offsets unreachable; durable when it returns.

        Shape    no floor is above the end of its queue
        Errors   DiskFull, StoreFailed, StoreDamaged: nothing is purged; NotReplicated: it is purged
        """
        if self.damage is not None:
            raise self.damage
        # A floor above the durable end would hide messages that follow a crash.
        await self.all_durable()
        try:
            await self.tables.floors.raise_durably(floors)
        except NotReplicated:
            self._apply_floors(floors)
            raise
        self._apply_floors(floors)

    def expire(self, floors: Mapping[QueueKey, int]) -> None:
        """Makes messages below queue offsets unreachable at once; durable later."""
        self.tables.floors.rise(floors)
        self._apply_floors(floors)

    def reload(self, name: str) -> None:
        """Reads a table again that this follower has replaced, and applies it to the queues.

        Errors   TableUnreadable, ReadFailed
        """
        self.tables.reload(name)
        if name == TOPICS:
            self.tables.adopt(self._structures.queues.queues, self._structures.batch_topics)
        elif name == FLOORS:
            self._apply_floors(self._structures.queues.queues)  # A leader may have lower ones.
            if self.dispatched < self.appended:  # Floors may be above what the queues have now.
                self._floors_upto = self.appended
                self.views.grew = self._apply_later_floors

    async def drop_removed(self) -> None:
        """Removes the queues that have only messages of removed topics, on a follower."""
        for topic in self._structures.queues.removed_topics():
            await self.views.expiry.drop_queues(topic)

    async def flush(self) -> int:
        """Flushes all appended records; returns the flushed physical offset."""
        await self.writing.drain()
        return self.flushed
