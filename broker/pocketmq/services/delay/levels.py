"""Delivers messages of delay levels.

    SCHEDULE_TOPIC_XXXX, queue level - 1 ──due──► put into its target queue, unchanged
                                                    │
                         delayOffset.json ◄─────────┘ progress of each level, every 10 s

After a crash, messages may have been delivered that the persisted progress does not cover. Their
copies are found in the index by unique key (`LevelResumption`), and each level resumes at the first
message without such a copy. If that message was delivered, but has no unique key or the index lost
its copy, it and the later messages of its level are delivered again.
Source: ScheduleMessageService.
"""

import logging
from asyncio import CancelledError
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Final

from pocketmq.format.record import decode_record
from pocketmq.model.errors import BrokerError, RecordTooLarge, StoreFailed
from pocketmq.model.message import OFFSET_MAX, PROPERTY_CRC, StoredMessage
from pocketmq.model.reading import KeyRange
from pocketmq.model.stats import Counter, Gauge
from pocketmq.model.step import Next, Now
from pocketmq.model.system_topics import QueuePlace
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.services.delay.level import SEEN_LEAD_MS, Level
from pocketmq.services.delay.level_pending import LevelPending, WaitingMessages
from pocketmq.store.job import Job, Rounds, until_done
from pocketmq.store.message_store import MessageStore

# -- where levels resume -----------------------------------------------------------------------
COPIES_MAX: Final = 64
"""Upper limit of messages that one index query for a unique key returns."""


class LevelResumption:
    """Finds where the delivery of each level resumes; used once, when the broker starts."""

    __slots__ = ("_messages", "_store", "_used")

    def __init__(self, store: MessageStore, messages: WaitingMessages) -> None:
        self._store = store
        self._messages = messages
        self._used: set[int] = set()
        """Physical offsets of the copies found so far: each copy belongs to one message."""

    async def levels(self, now_ms: int) -> list[Level]:
        """Returns all levels.

        Cost     an index query for each due message, up to the first undelivered one
        Errors   StorageError, DiskSlow
        """
        assert not self._used, "levels were found before"
        find = self._store.tables.delay_offsets.find
        found = []
        for number, delay_ms in enumerate(self._store.settings.levels.delays_ms, start=1):
            lower, upper = self._messages.range_of(number)
            begin = min(max(find(number), lower), upper)
            level = Level(number, delay_ms, begin, self._store.level_clocks.of(number))
            has_more = True
            while has_more:
                has_more = await self._pass_delivered(level, now_ms)
            if level.queue_offset > begin:
                logger.info(
                    "schedule.resumed", extra={"level": number, "count": level.queue_offset - begin}
                )
            found.append(level)
        return found

    async def _pass_delivered(self, level: Level, now_ms: int) -> bool:
        """Advances a level beyond delivered messages; returns whether there may be more of them."""
        begin = level.queue_offset
        times_ms = await self._messages.due_ms(level.number, begin)
        if not times_ms:
            return False
        is_due = [due <= now_ms or due > now_ms + level.delay_ms for due in times_ms]
        # The first message may have been delivered before the clock was set back.
        count = max([*is_due, False].index(False), 1)
        waiting, following = await self._messages.read(level.number, begin, count)
        for record, place in waiting:
            message = decode_record(record, decompress=False)
            if place is not None and not await self._is_delivered(message, place):
                return False
            level.advance(message.queue_offset + 1)
        level.advance(max(following, level.queue_offset))
        return level.queue_offset > begin

    async def _is_delivered(self, message: StoredMessage, place: QueuePlace) -> bool:
        key = message.unique_key
        if not key:
            return False
        before = self._store.tables.delay_offsets.delivered_before
        lowest = max(before, message.physical_offset)
        # Without time bounds: the clock may have been set back before the delivery.
        wanted = KeyRange(place.topic, key, COPIES_MAX, lowest=lowest, with_purged=True)
        while True:
            page = await self._store.reading.query(wanted)
            for copy in page.messages:
                is_new = copy.physical_offset not in self._used
                if is_new and _marks(copy) == _marks(message):
                    self._used.add(copy.physical_offset)
                    return True
            if not page.next_cursor:
                return False
            wanted = wanted._replace(cursor=page.next_cursor)


