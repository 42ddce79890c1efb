"""State of half messages, and the puts that end them.

The outcome of a half message and its op message are stored in one put. Answers wait until both are
as durable as the flush mode promises.
"""

import asyncio
import logging
from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from pocketmq.format.half_message import Half, committed, read_half
from pocketmq.format.op_message import op_run, read_op
from pocketmq.format.record import BadRecord
from pocketmq.format.transaction_id import HalfPlace
from pocketmq.model.batch import PutResult, Run, Written
from pocketmq.model.errors import MessageDamaged
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.reading import PullStatus, ReadRange
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
)
from pocketmq.services.transaction.half_counts import HalfCounts
from pocketmq.services.transaction.halves import HalfState, Halves
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

# -- reading halves ----------------------------------------------------------------------------
READ_BYTES_MAX: Final = 1024 * 1024
OPS_READ_MAX: Final = 512
_QUEUE_OFFSET: Final = slice(20, 28)

logger = logging.getLogger(__name__)


class HalfReader:
    """Reads queue 0 of the topics of half messages and op messages."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def range_of(self, topic: str) -> tuple[int, int]:
        """Returns the min and max queue offset of a topic."""
        return self._store.reading.queue_range(topic, 0)

    async def read(self, queue_offsets: Sequence[int]) -> dict[int, Half | None]:
        """Returns half messages by queue offset; None: the half message is damaged or deleted.

        The result has no entries for offsets beyond the queue's end, and for offsets that remain
        after about READ_BYTES_MAX bytes were read.

        Shape    queue_offsets ascending
        Errors   StorageError, DiskSlow
        """
        found: dict[int, Half | None] = {}
        read_bytes = 0
        for begin, end in _ranges(queue_offsets):
            first = begin
            while first < end and read_bytes < READ_BYTES_MAX:
                records, following = await self._some(first, end - first)
                halves = {_queue_offset(record): _half_of(record) for record in records}
                last = min(following, end)
                found |= {at: halves.get(at) for at in range(first, last)}
                read_bytes += sum(map(len, records))
                first = last if following > first else end
        return found

    async def _some(self, queue_offset: int, count: int) -> tuple[list[bytes], int]:
        wanted = ReadRange(HALF_TOPIC, 0, queue_offset, count, READ_BYTES_MAX)
        try:
            result = await value_of(self._store.reading.pull(wanted))
        except MessageDamaged as error:
            logger.warning("message.damaged", extra={"reason": str(error)})
            return [], queue_offset + 1
        if result.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
            return result.records, result.next_begin_offset
        if result.status in (PullStatus.EXPIRED, PullStatus.OFFSET_TOO_SMALL):
            return [], max(result.next_begin_offset, queue_offset + 1)
        return [], queue_offset

    async def ops(self, begin: int) -> AsyncIterator[tuple[int, list[int]]]:
        """Yields (queue offset, queue offsets of half messages) for op messages from `begin` on.

        A damaged op message is yielded without half messages.

        Errors   StorageError, DiskSlow
        """
        _, upper = self.range_of(OP_HALF_TOPIC)
        position = begin
        while position < upper:
            wanted = ReadRange(OP_HALF_TOPIC, 0, position, OPS_READ_MAX, READ_BYTES_MAX)
            try:
                result = await value_of(self._store.reading.pull(wanted))
            except MessageDamaged as error:
                logger.warning("message.damaged", extra={"reason": str(error)})
                yield position, []
                position = error.next_begin_offset
                continue
            for number, record in enumerate(result.records, start=position):
                yield number, _named_by(record)
            if result.next_begin_offset <= position:
                return
            position = result.next_begin_offset
            await asyncio.sleep(0)


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Groups ascending numbers into ranges [begin, end)."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return ranges


def _queue_offset(record: bytes) -> int:
    return int.from_bytes(record[_QUEUE_OFFSET])


def _half_of(record: bytes) -> Half | None:
    try:
        return read_half(record)
    except BadRecord:
        return None


def _named_by(record: bytes) -> list[int]:
    try:
        return read_op(record)
    except BadRecord:
        return []


# -- op messages to read again -----------------------------------------------------------------
CUT_ABOVE: Final = 65_536
NAMES_NOTHING: Final = -1


class Ops:
    """Finds the first op message that recovery has to read.

    An op message is needed until all half messages up to its highest offset are done.
    """

    __slots__ = ("_highest", "_passed", "base")

    def __init__(self, begin: int) -> None:
        assert begin >= 0
        self.base = begin
        self._highest = array("q")
        self._passed = 0

    @property
    def begin(self) -> int:
        """Queue offset of the first op message that recovery has to read."""
        return self.base + self._passed

    @property
    def end(self) -> int:
        """Queue offset after the last known op message."""
        return self.base + len(self._highest)

    def add(self, queue_offset: int, named: Iterable[int]) -> None:
        """Adds an op message; op messages may be added in any order."""
        place = queue_offset - self.base
        assert place >= self._passed, "op message is no longer needed"
        while len(self._highest) <= place:
            self._highest.append(OFFSET_MAX)
        self._highest[place] = max(named, default=NAMES_NOTHING)

    def advance(self, half_begin: int) -> int:
        """Skips op messages that are no longer needed; returns the new `begin`.

        half_begin   all half messages below this offset are done
        """
        while self._passed < len(self._highest) and self._highest[self._passed] < half_begin:
            self._passed += 1
        if self._passed > CUT_ABOVE:
            del self._highest[: self._passed]
            self.base += self._passed
            self._passed = 0
        assert self.begin <= self.end
        return self.begin


# -- the table ---------------------------------------------------------------------------------
PUT_BYTES_MAX: Final = 1024 * 1024
PUT_MESSAGES_MAX: Final = 256
TOPICS: Final = (HALF_TOPIC, OP_HALF_TOPIC, GIVEN_UP_TOPIC)


class HalfTable:
    """The half messages of an open store.

    store_host   packed address of this broker
    put_bytes    maximum bytes of the half messages in one put, so that it fits a file of the log
    """

    __slots__ = (
        "_counts",
        "_store",
        "_waiters",
        "halves",
        "ops",
        "put_bytes",
        "reading",
        "store_host",
    )

    def __init__(self, store: MessageStore, store_host: bytes, counts: HalfCounts) -> None:
        assert store_host, "no store host"
        self._store = store
        self._counts = counts
        self.store_host = store_host
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self.reading = HalfReader(store)
        self.halves = Halves(0)
        self.ops = Ops(0)
        self.put_bytes = min(PUT_BYTES_MAX, store.settings.commit_log_file_size_bytes // 4)

    async def recover(self) -> None:
        """Loads all half messages that may be open; called once, before any decision.

        Errors   StorageError, DiskSlow
        Cost     one read of all op messages from the saved offset on
        """
        assert not self.halves.end
        find = self._store.tables.offsets.find
        lower, upper = self.reading.range_of(HALF_TOPIC)
        at = find(TRANSACTION_GROUP, HALF_TOPIC, 0) or 0
        self.halves = Halves(min(max(at, lower), upper))
        self.halves.grow(upper, HalfState.UNSURE)
        lower, upper = self.reading.range_of(OP_HALF_TOPIC)
        at = find(TRANSACTION_GROUP, OP_HALF_TOPIC, 0) or 0
        self.ops = Ops(min(max(at, lower), upper))
        async for queue_offset, named in self.reading.ops(self.ops.base):
            self.ops.add(queue_offset, named)
            self.halves.end_before(named)
        self._store.views.dispatcher.remembered.follow(HALF_TOPIC, self._follow)

    def _follow(self, run: Written) -> None:
        if not run.destination.queue_id:
            self.halves.put(run.queue_offset, run.physical_offsets)

    def see(self) -> tuple[int, int]:
        """Adds the half messages dispatched since the last call; returns their offsets as range."""
        begin = self.halves.end
        self.halves.grow(self.reading.range_of(HALF_TOPIC)[1])
        return begin, self.halves.end

    async def arrived(self, queue_offset: int, physical_offset: int) -> bool:
        """Returns whether a half message can be read; waits until it is dispatched.

        Errors   StoreFailed; FollowersLate: followers do not have it in time
        """
        upper = self.reading.range_of(HALF_TOPIC)[1]
        if queue_offset >= upper and physical_offset < self._store.appended:
            await self._store.all_dispatched()
            upper = self.reading.range_of(HALF_TOPIC)[1]
        self.halves.grow(upper)
        return queue_offset < upper

    async def half_at(self, place: HalfPlace) -> Half | None:
        """Returns the half message with this position and key; None if there is none.

        Errors   StorageError, FollowersLate, DiskSlow
        """
        if not await self.arrived(place.queue_offset, place.physical_offset):
            return None
        half = (await self.reading.read([place.queue_offset])).get(place.queue_offset)
        return half if half is not None and half.place == place else None

    def take(self, queue_offset: int) -> None:
        """Reserves an open half message for the caller, who puts its outcome."""
        self.halves.take(queue_offset)

    def give_back(self, queue_offset: int) -> None:
        """Makes a reserved half message open again, and wakes its waiters."""
        self.halves.give_back(queue_offset)
        self._wake(queue_offset)

    def finish(self, queue_offset: int, state: HalfState, moved_to: int = 0) -> None:
        """Records the outcome of a half message, and wakes its waiters."""
        self.halves.finish(queue_offset, state, moved_to)
        # If the half message was moved before the broker started, the copy may be done already.
        self._counts.drop(queue_offset, moved_to if self.halves.may_be_open(moved_to) else 0)
        self._wake(queue_offset)

    def finish_open(self, queue_offsets: Sequence[int], states: bytes) -> None:
        """Records the outcomes of open half messages; open half messages have no waiters.

        states   for each half message a byte with the HalfState
        """
        self.halves.finish_open(queue_offsets, states)
        if self._counts.has_open:
            for queue_offset in queue_offsets:
                self._counts.drop(queue_offset)

    def _wake(self, queue_offset: int) -> None:
        for waiter in self._waiters.pop(queue_offset, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def left(self, queue_offset: int) -> None:
        """Waits until a half message is no longer reserved."""
        while self.halves.state(queue_offset) is HalfState.TAKEN:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(queue_offset, []).append(waiter)
            await waiter

    def committed(self, half: Half, queue_count: int) -> Run:
        """Returns the record of a half message that is committed now.

        queue_count   current number of queues of its topic; 0: unknown
        """
        clock = self._store.clock
        now = Now(clock.monotonic_ms(), clock.wall_ms())
        self._store.look_at_clocks(now)
        return committed(half, queue_count, now.wall_ms, self._level_count)

    @property
    def _level_count(self) -> int:
        return len(self._store.settings.levels.delays_ms)

    async def put(self, named: Sequence[int], runs: Sequence[Run]) -> list[PutResult]:
        """Puts the outcomes of half messages with their op messages; returns the results of `runs`.

        named    queue offsets of the half messages
        Effects  no other task runs between the write and the return
        Errors   errors of store.writing.put and topics.ensure: no message was stored
        """
        topics = self._store.tables.topics
        # Recovery finds delayed messages only if their topic is in the topic table.
        parking = {destination.topic for destination, _ in runs} & {TIMER_TOPIC, SCHEDULE_TOPIC}
        for topic in (*TOPICS, *parking):
            found = topics.find(topic)
            if found is None or not found.is_kept:
                await topics.ensure(topic, self._level_count if topic == SCHEDULE_TOPIC else 1)
        op_messages = op_run(named, store_host=self.store_host, now_ms=self._store.clock.wall_ms())
        results = await self._store.writing.put([*runs, op_messages], wait=False)
        first = results[-1].queue_offset
        for queue_offset in range(first, first + len(op_messages[1])):
            self.ops.add(queue_offset, named)
        return results[:-1]

    @property
    def is_durable(self) -> bool:
        """Whether decisions are answered without waiting for a flush or for followers."""
        return not self._store.settings.waits

    async def durable(self) -> None:
        """Waits until all puts are as durable as the flush mode promises.

        With followers in sync it also waits for them, at most `ack_timeout_ms`. A decision that a
        promoted follower lacks is asked for again.
        Errors   StoreFailed, such as FsyncFailed
        """
        settings, writing = self._store.settings, self._store.writing
        while settings.is_sync and not await writing.durable():
            pass  # A slow flush is awaited again until the caller is cancelled.
        if settings.is_replicated:
            await writing.acknowledged()

    async def save(self) -> None:
        """Saves the offsets at which recovery starts, once the log is durable.

        Errors   DiskFull, NotReplicated, StoreFailed
        """
        half_begin = self.halves.begin
        op_begin = self.ops.advance(half_begin)
        offsets = self._store.tables.offsets
        for topic, at in ((HALF_TOPIC, half_begin), (OP_HALF_TOPIC, op_begin)):
            assert at >= 0
            if at and at != offsets.find(TRANSACTION_GROUP, topic, 0):
                if await self._store.writing.durable():
                    await offsets.set_many(TRANSACTION_GROUP, topic, {0: at})
