"""Checks undecided transactions: requests a decision from their producers.

For each check, the half message is stored again with the number of checks, and the check is sent to
a connected producer of its group. A transaction expires after `checks_max` checks, or after
`keep_ms` if no producer is connected. Most transactions are decided within a second, before their
half messages are read here.

Checks are due by the monotonic clock. A record's wall time can delay a check by at most the usual
delay, so setting back the clock stops no check.
Source: TransactionalMessageServiceImpl.check, AbstractTransactionalMessageCheckListener.
"""

import logging
from array import array
from bisect import bisect_right
from collections import Counter as CounterOf
from heapq import heappop, heappush
from typing import Final, NamedTuple

from pocketmq.format.half_message import Half, checked, given_up
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.batch import Run
from pocketmq.model.errors import BrokerError, PropertiesTooLarge, StoreFailed
from pocketmq.model.stats import Counter
from pocketmq.model.step import Now
from pocketmq.model.transaction import Check
from pocketmq.services.transaction.half_counts import HalfCounts
from pocketmq.services.transaction.half_table import HalfTable
from pocketmq.services.transaction.halves import HalfState
from pocketmq.services.transaction.producers import Producers, Room
from pocketmq.services.transaction.unresolved import UnresolvedHalves
from pocketmq.store.message_store import MessageStore

# -- schedule of checks ------------------------------------------------------------------------
ROUND_MS: Final = 100