def _marks(message: StoredMessage) -> tuple[object, ...]:
    """Returns the fields that are equal in a message and its delivered copy."""
    properties = {k: v for k, v in message.properties.items() if k != PROPERTY_CRC}
    return message.reconsume_times, message.born_timestamp_ms, message.body_crc, properties


# -- levels ------------------------------------------------------------------------------------
SAVE_INTERVAL_MS: Final = 10_000
"""Interval between saves of the levels' progress (flushDelayOffsetInterval)."""
CLOCK_INTERVAL_MS: Final = 1_000
"""Longest interval between checks whether the wall clock was set."""
RETRY_PAUSE_MS: Final = 1_000
"""Pause after a refused put, for example while the disk is full."""

logger = logging.getLogger(__name__)


class Schedule:
    """Delivers the messages of all delay levels of an open store.

    store_host   packed address of this broker
    """

    __slots__ = (
        "_delivering", "_levels", "_messages", "_now", "_rounds", "_save_at_ms", "_saving",
        "_served", "_set_count", "_store", "delivered", "stats",
    )  # fmt: skip

    def __init__(self, store: MessageStore, store_host: bytes) -> None:
        self._store = store
        self._messages = WaitingMessages(store, store_host)
        self._levels: list[Level] = []
        self._now = Now(0, 0)
        self._rounds = Rounds(self._endless_rounds)
        self._delivering: Job[None] | None = None
        self._saving: Job[None] | None = None
        self._save_at_ms = 0
        self._served = 0
        self._set_count = -1
        """`set_count` of the level clocks at the last check; -1 before the first check."""
        self.delivered = Counter(
            "pocketmq_delayed_delivered_total", "Messages delivered at the end of a delay level."
        )
        waiting = Gauge(
            "pocketmq_delayed_messages",
            "Pending messages of delay levels.",
            self._waiting_count,
        )
        self.stats: list[Counter | Gauge] = [self.delivered, waiting]

    @property
    def is_on(self) -> bool:
        """Whether messages are delivered: a damaged store accepts no puts."""
        return self._store.damage is None

    def _waiting_count(self) -> float:
        ends = [self._messages.range_of(level.number)[1] for level in self._levels]
        return float(sum(ends) - sum(level.queue_offset for level in self._levels))

    def step(self, now: Now) -> Next:
        """Starts the delivery of at most one batch of one level, without waiting for it.

        Errors   StorageError
        """
        assert now.monotonic_ms >= self._now.monotonic_ms, "monotonic time decreased"
        self._now = now
        return self._rounds.go_on()

    async def close(self) -> None:
        """Saves the levels' progress; `step` is not called any more."""
        for job in (self._delivering, self._saving):
            if job is not None:
                await job.reached()
        clock = self._store.clock
        self._store.look_at_clocks(Now(clock.monotonic_ms(), clock.wall_ms()))
        if self._levels and self._is_changed():
            with suppress(BrokerError):  # The next start finds the delivered messages in the index.
                await self._save(self._offsets(), self._store.appended)

    def floor(self) -> int:
        """Returns the physical offset from which on the log must be kept for pending messages.

        A power cut may remove copies that were delivered since the last save.
        """
        if not self.is_on:
            return OFFSET_MAX
        return min(map(self._kept_from, self._levels), default=0)  # No levels: none is known yet.

    def _kept_from(self, level: Level) -> int:
        lower, upper = self._messages.range_of(level.number)
        saved = self._store.tables.delay_offsets.find(level.number)
        at = max(lower, min(saved, level.queue_offset))
        if at >= upper:
            return OFFSET_MAX
        place = self._store.reading.place_of(SCHEDULE_TOPIC, level.number - 1, at)
        if isinstance(place, int):
            level.kept_from = place
        return level.kept_from  # The previous one, if the disk had to be read.

    def _endless_rounds(self) -> Iterator[Next]:
        if not self._levels:
            resumption = LevelResumption(self._store, self._messages)
            self._levels = yield from until_done(Job(resumption.levels(self._now.wall_ms)))
        while True:
            if self._look_at_clocks():
                # The change is saved before the next delivery, which depends on it.
                yield from self._saved_clocks()
            self._save_if_due()
            if self._store.marks.appended.time_ms > self._now.wall_ms + SEEN_LEAD_MS:
                for one in self._levels:
                    one.see(self._now, self._messages.range_of(one.number)[1])
            level = min(self._levels, key=self._turn)
            if level.look_at_ms > self._now.monotonic_ms:
                at_ms = min(level.look_at_ms, self._save_at_ms)
                at_ms = min(at_ms, self._now.monotonic_ms + CLOCK_INTERVAL_MS)
                yield Next(max(at_ms, self._now.monotonic_ms + 1))
                continue
            self._served += 1
            level.served = self._served
            self._delivering = Job(self._deliver(level, self._now))
            yield from until_done(self._delivering)
            yield Next(self._now.monotonic_ms)

    def _look_at_clocks(self) -> bool:
        self._store.look_at_clocks(self._now)
        set_count = self._store.level_clocks.set_count
        if self._set_count == set_count:
            return False
        self._set_count = set_count
        for level in self._levels:
            level.clock_set(self._now, self._messages.range_of(level.number)[1])
        return True

    def _saved_clocks(self) -> Generator[Next, None, None]:
        try:
            if self._saving is not None:
                yield from until_done(self._saving)
            if self._is_changed():
                self._saving = Job(self._save(self._offsets(), self._store.appended))
                yield from until_done(self._saving)
        finally:
            self._saving = None

    def _turn(self, level: Level) -> tuple[int, int]:
        """Returns a sort key: the due level whose last batch is oldest comes first."""
        return max(level.look_at_ms, self._now.monotonic_ms), level.served

    # -- delivering ----------------------------------------------------------------------------
    async def _deliver(self, level: Level, now: Now) -> None:
        """Delivers at most BATCH_MAX due messages of a level."""
        try:
            count = await self._due_count(level, now)
            if count:
                found = await self._messages.read(level.number, level.queue_offset, count)
                waiting, following = found
                await self._put(level, waiting)
                level.advance(following)
        except (StoreFailed, CancelledError):
            raise
        except BrokerError as error:
            level.look_at_ms = now.monotonic_ms + RETRY_PAUSE_MS
            logger.warning("schedule.refused", extra={"level": level.number, "reason": str(error)})

    async def _put(self, level: Level, waiting: Sequence[LevelPending]) -> None:
        """Puts messages into their target queues; drops a message that fits no file of the log."""
        runs = [self._messages.run(one) for one in waiting if one.place is not None]
        try:
            if runs:
                await self._store.writing.put(runs)
                self.delivered.value += len(runs)
        except RecordTooLarge as error:
            if len(waiting) == 1:
                logger.warning(
                    "schedule.discarded",
                    extra={"physical_offset": waiting[0].physical_offset, "reason": str(error)},
                )
                return
            for one in waiting:
                await self._put(level, [one])
                level.advance(one.queue_offset + 1)

    async def _due_count(self, level: Level, now: Now) -> int:
        lower, upper = self._messages.range_of(level.number)
        level.advance(max(lower, level.queue_offset))  # Skips messages whose files were deleted.
        times_ms = await self._messages.due_ms(level.number, level.queue_offset)
        return level.due_count(times_ms, upper, now)

    # -- saving the progress -------------------------------------------------------------------
    def _offsets(self) -> dict[int, int]:
        return {level.number: level.queue_offset for level in self._levels}

    def _is_changed(self) -> bool:
        find = self._store.tables.delay_offsets.find
        is_moved = any(at != find(number) for number, at in self._offsets().items())
        written = self._store.tables.delay_offsets.clocks
        return is_moved or self._store.level_clocks.written != written

    def _save_if_due(self) -> None:
        """Starts saving the progress if a save is due; must not be called during a put."""
        now_ms = self._now.monotonic_ms
        if self._saving is not None and self._saving.is_done:
            job, self._saving = self._saving, None
            job.result()
        if now_ms < self._save_at_ms or self._saving is not None:
            return
        self._save_at_ms = now_ms + SAVE_INTERVAL_MS
        if self._is_changed():
            self._saving = Job(self._save(self._offsets(), self._store.appended))

    async def _save(self, offsets: dict[int, int], end: int) -> None:
        """Saves the progress once the log is durable.

        offsets   level -> offset of the level's first undelivered message
        end       end of the log at the time of `offsets`
        """
        clocks = self._store.level_clocks.written
        if await self._store.writing.durable():
            await self._store.tables.delay_offsets.put(offsets, end, clocks)
