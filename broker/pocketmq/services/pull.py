"""Pulls messages of one queue, with long polling.

A pull that finds no message may be parked (store/read/append_notifier.py) until a message arrives.
A timeout is answered with an empty result, not with an error. A tag filter's scan without a match
yields to the event loop before it continues. A SQL filter's scan, which reads records, waits for
its user's turn (store/heavy_turns.py).

The caller checks which topics a client may read (rpc/topic_access.py), and the ranges of numbers.
Source: PullMessageProcessor, PullRequestHoldService.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from pocketmq.filter.turns import within_turn
from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.delivered import Delivered
from pocketmq.model.errors import BrokerError
from pocketmq.model.filter import Filter
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.append_notifier import AppendNotifier, GroupKey, Waiter

LOOKED_AT_MAX: Final = 256
LOOKED_AT_BYTES_MAX: Final = 256 * 1024
"""One read for a SQL filter covers up to this many records and bytes, or as many as the client
requests if that is more. With a selective filter, clients would need many calls for smaller reads.
RocketMQ scans 800 units a call."""


class PullRequest(NamedTuple):
    """A pull request; `wait_ms` is how long it may be parked, 0: it is not parked."""

    range: ReadRange
    wanted: Filter
    wait_ms: int
    group: str = ""
    room: Callable[[int], int] = int
    """Reserves memory, and returns how many bytes may be read. Called with the bytes to be read
    before a read, and with the answer's bytes after it. The default, `int`, sets no limit."""
    check_room: Callable[[int], None] = lambda _: None
    """Called with the size of the first record if it exceeds the granted bytes; raises an error if
    the record may not be read."""
    user: str = ""
    """The user whose turns a SQL filter waits for (store/heavy_turns.py)."""

    def from_offset(self, queue_offset: int) -> "PullRequest":
        """Returns this request with another queue offset."""
        return self._replace(range=self.range._replace(queue_offset=queue_offset))


Finish = Callable[[PullResult], Any]
"""Converts a result to an answer.

Errors   BrokerError
"""


class ParkedPull(Waiter):
    """A pull that waits for messages.

    place   queue offset at which the scan continues; no message before it matches
    """

    __slots__ = ("finish", "joined", "request")

    def __init__(
        self, waiting: AppendNotifier, request: PullRequest, finish: Finish, *, joined: bool
    ) -> None:
        topic, queue_id, queue_offset, _, _ = request.range
        super().__init__(waiting, (topic, queue_id), request.wanted, queue_offset, request.user)
        self.request = request
        self.finish = finish
        self.joined = joined

    @property
    def has_moved(self) -> bool:
        """Whether the scan skipped messages that do not match."""
        return self.place > self.request.range.queue_offset


