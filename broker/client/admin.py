"""The client's half for pocketmq.v1.Admin: topics, groups, offsets, the store."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from broker.client.admin_values import (
    GroupOffset,
    GroupSettings,
    GroupState,
    MovedOffset,
    QueueLag,
    ResetTarget,
    SettingRow,
    TopicChange,
    TopicCounts,
    TopicLag,
)
from broker.client.channel import ClientChannel
from broker.client.values import Page, QueueState, StoreStatus, TopicState
from broker.rpc.pb import admin_pb2, broker_pb2

ADMIN: Final = "/pocketmq.v1.Admin/"
PAGE_SIZE: Final = 1_000

_Value = TypeVar("_Value", bound=tuple[Any, ...])


class AdminClient(ClientChannel):
    """What those who run a broker ask of it.

    Errors   of every method: ClientError and its kinds
    """

    __slots__ = ()

    # --- topics -----------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, *, queue_count: int = 0, type_name: str = "NORMAL"
    ) -> TopicState:
        """Make a topic; `type_name` is one of the proto's TopicType, in any case."""
        request = admin_pb2.CreateTopicRequest(
            name=name, queue_count=queue_count, type=type_name.upper()
        )
        answer = await self.ask(ADMIN + "CreateTopic", request, admin_pb2.CreateTopicResponse)
        return topic_state(answer.topic, [])

    async def list_topics(
        self, *, page_size: int = 0, page_token: str = "", include_system: bool = False
    ) -> Page[TopicState]:
        """Return a page of the topics, by name, without their queues."""
        request = admin_pb2.ListTopicsRequest(
            page_size=page_size, page_token=page_token, include_system=include_system
        )
        answer = await self.ask(ADMIN + "ListTopics", request, admin_pb2.ListTopicsResponse)
        topics = [topic_state(topic, []) for topic in answer.topics]
        return Page(topics, answer.next_page_token)

    async def describe_topic(self, name: str) -> TopicState:
        """Return a topic with its queues."""
        request = admin_pb2.DescribeTopicRequest(name=name)
        answer = await self.ask(ADMIN + "DescribeTopic", request, admin_pb2.DescribeTopicResponse)
        queues = [queue_state(queue.queue_id, queue) for queue in answer.queues]
        return topic_state(answer.topic, queues)

    async def update_topic(self, name: str, change: TopicChange) -> TopicState:
        """Change what is given of a topic."""
        request = admin_pb2.UpdateTopicRequest(name=name, **change._asdict())
        answer = await self.ask(ADMIN + "UpdateTopic", request, admin_pb2.UpdateTopicResponse)
        return topic_state(answer.topic, [])

    async def delete_topic(self, name: str) -> list[str]:
        """Remove a topic; returns it and the retry topics that went with it."""
        request = admin_pb2.DeleteTopicRequest(name=name)
        answer = await self.ask(ADMIN + "DeleteTopic", request, admin_pb2.DeleteTopicResponse)
        return list(answer.removed_topics)

    async def topic_counts(self, name: str) -> TopicCounts:
        """Return how many messages a topic holds, by queue."""
        request = admin_pb2.TopicStatsRequest(name=name)
        answer = await self.ask(ADMIN + "TopicStats", request, admin_pb2.TopicStatsResponse)
        return _topic_counts(answer.topics[0])

    async def all_topic_counts(
        self, *, page_token: str = "", include_system: bool = False, totals_only: bool = True
    ) -> Page[TopicCounts]:
        """Return how many messages topics hold, a large page of them."""
        request = admin_pb2.TopicStatsRequest(
            page_size=PAGE_SIZE if totals_only else 0,
            page_token=page_token,
            include_system=include_system,
            totals_only=totals_only,
        )
        answer = await self.ask(ADMIN + "TopicStats", request, admin_pb2.TopicStatsResponse)
        return Page([_topic_counts(row) for row in answer.topics], answer.next_page_token)

    # --- groups -----------------------------------------------------------------------------------

    async def create_group(self, name: str, settings: GroupSettings) -> GroupState:
        """Make a group."""
        request = admin_pb2.CreateGroupRequest(name=name, settings=_proto_settings(settings))
        answer = await self.ask(ADMIN + "CreateGroup", request, admin_pb2.CreateGroupResponse)
        return _group_state(answer.group, [])

    async def update_group(self, name: str, settings: GroupSettings) -> GroupState:
        """Change what is set of a group."""
        request = admin_pb2.UpdateGroupRequest(name=name, settings=_proto_settings(settings))
        answer = await self.ask(ADMIN + "UpdateGroup", request, admin_pb2.UpdateGroupResponse)
        return _group_state(answer.group, [])

    async def delete_group(self, name: str, *, with_topics: bool = False) -> list[str]:
        """Remove a group and where it stands; returns its own topics that went with it."""
        request = admin_pb2.DeleteGroupRequest(name=name, with_topics=with_topics)
        answer = await self.ask(ADMIN + "DeleteGroup", request, admin_pb2.DeleteGroupResponse)
        return list(answer.removed_topics)

    async def list_groups(
        self, *, page_token: str = "", include_system: bool = False
    ) -> Page[GroupState]:
        """Return a large page of the groups, by name."""
        request = admin_pb2.ListGroupsRequest(
            page_size=PAGE_SIZE, page_token=page_token, include_system=include_system
        )
        answer = await self.ask(ADMIN + "ListGroups", request, admin_pb2.ListGroupsResponse)
        return Page([_group_state(row, []) for row in answer.groups], answer.next_page_token)

    async def describe_group(self, name: str) -> GroupState:
        """Return a group with the topics it has an offset in."""
        request = admin_pb2.DescribeGroupRequest(name=name)
        answer = await self.ask(ADMIN + "DescribeGroup", request, admin_pb2.DescribeGroupResponse)
        return _group_state(answer.group, answer.topics)

    # --- where groups stand -----------------------------------------------------------------------

    async def list_offsets(self, group: str, topic: str = "") -> list[GroupOffset]:
        """Return where a group stands, in one topic or in all."""
        request = admin_pb2.ListOffsetsRequest(group=group, topic=topic)
        answer = await self.ask(ADMIN + "ListOffsets", request, admin_pb2.ListOffsetsResponse)
        return [GroupOffset(row.topic, row.queue_id, row.offset) for row in answer.offsets]

    async def group_lag(self, group: str, topic: str = "") -> list[TopicLag]:
        """Return how far a group is behind, by topic and queue."""
        request = admin_pb2.GroupLagRequest(group=group, topic=topic)
        answer = await self.ask(ADMIN + "GroupLag", request, admin_pb2.GroupLagResponse)
        return [_topic_lag(row) for row in answer.topics]

    async def all_lags(self, *, topic: str = "", page_token: str = "") -> Page[TopicLag]:
        """Return how far all groups are behind, in one topic or in all, a large page of it."""
        request = admin_pb2.GroupLagRequest(topic=topic, page_size=PAGE_SIZE, page_token=page_token)
        answer = await self.ask(ADMIN + "GroupLag", request, admin_pb2.GroupLagResponse)
        return Page([_topic_lag(row) for row in answer.topics], answer.next_page_token)

    async def set_offsets(
        self, group: str, topic: str, queue_offsets: Mapping[int, int], *, dry_run: bool = False
    ) -> list[MovedOffset]:
        """Set a group's offsets in queues of a topic."""
        pairs = [
            admin_pb2.QueueOffset(queue_id=queue_id, offset=queue_offset)
            for queue_id, queue_offset in queue_offsets.items()
        ]
        request = admin_pb2.SetOffsetsRequest(
            group=group, topic=topic, offsets=pairs, dry_run=dry_run
        )
        return await self._move("SetOffsets", request)

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_ids: tuple[int, ...] = (),
        dry_run: bool = False,
    ) -> list[MovedOffset]:
        """Let a group stand at a target in all queues of a topic, or in some."""
        request = admin_pb2.ResetOffsetsRequest(
            group=group, topic=topic, queue_ids=queue_ids, dry_run=dry_run
        )
        if target.time_ms is not None:
            request.time_ms = target.time_ms
        elif target.queue_offset is not None:
            request.offset = target.queue_offset
        else:
            places = admin_pb2.ResetOffsetsRequest
            request.place = places.LATEST if target.latest else places.EARLIEST
        return await self._move("ResetOffsets", request)

    async def clone_offsets(
        self, source: str, target: str, topic: str = "", *, dry_run: bool = False
    ) -> list[MovedOffset]:
        """Let a group stand where another one stands, in one topic or in all."""
        request = admin_pb2.CloneOffsetsRequest(
            source_group=source, target_group=target, topic=topic, dry_run=dry_run
        )
        return await self._move("CloneOffsets", request)

    async def _move(self, method: str, request: Message) -> list[MovedOffset]:
        answer = await self.ask(ADMIN + method, request, admin_pb2.MoveOffsetsResponse)
        return [
            MovedOffset(
                row.topic,
                row.queue_id,
                row.old_offset if row.HasField("old_offset") else None,
                row.new_offset,
            )
            for row in answer.offsets
        ]

    # --- the store and its process ----------------------------------------------------------------

    async def store_status(self) -> StoreStatus:
        """Return what the store is doing and how far it has come."""
        request = admin_pb2.StoreStatusRequest()
        answer = await self.ask(ADMIN + "StoreStatus", request, admin_pb2.StoreStatusResponse)
        return _plain(StoreStatus, answer)

    async def flush(self) -> int:
        """Make everything durable that was appended before; returns up to where it is."""
        request = admin_pb2.FlushRequest()
        return (await self.ask(ADMIN + "Flush", request, admin_pb2.FlushResponse)).flushed_offset

    async def effective_config(self) -> list[SettingRow]:
        """Return every setting of the broker."""
        request = admin_pb2.EffectiveConfigRequest()
        answer = await self.ask(
            ADMIN + "EffectiveConfig", request, admin_pb2.EffectiveConfigResponse
        )
        return [_plain(SettingRow, row) for row in answer.rows]

    async def drain(self) -> None:
        """Ask the broker to end in order."""
        await self.ask(ADMIN + "Drain", admin_pb2.DrainRequest(), admin_pb2.DrainResponse)