class CheckSchedule:
    """Ranges of queue offsets by the monotonic time at which they are due."""

    __slots__ = ("_order", "_ranges")

    def __init__(self) -> None:
        self._order: list[int] = []
        self._ranges: dict[int, array[int]] = {}

    def add(self, at_ms: int, begin: int, end: int) -> None:
        """Schedules a range; `at_ms` is rounded up to a multiple of ROUND_MS."""
        assert begin < end
        moment = -(-at_ms // ROUND_MS)
        found = self._ranges.get(moment)
        if found is None:
            found = self._ranges[moment] = array("q")
            heappush(self._order, moment)
        if found and found[-1] == begin:
            found[-1] = end
        else:
            found.extend((begin, end))

    def add_once(self, at_ms: int, queue_offset: int) -> None:
        """Schedules one offset, unless it is already scheduled at that time.

        Callers must not use both `add` and `add_once` for one schedule.
        """
        moment = -(-at_ms // ROUND_MS)
        found = self._ranges.get(moment)
        if found is None:
            self.add(at_ms, queue_offset, queue_offset + 1)
            return
        place = bisect_right(found, queue_offset)
        if place % 2:
            assert found[place - 1] <= queue_offset < found[place]
        elif place and found[place - 1] == queue_offset:
            found[place - 1] = queue_offset + 1
        else:
            found[place:place] = array("q", (queue_offset, queue_offset + 1))

    @property
    def next_ms(self) -> int | None:
        """Monotonic time at which the first range is due."""
        return self._order[0] * ROUND_MS if self._order else None

    def due(self, now_ms: int, count_max: int) -> tuple[int, int] | None:
        """Removes and returns a due range of at most `count_max` offsets; None: no range is due."""
        if not self._order or self._order[0] * ROUND_MS > now_ms:
            return None
        found = self._ranges[self._order[0]]
        end = found.pop()
        begin = found.pop()
        assert begin < end
        if end - begin > count_max:
            found.extend((begin + count_max, end))
            end = begin + count_max
        if not found:
            del self._ranges[heappop(self._order)]
        return begin, end


# -- checking ----------------------------------------------------------------------------------
LOOK_AFTER_MS: Final = 1_000
"""Age at which a half message is first read; no check is earlier."""
LOOK_MAX: Final = 128
"""Upper limit of half messages read at once."""
RETRY_PAUSE_MS: Final = 1_000
"""Pause after a refused put, for example while the disk is full."""
TURN_MS: Final = 100
TURN_MAX: Final = 16
"""Upper limit of half messages of a group that are retried within TURN_MS while its producers have
no room."""
GROUPS_MAX: Final = 10_000
"""Upper limit of entries in `_turns`."""

logger = logging.getLogger(__name__)


class CheckRules(NamedTuple):
    """Settings of transaction checks.

    timeout_ms    time before the first check of a transaction (transactionTimeOut)
    interval_ms   time between two checks of a transaction (transactionCheckInterval)
    checks_max    number of checks after which a transaction expires (transactionCheckMax)
    keep_ms       age at which a transaction expires if no producer is connected, not within
                  interval_ms after a start (fileReservedTime); 0: never
    """

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15
    keep_ms: int = 72 * 3_600_000


class Checking:
    """Checks half messages that are due."""

    __slots__ = (
        "_began_ms", "_counts", "_doubts", "_expiries", "_ledger", "_parked", "_producers",
        "_store", "_turns", "checks", "due", "first_looks", "rules",
    )  # fmt: skip

    def __init__(
        self,
        store: MessageStore,
        ledger: HalfTable,
        doubts: UnresolvedHalves,
        producers: Producers,
        counts: HalfCounts,
        rules: CheckRules,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._doubts = doubts
        self._producers = producers
        self._counts = counts
        self.rules = rules
        self._began_ms = store.clock.monotonic_ms()
        self.first_looks = CheckSchedule()
        self.due = CheckSchedule()
        self._expiries = CheckSchedule()
        """Times at which half messages without a connected producer expire."""
        self._parked: dict[str, array[int]] = {}
        """Group -> ranges of half messages that wait until a producer connects."""
        self._turns: dict[str, tuple[int, int]] = {}
        """Group -> (monotonic time of the latest retries, number of these retries)."""
        self.checks = Counter(
            "pocketmq_transaction_checks_total",
            "Checks of undecided transactions, by result.",
            ("result",),
        )

    def take(self, rules: CheckRules, now_ms: int) -> bool:
        """Replaces the rules; returns whether half messages now wait for another expiry."""
        assert rules.checks_max >= 0
        groups = [*self._parked] if rules.keep_ms != self.rules.keep_ms else []
        self.rules = rules
        for group in groups:
            self.wake(group, now_ms)
        return bool(groups)

    def wake(self, group: str, now_ms: int) -> bool:
        """Schedules the half messages that wait for a producer of a group to connect, for now.

        Returns  whether there were any
        """
        ranges = self._parked.pop(group, None)
        for place in range(0, len(ranges or ()), 2):
            assert ranges is not None
            self.due.add(now_ms, ranges[place], ranges[place + 1])
        return ranges is not None

    @property
    def next_ms(self) -> int | None:
        """Time of the next check, monotonic ms."""
        timetables = self.first_looks, self.due, self._expiries
        return min((one.next_ms for one in timetables if one.next_ms is not None), default=None)

    async def look_at_some(self, now: Now) -> bool:
        """Checks at most LOOK_MAX due half messages; returns False if none is due.

        Errors   StoreFailed
        """
        for timetable in (self.due, self._expiries, self.first_looks):
            due = timetable.due(now.monotonic_ms, LOOK_MAX)
            if due is None:
                continue
            try:
                await self._look(*due, now, is_due=timetable is not self.first_looks)
            except StoreFailed:
                raise
            except BrokerError as error:  # For example, the disk is full.
                logger.warning("transaction.check_deferred", extra={"reason": str(error)})
                following = self.first_looks if timetable is self.first_looks else self.due
                following.add(now.monotonic_ms + RETRY_PAUSE_MS, *due)
            return True
        return False

    async def _look(self, begin: int, end: int, now: Now, *, is_due: bool) -> None:
        open_ones = self._ledger.halves.open_in(begin, end)
        if not open_ones:
            return
        found = await self._ledger.reading.read(open_ones)
        due: list[Half] = []
        for at in open_ones:
            if not self._ledger.halves.open_in(at, at + 1):
                continue  # Decided during the read.
            half = found.get(at)
            if half is not None:
                self._counts.look(half)
                wait_ms = 0 if is_due else self._wait_ms(half, now)
                if wait_ms > 0:
                    self.due.add(now.monotonic_ms + wait_ms, at, at + 1)
                else:
                    due.append(half)
            elif at in found:
                await self._pass_lost(at)
            else:
                self.first_looks.add(now.monotonic_ms + 1, at, at + 1)
        await self._check(due, now)

    def _wait_ms(self, half: Half, now: Now) -> int:
        rules = self.rules
        delay_ms = rules.interval_ms if half.checks else rules.timeout_ms
        if half.immunity_ms is not None and not half.checks:
            delay_ms = half.immunity_ms
        return max(min(delay_ms, half.store_ms + delay_ms - now.wall_ms), 0)

    async def _pass_lost(self, at: int) -> None:
        """Ends a half message whose record is damaged or deleted, with an op message only."""
        await self._doubts.clear(at)
        if not self._ledger.halves.is_open(at):
            return
        logger.warning("transaction.lost", extra={"queue_offset": at})
        self._ledger.take(at)
        try:
            await self._ledger.put([at], [])
        except BrokerError:
            self._ledger.give_back(at)
            raise
        self._ledger.finish(at, HalfState.LOST)

    async def _check(self, due: list[Half], now: Now) -> None:
        """Puts the replacements of due half messages, then sends the checks."""
        ends: list[_End] = []
        spoken_for: CounterOf[Room] = CounterOf()
        for half in due:
            end = await self._end_of(half, now, spoken_for)
            if end is not None:
                ends.append(end)
        pieces: list[list[_End]] = [[]]
        size = 0
        for end in ends:
            size += len(end.half.record)
            if size > self._ledger.put_bytes:
                pieces.append([])
                size = len(end.half.record)
            pieces[-1].append(end)
        asked: list[Check] = []
        for piece in filter(None, pieces):
            asked += await self._put(piece, now)
        await self._doubts.tell()
        if asked:
            await self._ledger.durable()
        for check in asked:
            result = "asked" if self._producers.ask(check) else "not_taken"
            self.checks.add((result,))

    async def _end_of(self, half: Half, now: Now, spoken_for: CounterOf[Room]) -> "_End | None":
        """Returns the outcome of a due half message; None: it is decided, or is checked later."""
        at, rules = half.place.queue_offset, self.rules
        await self._doubts.clear(at)
        if not self._ledger.halves.is_open(at):
            return None
        if not half.place.unique_key:
            return self._given_up(half)  # Without a key, no producer can identify the transaction.
        if half.real is not None and self._store.tables.is_removed(half.real.topic):
            logger.warning(
                "transaction.discarded",
                extra={
                    "key": half.place.unique_key,
                    "reason": f"topic {half.real.topic} was removed",
                },
            )
            return self._given_up(half)
        if half.checks >= rules.checks_max:
            return self._given_up(half)
        if self._producers.spare(half.group, spoken_for):
            try:
                run = checked(half, store_host=self._ledger.store_host)
            except PropertiesTooLarge:
                return self._given_up(half)
            return _End(half, HalfState.MOVED, run)
        # After a start, even if the broker was down for days, producers have time to connect.
        left_ms = max(
            half.store_ms + rules.keep_ms - now.wall_ms,
            self._began_ms + rules.interval_ms - now.monotonic_ms,
        )
        if rules.keep_ms and left_ms <= 0:
            return self._given_up(half)
        if self._producers.count(half.group):
            self._put_off(half.group, at, now)
            return None
        self._park(half.group, at)
        if rules.keep_ms:
            self._expiries.add_once(now.monotonic_ms + left_ms, at)
        return None

    def _given_up(self, half: Half) -> "_End":
        run = given_up(half, store_host=self._ledger.store_host)
        return _End(half, HalfState.GIVEN_UP, run)

    def _put_off(self, group: str, at: int, now: Now) -> None:
        """Schedules another check for when a producer of the group may have room."""
        turn_ms, count = self._turns.get(group, (0, 0))
        if turn_ms <= now.monotonic_ms:
            turn_ms, count = now.monotonic_ms + TURN_MS, 0
        elif count >= TURN_MAX:
            turn_ms, count = turn_ms + TURN_MS, 0
        if len(self._turns) >= GROUPS_MAX:
            self._turns.clear()
        self._turns[group] = turn_ms, count + 1
        self.due.add(turn_ms, at, at + 1)

    def _park(self, group: str, at: int) -> None:
        ranges = self._parked.setdefault(group, array("q"))
        if ranges and ranges[-1] == at:
            ranges[-1] = at + 1
        else:
            ranges.extend((at, at + 1))

    async def _put(self, ends: "list[_End]", now: Now) -> list[Check]:
        """Puts the replacements of half messages still open; returns the checks to send."""
        ends = [end for end in ends if self._ledger.halves.is_open(end.half.place.queue_offset)]
        if not ends:
            return []
        offsets = [end.half.place.queue_offset for end in ends]
        for at in offsets:
            self._ledger.take(at)
        try:
            results = await self._ledger.put(offsets, [end.run for end in ends if end.run])
        except BaseException as error:
            for at in offsets:
                self._ledger.give_back(at)
            if not isinstance(error, BrokerError) or isinstance(error, StoreFailed):
                raise
            logger.warning("transaction.check_deferred", extra={"reason": str(error)})
            for at in offsets:
                self.due.add(now.monotonic_ms + RETRY_PAUSE_MS, at, at + 1)
            return []
        asked, placed = [], iter(results)
        for half, state, run, later in ends:
            result = next(placed) if run else None
            at = half.place.queue_offset
            if state is HalfState.MOVED and result is not None:
                later = result.queue_offset
                place = HalfPlace(later, result.physical_offsets[0], half.place.unique_key)
                topic = "" if half.real is None else half.real.topic
                made = (transaction_id(place), half.group, half.record, half.checks + 1)
                asked.append(Check(*made, topic))
            elif state is HalfState.GIVEN_UP:
                logger.warning(
                    "transaction.given_up",
                    extra={"key": half.place.unique_key, "group": half.group},
                )
                self.checks.add(("given_up",))
            self._ledger.finish(at, state, later if state is HalfState.MOVED else 0)
        return asked


class _End(NamedTuple):
    """Outcome of a half message; `run` replaces the half message."""

    half: Half
    state: HalfState
    run: Run | None
    later: int = 0
