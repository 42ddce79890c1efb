"""Offsets of queues and groups for classic clients.

    14  QUERY_CONSUMER_OFFSET     29  SEARCH_OFFSET_BY_TIMESTAMP   31  GET_MIN_OFFSET
    15  UPDATE_CONSUMER_OFFSET    30  GET_MAX_OFFSET               32  GET_EARLIEST_MSG_STORETIME

A one-way commit that advances an offset is written to the disk within seconds, as in RocketMQ. Any
other commit is durable before the answer.
Source: ConsumerManageProcessor, AdminBrokerProcessor.
"""

from pocketmq.model.errors import OffsetOutOfRange
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.reading import Bound
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.status import OK, QUERY_NOT_FOUND
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import (
    TopicCheck,
    check_client_locates,
    check_client_reads,
    find_readable,
)
from pocketmq.services.consume.position import begins_recently
from pocketmq.store.read.cold_read import value_of
from pocketmq.wire.remoting import Command


class ClassicOffsets:
    """The requests for offsets."""

    __slots__ = ("_clients", "_query", "_store")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._store = backing.store
        self._query = backing.query
        self._clients = clients

    async def committed(self, request: Command, call: ClassicCall) -> Command:
        """Returns a group's offset in a queue.

        For a group without an offset, returns 0 if message 0 exists and is recent, unless
        setZeroIfNotFound is false. Otherwise returns QUERY_NOT_FOUND, and the client decides where
        to begin.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable`, QueueOutOfRange,
                 DiskSlow
        """
        topic, queue_id = self._queue(request, check_client_reads)
        group = text_field(request, "consumerGroup")
        found = self._store.tables.offsets.find(group, topic, queue_id)
        if found is not None:
            return _offset(found)
        if request.fields.get("setZeroIfNotFound", "").lower() == "false":
            remark = "Not found, do not set to zero, maybe this group boot first"
            return Command(QUERY_NOT_FOUND, remark=remark)
        if await begins_recently(self._store, topic, queue_id):
            return _offset(0)
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return Command(QUERY_NOT_FOUND, remark=remark)

    async def commit(self, request: Command, call: ClassicCall) -> Command:
        """Sets a group's offset in a queue, also to a lower offset.

        A negative offset changes nothing: RocketMQ's Go client commits -1 in queues from which it
        received nothing.

        Errors   MalformedRequest, IllegalNumber, OffsetOutOfRange, those of `find_readable` and
                 `ClassicClients.ensure`, QueueOutOfRange, DiskFull
        """
        topic, queue_id = self._queue(request, check_client_reads)
        group = text_field(request, "consumerGroup")
        queue_offset = number_field(request, "commitOffset", lower=-OFFSET_MAX, upper=OFFSET_MAX)
        if queue_offset < 0:
            return OK
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        if queue_offset > max(upper, self._store.reading.whole_end(topic, queue_id)):
            raise OffsetOutOfRange(queue_offset=queue_offset, min_offset=lower, max_offset=upper)
        tables = self._store.tables
        if tables.offsets.resets.holds(group, topic, queue_id):
            # The consumer has not yet read the offset to which its group was reset.
            return Command(0, remark="Offset has been previously reset")
        if tables.groups.find(group) is None:
            await self._clients.ensure(group)
        before = tables.offsets.find(group, topic, queue_id)
        if request.is_one_way and queue_offset >= (before or 0):
            tables.offsets.advance(group, topic, queue_id, queue_offset)
        else:
            await tables.commit(group, topic, queue_id, queue_offset)
        return OK

    async def by_time(self, request: Command, call: ClassicCall) -> Command:
        """Returns a queue's offset at a store time.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable`, QueueOutOfRange,
                 DiskSlow
        """
        topic, queue_id = self._queue(request, check_client_locates)
        time_ms = number_field(request, "timestamp", lower=-OFFSET_MAX, upper=OFFSET_MAX)
        is_upper = request.fields.get("boundaryType", "").upper() == Bound.UPPER.name
        bound = Bound.UPPER if is_upper else Bound.LOWER
        return _offset(await self._query.offset_by_time(topic, queue_id, max(time_ms, 0), bound))

    def largest(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offset that a queue's next message will get.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable`, QueueOutOfRange
        """
        return _offset(self._range(request)[1])

    def smallest(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offset of a queue's first message.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable`, QueueOutOfRange
        """
        return _offset(self._range(request)[0])

    async def earliest_time(self, request: Command, call: ClassicCall) -> Command:
        """Returns the store time of a queue's first message, -1 for an empty queue.

        Errors   MalformedRequest, IllegalNumber, those of `find_readable`, QueueOutOfRange,
                 StorageError, DiskSlow
        """
        topic, queue_id = self._queue(request, check_client_locates)
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        found = None
        if lower < upper:
            found = await value_of(self._store.reading.store_timestamp_at(topic, queue_id, lower))
        return Command(0, {"timestamp": str(-1 if found is None else found)})

    def _range(self, request: Command) -> tuple[int, int]:
        return self._store.reading.queue_range(*self._queue(request, check_client_locates))

    def _queue(self, request: Command, check: TopicCheck) -> tuple[str, int]:
        topic, queue_id = text_field(request, "topic"), number_field(request, "queueId")
        group = request.fields.get("consumerGroup", "")
        find_readable(self._store.tables.topics, topic, group, check).check_queue(queue_id)
        return topic, queue_id


def _offset(found: int) -> Command:
    return Command(0, {"offset": str(found)})