def _plain(kind: type[_Value], message: Message) -> _Value:
    """Return a named tuple of the message's fields of the same names."""
    return kind(**{name: getattr(message, name) for name in kind._fields})  # type: ignore[attr-defined]


def queue_state(
    queue_id: int, state: broker_pb2.QueryOffsetsResponse | admin_pb2.QueueState
) -> QueueState:
    """Return what an answer tells of a queue."""
    return QueueState(
        queue_id,
        state.min_offset,
        state.max_offset,
        state.min_store_timestamp_ms,
        state.max_store_timestamp_ms,
    )


def topic_state(topic: admin_pb2.Topic, queues: list[QueueState]) -> TopicState:
    """Return what an answer tells of a topic."""
    return TopicState(
        name=topic.name,
        read_queue_count=topic.read_queue_count,
        write_queue_count=topic.write_queue_count,
        permission=topic.permission,
        type=admin_pb2.TopicType.Name(topic.type),
        system=topic.system,
        order=topic.order,
        attributes=dict(topic.attributes),
        queues=queues,
    )


def _topic_counts(stats: admin_pb2.TopicStats) -> TopicCounts:
    queues = [queue_state(queue.queue_id, queue) for queue in stats.queues]
    return _plain(TopicCounts, stats)._replace(queues=queues)


def _group_state(group: admin_pb2.Group, topics: Iterable[str]) -> GroupState:
    settings = _plain(GroupSettings, group.settings)
    return GroupState(group.name, settings, group.system, dict(group.attributes), list(topics))


def _proto_settings(settings: GroupSettings) -> admin_pb2.GroupSettings:
    return admin_pb2.GroupSettings(**settings._asdict())


def _topic_lag(lag: admin_pb2.TopicLag) -> TopicLag:
    queues = [_queue_lag(queue) for queue in lag.queues]
    return _plain(TopicLag, lag)._replace(queues=queues)


def _queue_lag(lag: admin_pb2.QueueLag) -> QueueLag:
    plain = _plain(QueueLag, lag)
    return plain if lag.HasField("committed_offset") else plain._replace(committed_offset=None)
