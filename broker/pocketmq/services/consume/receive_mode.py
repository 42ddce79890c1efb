"""Receives of both delivery modes: reads queues one after the other until a receive is full.

Only one receive at a time reads a queue for a group.
Source: PopMessageProcessor.popMsgFromQueue.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pocketmq.filter.turns import within_turn
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.errors import BrokerError, MessageDamaged
from pocketmq.model.filter import Filter
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

RECEIVE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Upper limit of bytes of records in one receive; a larger first record is delivered alone."""
SCANS_MAX: Final = 8
"""Upper limit of reads of one queue without a match in one receive."""
logger = logging.getLogger(__name__)

Read = Callable[[GroupQueue, int, int], Awaitable[tuple[int, int]]]
"""(queue, limit of messages, limit of bytes) -> (received messages, received bytes)."""


async def pull_wanted(
    store: MessageStore,
    wanted: Filter,
    asked: ReadRange,
    accept: Callable[[int], bool] | None,
    user: str,
    *,
    joined: bool = False,
) -> PullResult:
    """Reads records for a filter, at most as many as the filter may test in one turn.

    If a record is damaged, the result is empty and continues after that record.

    user     a filter that reads records waits for a heavy turn of this user (store/heavy_turns.py)
    Errors   StorageError other than MessageDamaged, DiskSlow; Draining
    """
    try:
        result = await value_of(store.reading.pull(asked, accept, joined=joined))
    except MessageDamaged as error:
        logger.warning("message.damaged", extra={"reason": str(error)})
        behind = error.next_begin_offset
        return PullResult(PullStatus.NO_MATCHED_MESSAGE, behind, 0, behind, [], 0)
    if not wanted.reads_records:
        return result
    await store.turns.turn(user)
    return within_turn(wanted, result, asked.queue_offset)


class Taken(NamedTuple):
    """Messages that one receive leased.

    release   makes the messages available again if the client no longer waits; returns whether they
              are available at once
    """

    received: Received
    release: Callable[[], bool]


class ReceiveMode(ABC):
    """Leases messages to receives, in one delivery mode.

    on_freed   called with a group if queues that its receives skipped are no longer busy
    """

    __slots__ = ("_reading", "_store", "on_freed")

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._reading = store.reading
        self.on_freed: Callable[[str], None] = lambda _: None

    @abstractmethod
    def was_given(self, request: ReceiveRequest, target: GroupTopic) -> bool:
        """Returns whether messages of an earlier receive of this attempt are still leased."""

    @abstractmethod
    async def again(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Returns the messages of an earlier receive of this attempt; None if none are leased.

        Errors   StorageError, DiskSlow
        """

    @abstractmethod
    async def take(self, request: ReceiveRequest, target: GroupTopic) -> Taken | None:
        """Leases available messages; returns None if there are none.

        The leases survive a crash once `durable` has returned.

        Errors   GroupNotFound; errors of a put: nothing was leased
        """

    @abstractmethod
    def when_durable(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None or an error once all leases so far are durable."""

    @abstractmethod
    async def durable(self) -> None:
        """Waits until all leases so far are as durable as the delivery mode promises.

        Errors   DiskFull, StoreFailed
        """

    @abstractmethod
    def _has_some(self, target: GroupTopic, queue: GroupQueue) -> bool:
        """Returns whether a receive may find messages in a queue."""

    def is_ready(self, target: GroupTopic) -> bool:
        """Returns whether a receive may find messages; False for a group deleted or turned off."""
        group = self._store.tables.groups.find(target.group)
        if group is None or group.settings.enabled is False:
            return False
        for queue in target.all_queues():
            if not _is_busy(queue) and self._has_some(target, queue):
                return True
        return False

    def _free(self, busy: list[GroupQueue]) -> None:
        """Lets other receives read queues."""
        for queue in busy:
            queue.is_busy = False
        missed = [queue for queue in busy if queue.is_missed]
        for queue in missed:
            queue.is_missed = False
        if missed:
            self.on_freed(missed[0].group)

    async def _fill(
        self, request: ReceiveRequest, target: GroupTopic, busy: list[GroupQueue], read: Read
    ) -> None:
        """Reads queues one after the other until a receive is full.

        Effects  adds the read queues to `busy`; the caller has to call `_free` with them
        Errors   errors of `read`; after messages were found, an error ends the receive without
                 being raised
        """
        count, size_bytes = request.max_messages, request.room(RECEIVE_BYTES_MAX)
        left_count, left_bytes = count, size_bytes
        for queue in target.in_turn():
            if _is_busy(queue) or not self._has_some(target, queue):
                continue
            queue.is_busy = True
            busy.append(queue)
            try:
                read_count, read_bytes = await read(queue, left_count, left_bytes)
            except BrokerError as error:
                if left_count == count:
                    raise
                logger.warning("receive.cut_short", extra={"reason": str(error)})
                break
            left_count -= read_count
            left_bytes -= read_bytes
            if left_count <= 0 or left_bytes <= 0:
                break
        request.room(size_bytes - left_bytes)


def _is_busy(queue: GroupQueue) -> bool:
    """Returns whether a queue is busy; sets `is_missed` if so, as the caller skips the queue."""
    if queue.is_busy:
        queue.is_missed = True
    return queue.is_busy
