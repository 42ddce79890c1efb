"""Topics: made, changed, listed, described, counted, removed."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.model.errors import IllegalAttribute, SystemTopic
from broker.model.offsets import OFFSET_MAX
from broker.model.system_topics import RETRY_PREFIX, is_group_topic, is_system_topic
from broker.model.topic import PERMISSION_MAX, QUEUE_COUNT_MAX, TYPE_ATTRIBUTE, TopicConfig
from broker.model.topic_names import check_topic
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.topic_access import find_topic
from broker.rpc.v1.admin.needs import Offsets, Store, TopicTable
from broker.rpc.v1.admin.pages import check_topic_token, page_of
from broker.rpc.v1.convert import check_number
from broker.services.query import Query

QUEUE_COUNT_DEFAULT: Final = 8
"""As a real broker's defaultTopicQueueNums."""
TYPE_NAMES: Final = frozenset(pb.TopicType.keys())
TYPE_VALUES: Final = (TYPE_NAMES - {"TOPIC_TYPE_UNSPECIFIED"}) | {"MIXED"}
RESERVE_TIME_ATTRIBUTE: Final = "reserve.time"
FIXED_ATTRIBUTES: Final = frozenset({"queue.type", "cleanup.policy"})
"""Attributes that decide how a topic is stored: they stay as they were made."""
RETRY_SEPARATORS: Final = ("_", "+")
"""Between group and topic in the name of the retry topic a group has for one topic."""


class TopicMethods:
    """The methods about topics."""

    __slots__ = ("_offsets", "_query", "_store", "_topics")

    def __init__(self, query: Query, *, store: Store, topics: TopicTable, offsets: Offsets) -> None:
        self._query = query
        self._store = store
        self._topics = topics
        self._offsets = offsets

    async def create_topic(
        self, request: pb.CreateTopicRequest, call: Call
    ) -> pb.CreateTopicResponse:
        """Make a topic, or return the one that is there with the same settings.

        Errors   IllegalTopic, SystemTopic, IllegalNumber, TopicExists, DiskFull
        """
        name = request.name
        check_topic(name)
        if is_system_topic(name) or is_group_topic(name):
            raise SystemTopic(topic=name, why="create")
        check_number("queue_count", request.queue_count, upper=QUEUE_COUNT_MAX)
        check_number("type", request.type, upper=pb.PRIORITY)
        config = await self._topics.create(
            name,
            queue_count=request.queue_count or QUEUE_COUNT_DEFAULT,
            attributes={TYPE_ATTRIBUTE: pb.TopicType.Name(request.type or pb.NORMAL)},
        )
        return pb.CreateTopicResponse(topic=proto_topic(config))

    async def update_topic(
        self, request: pb.UpdateTopicRequest, call: Call
    ) -> pb.UpdateTopicResponse:
        """Change what is set of a topic.

        Errors   IllegalTopic, SystemTopic, TopicNotFound, IllegalNumber, IllegalAttribute, DiskFull
        """
        config = self._find_changeable(request.name, why="change")
        for field in ("read_queue_count", "write_queue_count"):
            if request.HasField(field):
                check_number(field, getattr(request, field), lower=1, upper=QUEUE_COUNT_MAX)
        if request.HasField("permission"):
            check_number("permission", request.permission, upper=PERMISSION_MAX)
        given = {
            field: getattr(request, field)
            for field in ("read_queue_count", "write_queue_count", "permission", "order")
            if request.HasField(field)
        }
        attributes = changed_attributes(
            config.attributes, request.set_attributes, request.remove_attributes
        )
        changed = await self._topics.update(request.name, attributes=attributes, **given)
        return pb.UpdateTopicResponse(topic=proto_topic(changed))

    async def delete_topic(
        self, request: pb.DeleteTopicRequest, call: Call
    ) -> pb.DeleteTopicResponse:
        """Remove a topic, its queues, where groups stand in it, and their retry topics for it.

        Errors   IllegalTopic, SystemTopic, TopicNotFound, DiskFull
        Source   AdminBrokerProcessor.deleteTopic
        """
        name = self._find_changeable(request.name, why="remove").name
        retried = [topic for topic in self._retry_topics(name) if self._topics.find(topic)]
        # A caller who gives up half-way would leave queues that the next start takes for a topic.
        await asyncio.shield(self.remove_all([name, *retried]))
        return pb.DeleteTopicResponse(removed_topics=[name, *retried])

    async def remove_all(self, topics: Sequence[str]) -> None:
        """Remove topics: nobody may send to one before its queues go."""
        for topic in topics:
            await self._topics.remove(topic)
            await self._store.remove_topic(topic)
            await self._offsets.remove_topic(topic)

    def list_topics(self, request: pb.ListTopicsRequest, call: Call) -> pb.ListTopicsResponse:
        """Return a page of the topics, by name.

        Errors   IllegalNumber, IllegalPageToken
        """
        check_topic_token(request.page_token)
        names = self._names(with_system=request.include_system)
        page = page_of(names, request.page_size, request.page_token)
        return pb.ListTopicsResponse(
            topics=[proto_topic(find_topic(self._topics, name)) for name in page.names],
            next_page_token=page.next_token,
        )

    async def describe_topic(
        self, request: pb.DescribeTopicRequest, call: Call
    ) -> pb.DescribeTopicResponse:
        """Return a topic and where each of its queues begins and ends.

        Errors   IllegalTopic, TopicNotFound
        """
        config = find_topic(self._topics, request.name)
        return pb.DescribeTopicResponse(
            topic=proto_topic(config), queues=await self._queue_states(config)
        )

    async def topic_stats(self, request: pb.TopicStatsRequest, call: Call) -> pb.TopicStatsResponse:
        """Return how many messages topics hold, and since when; one topic, or a page of all.

        Errors   IllegalTopic, TopicNotFound, IllegalNumber, IllegalPageToken
        Cost     two looks into the log a queue, none with totals_only
        """
        if request.name:
            names, token = [find_topic(self._topics, request.name).name], ""
        else:
            check_topic_token(request.page_token)
            every = self._names(with_system=request.include_system)
            names, token = page_of(every, request.page_size, request.page_token)
        stats = []
        for name in names:
            config = self._topics.find(name)
            if config is not None:  # else it was removed while we waited
                stats.append(await self._stats(config, totals_only=request.totals_only))
            await asyncio.sleep(0)
        return pb.TopicStatsResponse(topics=stats, next_page_token=token)

    async def _stats(self, config: TopicConfig, *, totals_only: bool) -> pb.TopicStats:
        queues = []
        if totals_only:
            count = config.queue_count
            ranges = [
                self._store.reading.queue_range(config.name, queue_id) for queue_id in range(count)
            ]
        else:
            queues = await self._queue_states(config)
            ranges = [(queue.min_offset, queue.max_offset) for queue in queues]
        firsts = [q.min_store_timestamp_ms for q in queues if q.min_store_timestamp_ms]
        return pb.TopicStats(
            name=config.name,
            queue_count=len(ranges),
            message_count=sum(upper - lower for lower, upper in ranges),
            stored_count=sum(upper for _, upper in ranges),
            first_store_timestamp_ms=min(firsts, default=0),
            last_store_timestamp_ms=max((q.max_store_timestamp_ms for q in queues), default=0),
            queues=queues,
        )

    async def _queue_states(self, config: TopicConfig) -> list[pb.QueueState]:
        return [
            await self._queue_state(config.name, queue_id) for queue_id in range(config.queue_count)
        ]

    async def _queue_state(self, topic: str, queue_id: int) -> pb.QueueState:
        span = await self._query.span(topic, queue_id)
        return pb.QueueState(queue_id=queue_id, **span._asdict())

    def _names(self, *, with_system: bool) -> Iterable[str]:
        names = self._topics.names()
        return names if with_system else [name for name in names if not is_system_topic(name)]

    def _find_changeable(self, topic: str, *, why: str) -> TopicConfig:
        if is_system_topic(topic):
            raise SystemTopic(topic=topic, why=why)
        return find_topic(self._topics, topic)

    def _retry_topics(self, topic: str) -> Iterable[str]:
        for group, topics in self._offsets.topics_by_group().items():
            if topic in topics:
                for separator in RETRY_SEPARATORS:
                    yield f"{RETRY_PREFIX}{group}{separator}{topic}"