class Pull:
    """All pulls of a broker."""

    __slots__ = (
        "_is_draining",
        "_store",
        "_waiting",
        "delivered",
        "on_pulled",
        "stats",
    )

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._waiting: AppendNotifier | None = None
        self._is_draining = False
        self.on_pulled: Callable[[PullRequest, Sequence[bytes]], None] | None = None
        """Called with each pull of a group that found messages, and their records."""
        self.delivered = Delivered()
        self.stats = self.delivered.stats

    @property
    def waiter_count(self) -> int:
        """The number of parked pulls."""
        return 0 if self._waiting is None else self._waiting.count

    def pull(
        self, request: PullRequest, *, joined: bool = False
    ) -> PullResult | Awaitable[PullResult]:
        """Returns available messages; an awaitable if the disk has to be read.

        joined   whether an element of the result may be several records; ignored with a filter, and
                 while `on_pulled` is set
        Errors   errors of `check_room`; raised by the awaitable: those of `Reading.pull`; Draining:
                 a SQL filter waited for its turn
        """
        found = self._read(request, joined=joined and self.on_pulled is None)
        if isinstance(found, PullResult):
            return self._counted(request, found)
        return self._counted_later(request, found)

    async def _counted_later(
        self, request: PullRequest, found: Awaitable[PullResult]
    ) -> PullResult:
        return self._counted(request, await found)

    def _counted(self, request: PullRequest, result: PullResult) -> PullResult:
        size = sum(map(len, result.records))
        request.room(size)
        if size:
            topic, group = request.range.topic, request.group
            self.delivered.count(topic, group, result.record_count, size)
            if group and self.on_pulled is not None:
                self.on_pulled(request, result.records)
        return result

    def _read(
        self, request: PullRequest, *, joined: bool = False
    ) -> PullResult | Awaitable[PullResult]:
        wanted, range_ = request.wanted, request.range
        accept = None if wanted.is_everything else wanted.matches_code
        if wanted.reads_records:
            range_, accept = _to_look_at(range_), None
        room = request.room(range_.max_bytes)
        if room < range_.max_bytes:
            range_ = range_._replace(max_bytes=room)
            self._check_first(request, range_)
            fitting = min(room, request.range.max_bytes)
            request = request._replace(range=request.range._replace(max_bytes=fitting))
        is_joined = joined and wanted.is_everything  # A filter examines each record.
        found = self._store.reading.pull(range_, accept, joined=is_joined)
        if wanted.is_everything:
            return found
        if isinstance(found, PullResult):
            return _matching(request, found)
        return self._matching_later(request, found)

    def _check_first(self, request: PullRequest, range_: ReadRange) -> None:
        """Checks the size of the first record, which the store returns even if it is too large."""
        size = self._store.reading.size_of(range_.topic, range_.queue_id, range_.queue_offset)
        if size > range_.max_bytes:
            request.check_room(size)

    async def _matching_later(
        self, request: PullRequest, found: Awaitable[PullResult]
    ) -> PullResult:
        result = await found
        if request.wanted.reads_records:
            await self._store.turns.turn(request.user)
        return _matching(request, result)

    def should_wait(self, request: PullRequest, result: PullResult) -> bool:
        """Returns whether a pull with this result may wait for messages."""
        if request.wait_ms <= 0 or self._is_draining or result.records:
            return False
        return _is_at_end(request, result) or _scanned_on(request, result)

    async def wait(
        self, request: PullRequest, result: PullResult, *, joined: bool = False
    ) -> PullResult:
        """Waits up to `wait_ms` for messages if `result` has none; returns the final result.

        In an empty result, `next_begin_offset` is the offset below which no message matches.

        Effects  a cancellation unregisters the pull
        Errors   errors of `pull`
        """
        if not self.should_wait(request, result):
            return result
        found: PullResult = await self.park(request, result, _as_it_is, joined=joined)
        return found

    def park(
        self,
        request: PullRequest,
        result: PullResult,
        finish: Finish,
        *,
        joined: bool = False,
    ) -> "asyncio.Future[Any]":
        """Parks a pull; the returned future has the result of `finish`.

        Effects  a cancellation unregisters the pull; a task is started only if a scan continues or
                 the disk is read
        Errors   raised by the future: errors of `pull` and `finish`
        """
        assert self.should_wait(request, result), "the result can be answered"
        waiting = self._waiting
        if waiting is None:
            arrivals = self._store.reading.arrivals
            turns = self._store.turns
            waiting = AppendNotifier(arrivals, self._look, self._serve, self._give_up, turns)
            self._waiting = waiting
        pull = ParkedPull(waiting, request, finish, joined=joined)
        pull.wait_until(waiting.loop.time() + request.wait_ms / 1000)
        if _is_at_end(request, result):
            waiting.join(pull)
        else:
            waiting.apart(self._serve_later(pull, result))
        return pull

    def drain(self) -> None:
        """Answers all parked pulls at once; later pulls do not wait."""
        self._is_draining = True
        if self._waiting is not None:
            self._waiting.end_all()
        assert self.waiter_count == 0

    def end_waits(self, group: str, topic: str) -> None:
        """Answers the parked pulls of a group in a topic at once; cost: linear in parked pulls."""
        if self._waiting is not None:
            self._waiting.end(lambda pull: (pull.request.group, pull.key[0]) == (group, topic))

    # -- parked pulls --------------------------------------------------------------------------
    def _look(
        self, key: tuple[str, int], group: GroupKey, queue_offset: int
    ) -> PullResult | Awaitable[PullResult]:
        """Reads one message for a group of parked pulls; metrics do not count this read."""
        wanted, user = group
        asked = ReadRange(*key, queue_offset, 1, 1)
        return self._read(PullRequest(asked, wanted, 0, user=user))

    def _serve(self, pull: "ParkedPull") -> None:
        request = pull.request.from_offset(pull.place)
        try:
            found = self.pull(request, joined=pull.joined)
        except BrokerError as error:
            pull.fail(error)
            return
        if not isinstance(found, PullResult) or _scanned_on(request, found):
            assert self._waiting is not None
            self._waiting.apart(self._serve_later(pull, found))
        else:
            self._settle(pull, found)

    async def _serve_later(
        self, pull: "ParkedPull", found: PullResult | Awaitable[PullResult]
    ) -> None:
        try:
            request = pull.request.from_offset(pull.place)
            result = found if isinstance(found, PullResult) else await found
            while not self._is_draining and _scanned_on(request, result):
                pull.place = result.next_begin_offset
                if pull.done() or pull.place == result.max_offset:
                    break
                request = pull.request.from_offset(pull.place)
                if request.wanted.reads_records:
                    await self._store.turns.turn(request.user)
                else:
                    await asyncio.sleep(0)
                found = self.pull(request, joined=pull.joined)
                result = found if isinstance(found, PullResult) else await found
        except BrokerError as error:
            pull.fail(error)
        else:
            self._settle(pull, result)

    def _settle(self, pull: "ParkedPull", result: PullResult) -> None:
        if pull.done():
            return
        is_at_end = not result.records and pull.place == result.max_offset
        if is_at_end and not self._is_draining:
            assert self._waiting is not None
            self._waiting.join(pull)
            return
        if is_at_end and pull.has_moved:
            result = result._replace(status=PullStatus.NO_MATCHED_MESSAGE)
        try:
            pull.answer(pull.finish(result))
        except BrokerError as error:
            pull.fail(error)

    def _give_up(self, pull: "ParkedPull") -> None:
        topic, queue_id, _, _, _ = pull.request.range
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        status = PullStatus.NO_MATCHED_MESSAGE
        if not pull.has_moved:
            status = PullStatus.OFFSET_OVERFLOW_ONE if upper else PullStatus.NO_NEW_MESSAGE
        pull.answer(pull.finish(PullResult(status, pull.place, lower, upper, [], 0)))


