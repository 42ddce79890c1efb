"""Receives of a broadcasting group: every client gets every message, without leases.

Each client has an offset in every queue. The offset begins at the group's committed offset; if the
group has none, it begins where the request or the group's setting states. In a queue that is added
later it begins at the min offset. Client offsets are kept only in memory: a restart discards them.
Source: BroadcastOffsetManager.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pocketmq.filter.owned import owned_by
from pocketmq.model.consuming import Received, ReceiveRequest
from pocketmq.model.errors import BrokerError
from pocketmq.model.reading import ReadRange
from pocketmq.services.consume.position import begin_offset, begins_at_max
from pocketmq.services.consume.receive_mode import RECEIVE_BYTES_MAX, pull_wanted
from pocketmq.store.message_store import MessageStore
from pocketmq.store.watermark import Watermark

CLIENTS_KEPT_MAX: Final = 10_000
"""Upper limit of clients whose offsets are kept; the least recently used client is evicted."""
SWEEP_ABOVE: Final = 64
"""If a queue has more waiters, the cancelled waiters are removed."""
ClientKey = tuple[str, str, str]
"""(group, topic, client id)."""

logger = logging.getLogger(__name__)


class Broadcasting:
    """Offsets of broadcasting clients, and their receives."""

    __slots__ = ("_changes", "_is_draining", "_positions", "_store")

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._positions: dict[ClientKey, dict[int, int]] = {}
        self._changes: dict[str, Watermark] = {}
        """Marks of topics that clients wait for; a change of the topic advances its mark."""
        self._is_draining = False
        store.tables.topics.follow(self._changed)

    def _changed(self, topic: str) -> None:
        if topic in self._changes:
            self._changes.pop(topic).advance(1)

    def drain(self) -> None:
        """Prevents new waits; parked receives are answered when the store closes."""
        self._is_draining = True

    async def receive(
        self, request: ReceiveRequest, check: Callable[[str, str], object]
    ) -> Received:
        """Returns the next messages of a client, with empty handles; waits if there are none.

        check    raises an error if a group may no longer receive a topic
        Errors   StorageError, DiskSlow, Draining, errors of `check`
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_ms / 1000
        if request.begins_at_time:
            await self._begin_at_time(request)
        while True:
            positions = self._of(request)
            records = await self._read(request, positions)
            left = deadline - loop.time()
            if records or left <= 0 or self._is_draining:
                now_ms = self._store.clock.wall_ms()
                attempts = [1] * len(records)
                return Received(records, [""] * len(records), attempts, 0, now_ms)
            await self._arrival(request.topic, positions, left)
            check(request.group, request.topic)

    def _of(self, request: ReceiveRequest) -> dict[int, int]:
        """Returns a client's offsets by queue; the client becomes the most recently used client."""
        key = (request.group, request.topic, request.client_id)
        found = self._positions.pop(key, None)
        self._positions[key] = found = {} if found is None else found
        if len(self._positions) > CLIENTS_KEPT_MAX:
            del self._positions[next(iter(self._positions))]
        assert len(self._positions) <= CLIENTS_KEPT_MAX
        topic, offsets = self._store.tables.topics.find(request.topic), self._store.tables.offsets
        is_new = not found and not offsets.has_some(request.group, request.topic)
        at_max = is_new and begins_at_max(self._store, request)
        for queue_id in range(0 if topic is None else topic.read_queue_count):
            lower, upper = self._store.reading.queue_range(request.topic, queue_id)
            at = found.get(queue_id)
            if at is None:
                at = offsets.find(request.group, request.topic, queue_id)
            if at is None:
                at = upper if at_max else lower
            found[queue_id] = min(max(at, lower), upper)
        return found

    async def _begin_at_time(self, request: ReceiveRequest) -> None:
        """Sets the first offsets of a client whose request states a time."""
        key = (request.group, request.topic, request.client_id)
        topic = self._store.tables.topics.find(request.topic)
        find = self._store.tables.offsets.find
        for queue_id in range(0 if topic is None else topic.read_queue_count):
            known = self._positions.get(key, {})
            if queue_id in known or find(request.group, request.topic, queue_id) is not None:
                continue
            at = await begin_offset(self._store, request.topic, queue_id, request.begin_ms)
            self._positions.setdefault(key, {}).setdefault(queue_id, at)

    async def _read(self, request: ReceiveRequest, positions: dict[int, int]) -> list[bytes]:
        wanted = owned_by(request.group, request.topic, request.wanted)
        is_by_code = not wanted.is_everything and not wanted.reads_records
        accept = wanted.matches_code if is_by_code else None
        records: list[bytes] = []
        passed: dict[int, int] = {}
        size_bytes = request.room(RECEIVE_BYTES_MAX)
        for queue_id, at in list(positions.items()):
            count = request.max_messages - len(records)
            if count <= 0 or size_bytes <= 0:
                break
            asked = ReadRange(request.topic, queue_id, at, count, size_bytes)
            try:
                result = await pull_wanted(self._store, wanted, asked, accept, request.user)
            except BrokerError as error:
                if not records:
                    raise
                logger.warning("receive.cut_short", extra={"reason": str(error)})
                break
            matching = [one for one in result.records if wanted.matches(one)]
            records += matching
            size_bytes -= sum(map(len, matching))
            passed[queue_id] = max(at, result.next_begin_offset)
        # A receive that failed or was cancelled before has delivered nothing.
        positions.update(passed)
        request.room(sum(map(len, records)))
        return records

    async def _arrival(self, topic: str, positions: dict[int, int], left: float) -> None:
        """Waits, at most `left` seconds, until a queue has a message, or the topic is changed."""
        arrivals = self._store.reading.arrivals
        marks = [(self._changes.setdefault(topic, Watermark()), 1)]
        marks += [(arrivals(topic, queue_id), at + 1) for queue_id, at in positions.items()]
        waiters = []
        for mark, value in marks:
            if mark.waiter_count > SWEEP_ABOVE:
                mark.sweep(0)
            waiters.append(mark.reached(value))
        try:
            await asyncio.wait(waiters, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