def changed_attributes(
    current: Mapping[str, str], given: Mapping[str, str], removed: Iterable[str]
) -> dict[str, str]:
    """Return attributes with some set and some removed.

    Errors   IllegalAttribute
    Source   AttributeUtil.alterCurrentAttributes, TopicAttributes
    """
    for name, value in given.items():
        _check_attribute(name, value)
    names = list(removed)
    for name in names:
        if name in FIXED_ATTRIBUTES:
            raise IllegalAttribute(name=name, why="it cannot be changed")
        if name in given:
            raise IllegalAttribute(name=name, why="it is set and removed at once")
        if name not in current:
            raise IllegalAttribute(name=name, why="the topic has none of this name to remove")
    return {k: v for k, v in {**current, **given}.items() if k not in names}


def _check_attribute(name: str, value: str) -> None:
    if name == TYPE_ATTRIBUTE:
        if value not in TYPE_VALUES:
            why = f"its value is one of {', '.join(sorted(TYPE_VALUES))}"
            raise IllegalAttribute(name=name, why=why)
    elif name == RESERVE_TIME_ATTRIBUTE:
        if not (_is_number(value) and int(value) <= OFFSET_MAX) and value != "-1":
            raise IllegalAttribute(name=name, why="its value is a number of ms, or -1")
    elif name in FIXED_ATTRIBUTES:
        raise IllegalAttribute(name=name, why="it cannot be changed")
    else:
        known = f"{TYPE_ATTRIBUTE} and {RESERVE_TIME_ATTRIBUTE}"
        raise IllegalAttribute(name=name, why=f"the attributes that can be set are {known}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19


def proto_topic(config: TopicConfig) -> pb.Topic:
    """Return a topic as it is sent to clients; its type is NORMAL where it has none."""
    type_name = config.type_name
    return pb.Topic(
        name=config.name,
        read_queue_count=config.read_queue_count,
        write_queue_count=config.write_queue_count,
        permission=config.permission,
        type=type_name if type_name in TYPE_NAMES else None,
        system=is_system_topic(config.name),
        order=config.order,
        attributes=config.attributes,
    )
