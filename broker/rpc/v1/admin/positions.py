"""Where groups stand: listed, set, reset, cloned.

What a move will do is known before anything is changed: all reads come first, and a dry run ends
behind them. Offsets of one topic are changed in one write.
Source: AdminBrokerProcessor.resetOffset, cloneGroupOffset.
"""

from collections.abc import Mapping, Sequence

from broker.model.errors import IllegalGroup
from broker.model.results import Bound
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.service import MalformedRequest
from broker.rpc.topic_access import check_queue, find_topic
from broker.rpc.v1.admin.groups import check_changeable, find_group
from broker.rpc.v1.admin.needs import GroupTable, Offsets, Store, TopicTable
from broker.rpc.v1.convert import check_number
from broker.services.query import Query


class PositionMethods:
    """The methods about where groups stand."""

    __slots__ = ("_groups", "_offsets", "_query", "_store", "_topics")

    def __init__(
        self,
        query: Query,
        groups: GroupTable,
        *,
        store: Store,
        topics: TopicTable,
        offsets: Offsets,
    ) -> None:
        self._query = query
        self._groups = groups
        self._store = store
        self._topics = topics
        self._offsets = offsets

    def list_offsets(self, request: pb.ListOffsetsRequest, call: Call) -> pb.ListOffsetsResponse:
        """Return where a group stands, by topic and queue.

        Errors   IllegalGroup, GroupNotFound, IllegalTopic, TopicNotFound
        """
        group = find_group(self._groups, request.group).name
        topic = request.topic and find_topic(self._topics, request.topic).name
        found = [
            pb.GroupOffset(topic=name, queue_id=queue_id, offset=queue_offset)
            for name, queues in sorted(self._offsets.all_of(group).items())
            for queue_id, queue_offset in sorted(queues.items())
            if not topic or name == topic
        ]
        return pb.ListOffsetsResponse(offsets=found)

    async def set_offsets(
        self, request: pb.SetOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Set a group's offsets in queues of a topic.

        Errors   those of finding group, topic and queues, OffsetOutOfRange, DiskFull
        """
        self._check_movable(request.group)
        config = find_topic(self._topics, request.topic)
        wanted: dict[int, int] = {}
        for row in request.offsets:
            check_queue(config, row.queue_id)
            check_number("offset", row.offset)
            self._query.check_offset(config.name, row.queue_id, row.offset)
            wanted[row.queue_id] = row.offset
        moved = self._moved(request.group, config.name, wanted)
        if not request.dry_run:
            await self._offsets.set_many(request.group, config.name, wanted)
        return pb.MoveOffsetsResponse(offsets=moved)

    async def reset_offsets(
        self, request: pb.ResetOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Let a group stand at a time, an end or an offset of each queue, all queues or some.

        Errors   those of finding group, topic and queues, IllegalNumber, OffsetOutOfRange,
                 MalformedRequest: it names no place, DiskFull
        """
        self._check_movable(request.group)
        config = find_topic(self._topics, request.topic)
        for queue_id in request.queue_ids:
            check_queue(config, queue_id)
        check_number("place", request.place, upper=pb.ResetOffsetsRequest.LATEST)
        check_number("time_ms", request.time_ms)
        check_number("offset", request.offset)
        queue_ids = sorted(set(request.queue_ids)) or range(config.read_queue_count)
        wanted = {
            queue_id: await self._place(request, config.name, queue_id) for queue_id in queue_ids
        }
        moved = self._moved(request.group, config.name, wanted)
        if not request.dry_run:
            await self._offsets.set_many(request.group, config.name, wanted)
        return pb.MoveOffsetsResponse(offsets=moved)

    async def clone_offsets(
        self, request: pb.CloneOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Let a group stand where another one stands, in one topic or in all of the other's.

        Errors   IllegalGroup, SystemGroup, GroupNotFound (the source), IllegalTopic, TopicNotFound,
                 DiskFull
        """
        source = find_group(self._groups, request.source_group).name
        target = request.target_group
        check_changeable(target, why="move")
        if source == target:
            raise IllegalGroup(group=target, why="it is the source of the clone as well")
        topic = request.topic and find_topic(self._topics, request.topic).name
        rows = {
            name: queues
            for name, queues in sorted(self._offsets.all_of(source).items())
            if not topic or name == topic
        }
        moved = [row for name, queues in rows.items() for row in self._moved(target, name, queues)]
        for name in rows if not request.dry_run else ():
            await self._offsets.clone(source, target, name)
        return pb.MoveOffsetsResponse(offsets=moved)

    async def _place(self, request: pb.ResetOffsetsRequest, topic: str, queue_id: int) -> int:
        """Return the queue offset a reset leads to."""
        lower, upper = self._store.reading.queue_range(topic, queue_id)
        match request.WhichOneof("to"):
            case "time_ms":
                return await self._query.offset_by_time(
                    topic, queue_id, request.time_ms, Bound.LOWER
                )
            case "offset":
                self._query.check_offset(topic, queue_id, request.offset)
                return request.offset
            case "place":
                return upper if request.place == pb.ResetOffsetsRequest.LATEST else lower
            case _:
                raise MalformedRequest(why="it does not say what to reset to")

    def _check_movable(self, group: str) -> None:
        find_group(self._groups, group)
        check_changeable(group, why="move")

    def _moved(self, group: str, topic: str, wanted: Mapping[int, int]) -> Sequence[pb.MovedOffset]:
        return [
            pb.MovedOffset(
                topic=topic,
                queue_id=queue_id,
                old_offset=self._offsets.find(group, topic, queue_id),
                new_offset=queue_offset,
            )
            for queue_id, queue_offset in sorted(wanted.items())
        ]