def _as_it_is(result: PullResult) -> PullResult:
    return result


def _to_look_at(asked: ReadRange) -> ReadRange:
    max_messages = max(asked.max_messages, LOOKED_AT_MAX)
    return asked._replace(
        max_messages=max_messages, max_bytes=max(asked.max_bytes, LOOKED_AT_BYTES_MAX)
    )


def _matching(request: PullRequest, result: PullResult) -> PullResult:
    result = within_turn(request.wanted, result, request.range.queue_offset)
    matches = request.wanted.matches
    records = [record for record in result.records if matches(record)]
    if request.wanted.reads_records:
        count = _count_asked_for(request.range, records)
        if count < len(records):
            following = queue_offset_of(records[count])
            if request.range.queue_offset < following < result.next_begin_offset:
                result, records = result._replace(next_begin_offset=following), records[:count]
    if len(records) == len(result.records):
        return result
    status = result.status if records else PullStatus.NO_MATCHED_MESSAGE
    return result._replace(status=status, records=records, record_count=len(records))


def _count_asked_for(asked: ReadRange, records: list[bytes]) -> int:
    """Returns how many of the records fit the request; the first record always fits."""
    size = 0
    for number, record in enumerate(records):
        size += len(record)
        if number == asked.max_messages or (number and size > asked.max_bytes):
            return number
    return len(records)


def _is_at_end(request: PullRequest, result: PullResult) -> bool:
    return request.range.queue_offset == result.max_offset


def _scanned_on(request: PullRequest, result: PullResult) -> bool:
    is_unmatched = result.status is PullStatus.NO_MATCHED_MESSAGE
    return is_unmatched and result.next_begin_offset > request.range.queue_offset
