"""PullMessage, QueryOffset, GetOffset, UpdateOffset: access to a queue by its id, without leases.

No official client calls these methods, and RocketMQ's proxy does not serve them. They are meant for
users' own programs. Queue ids are those of the topic's real queues, while the protocol's other
methods show a topic with one queue.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from pocketmq.filter.owned import owned_by
from pocketmq.format.body_codec import BodyBudget
from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.errors import OffsetNotFound
from pocketmq.model.names import check_number
from pocketmq.model.reading import Bound, PullResult, PullStatus, ReadRange
from pocketmq.model.topic import TopicConfig
from pocketmq.rpc.call import Call, reading_user, turn_user
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.topic_access import check_client_reads, find_readable
from pocketmq.rpc.v2.caller import client_id_of
from pocketmq.rpc.v2.delivered import message_within
from pocketmq.rpc.v2.durations import ms_of
from pocketmq.rpc.v2.receive_message import filter_of, poll_ms
from pocketmq.rpc.v2.resources import group_of, topic_of
from pocketmq.rpc.v2.status import OK
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.services.query import Query
from pocketmq.store.begins import commit_offset
from pocketmq.store.message_store import MessageStore

PULL_MAX: Final = 1_024
PULL_BYTES_MAX: Final = 4 * 1024 * 1024
OUTSIDE: Final = frozenset({PullStatus.OFFSET_TOO_SMALL, PullStatus.OFFSET_OVERFLOW_BADLY})
NOTHING: Final = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")


class Offsets:
    """The methods that access queues by their ids."""

    __slots__ = ("_pull", "_query", "_store")

    def __init__(self, store: MessageStore, pull: Pull, query: Query) -> None:
        self._store = store
        self._pull = pull
        self._query = query

    async def pull_message(
        self, request: pb.PullMessageRequest, call: Call
    ) -> AsyncIterator[pb.PullMessageResponse]:
        """Yields a status, messages, and the next offset.

        Errors   ClientIdRequired, those of `_located`, IllegalNumber, IllegalFilter, Corruption
        """
        queue = request.message_queue
        config, group = self._located(queue, call, request.group)
        check_number("offset", request.offset)
        if request.filter_expression.type == pb.SQL:
            await self._store.turns.turn(turn_user(call))
        asked = PullRequest(
            range=ReadRange(
                config.name, queue.id, request.offset, min(max(request.batch_size, 1), PULL_MAX),
                PULL_BYTES_MAX,
            ),
            wanted=owned_by(group, config.name, filter_of(request.filter_expression)),
            wait_ms=poll_ms(request, call),
            group=group,
            room=call.room,
            user=reading_user(call, is_heavy=request.filter_expression.type == pb.SQL),
        )  # fmt: skip
        found = self._pull.pull(asked)
        result = found if isinstance(found, PullResult) else await found
        result = await self._pull.wait(asked, result)
        yield pb.PullMessageResponse(status=_status_of(result))
        budget, following = BodyBudget(), result.next_begin_offset
        for record in result.records:
            left_bytes = budget.left_bytes
            message = message_within(budget, record, queue.topic)
            if message is None:
                following = queue_offset_of(record)
                break
            yield pb.PullMessageResponse(message=message)
            if budget.left_bytes < left_bytes:
                await asyncio.sleep(0)
        yield pb.PullMessageResponse(next_offset=following)

    async def query_offset(
        self, request: pb.QueryOffsetRequest, call: Call
    ) -> pb.QueryOffsetResponse:
        """Returns the lowest or next offset of a queue, or the offset of a store time.

        Errors   ClientIdRequired, those of `_located`
        """
        config, _ = self._located(request.message_queue, call)
        queue_id = request.message_queue.id
        if request.query_offset_policy == pb.TIMESTAMP:
            found = await self._query.offset_by_time(
                config.name, queue_id, max(ms_of(request.timestamp), 0), Bound.LOWER
            )
        else:
            lower, upper = self._store.reading.queue_range(config.name, queue_id)
            found = upper if request.query_offset_policy == pb.END else lower
        return pb.QueryOffsetResponse(status=OK, offset=found)

    def standing(self, request: pb.GetOffsetRequest, call: Call) -> pb.GetOffsetResponse:
        """Returns a group's committed offset in a queue.

        Errors   ClientIdRequired, those of `_located`, OffsetNotFound
        """
        config, group = self._located(request.message_queue, call, request.group)
        queue_id = request.message_queue.id
        found = self._store.tables.offsets.find(group, config.name, queue_id)
        if found is None:
            raise OffsetNotFound(group=group, topic=config.name, queue_id=queue_id)
        return pb.GetOffsetResponse(status=OK, offset=found)

    async def update_offset(
        self, request: pb.UpdateOffsetRequest, call: Call
    ) -> pb.UpdateOffsetResponse:
        """Commits a group's offset in a queue; durable when this returns.

        Errors   ClientIdRequired, those of `_located`, IllegalNumber, OffsetOutOfRange, DiskFull
        """
        config, group = self._located(request.message_queue, call, request.group)
        queue_id = request.message_queue.id
        check_number("offset", request.offset)
        self._store.reading.check_offset(config.name, queue_id, request.offset)
        await commit_offset(self._store, group, config.name, queue_id, request.offset)
        return pb.UpdateOffsetResponse(status=OK)

    def _located(
        self, queue: pb.MessageQueue, call: Call, group: pb.Resource | None = None
    ) -> tuple[TopicConfig, str]:
        """Returns a queue's topic, and the group's name; "" if the request has no group.

        Errors   IllegalGroup, QueueOutOfRange, those of `topic_of` and `find_readable`
        """
        client_id_of(call)
        name = "" if group is None else group_of(group, call)
        topic = topic_of(queue.topic, call)
        config = find_readable(self._store.tables.topics, topic, name, check_client_reads)
        config.check_queue(queue.id)
        return config, name


def _status_of(result: PullResult) -> pb.Status:
    if result.records:
        return OK
    if result.status in OUTSIDE:
        text = f"the queue's offsets are {result.min_offset} to {result.max_offset}"
        return pb.Status(code=pb.ILLEGAL_OFFSET, message=text)
    return NOTHING
