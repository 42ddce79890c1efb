"""pocketmq.v1.Admin: topics, and the state of the store, for those who run the broker.

Each method is the same sentence as in messaging.py: check, ask, convert.
"""

from pathlib import Path
from typing import Final, Protocol

from broker import __version__
from broker.model.errors import IllegalPageToken, IllegalTopic, SystemTopic
from broker.model.system_topics import is_group_topic, is_system_topic
from broker.model.topic_names import check_topic
from broker.rpc.call import Call
from broker.rpc.convert import check_number
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.pull_message import Offsets, PullMessage
from broker.rpc.query_messages import QueryMessages
from broker.rpc.service import CallClass, Handler, Service, method
from broker.rpc.topic_access import Topics, check_operator_reads, find_topic
from broker.services.pull import Pull
from broker.services.query import Query
from broker.store.metadata import QUEUE_COUNT_MAX, TopicConfig

DESCRIPTOR: Final = pb.DESCRIPTOR.services_by_name["Admin"]
QUEUE_COUNT_DEFAULT: Final = 8
"""As a real broker's defaultTopicQueueNums."""
PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000
TYPE_ATTRIBUTE: Final = "message.type"
TYPE_NAMES: Final = frozenset(pb.TopicType.keys())


class TopicTable(Topics, Protocol):
    """All topics."""

    def names(self) -> list[str]:
        """Return all names, sorted."""

    async def create(
        self, topic: str, /, *, queue_count: int, attributes: dict[str, str] | None = None
    ) -> TopicConfig:
        """Make a topic; durable when it returns."""


class Settings(Protocol):
    """Settings of the store that its status tells."""

    @property
    def directory(self) -> Path:
        """Where it lies."""

    @property
    def flush(self) -> str:
        """What a send waits for."""

    @property
    def cluster(self) -> str:
        """The cluster's name."""

    @property
    def broker(self) -> str:
        """The broker's name."""


class StoreState(Protocol):
    """The numbers that describe a store; offsets are physical."""

    @property
    def settings(self) -> Settings:
        """How it was opened."""

    @property
    def state(self) -> str:
        """What it is doing."""

    @property
    def min_offset(self) -> int:
        """Where its oldest file begins."""

    @property
    def appended(self) -> int:
        """Where the log ends."""

    @property
    def flushed(self) -> int:
        """Up to where it is durable."""

    @property
    def dispatched(self) -> int:
        """Up to where queues and index know it."""


class Admin:
    """The methods of pocketmq.v1.Admin."""

    __slots__ = ("_pull_message", "_query", "_store", "_topics", "query_messages")

    def __init__(
        self,
        pull: Pull,
        query: Query,
        *,
        store: StoreState,
        topics: TopicTable,
        offsets: Offsets,
    ) -> None:
        self._query = query
        self._store = store
        self._topics = topics
        self.query_messages = QueryMessages(query, topics, check=check_operator_reads)
        self._pull_message = PullMessage(
            pull, topics, offsets=offsets, query=query, check=check_operator_reads
        )

    def service(self) -> Service:
        """Return the table of methods."""
        handlers: dict[str, Handler] = {
            "CreateTopic": self.create_topic,
            "ListTopics": self.list_topics,
            "DescribeTopic": self.describe_topic,
            "QueryByKey": self.query_messages.by_key,
            "QueryByTag": self.query_messages.by_tag,
            "QueryById": self.query_messages.by_id,
            "StoreStatus": self.store_status,
        }
        methods = [
            method(DESCRIPTOR, name, handler, CallClass.ADMIN) for name, handler in handlers.items()
        ]
        return Service(DESCRIPTOR.full_name, (self._pull_message.method(DESCRIPTOR), *methods))

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

    def list_topics(self, request: pb.ListTopicsRequest, call: Call) -> pb.ListTopicsResponse:
        """Return a page of the topics, by name.

        Errors   IllegalNumber, IllegalPageToken
        """
        check_number("page_size", request.page_size, upper=PAGE_SIZE_MAX)
        size, after = request.page_size or PAGE_SIZE_DEFAULT, request.page_token
        _check_page_token(after)
        names = [
            name
            for name in self._topics.names()
            if name > after and (request.include_system or not is_system_topic(name))
        ]
        shown = names[:size]
        return pb.ListTopicsResponse(
            topics=[proto_topic(find_topic(self._topics, name)) for name in shown],
            next_page_token=shown[-1] if len(names) > size else "",
        )

    def describe_topic(
        self, request: pb.DescribeTopicRequest, call: Call
    ) -> pb.DescribeTopicResponse:
        """Return a topic and where each of its queues begins and ends.

        Errors   IllegalTopic, TopicNotFound
        """
        config = find_topic(self._topics, request.name)
        count = max(config.read_queue_count, config.write_queue_count)
        queues = [self._queue_state(config.name, queue_id) for queue_id in range(count)]
        return pb.DescribeTopicResponse(topic=proto_topic(config), queues=queues)

    def store_status(self, request: pb.StoreStatusRequest, call: Call) -> pb.StoreStatusResponse:
        """Return what the store is doing and how far it has come."""
        store, settings = self._store, self._store.settings
        configs = [find_topic(self._topics, name) for name in self._topics.names()]
        return pb.StoreStatusResponse(
            state=store.state,
            directory=str(settings.directory),
            min_offset=store.min_offset,
            appended_offset=store.appended,
            flushed_offset=store.flushed,
            dispatched_offset=store.dispatched,
            flush_mode=settings.flush,
            version=__version__,
            topic_count=len(configs),
            queue_count=sum(config.write_queue_count for config in configs),
            cluster=settings.cluster,
            broker=settings.broker,
        )

    def _queue_state(self, topic: str, queue_id: int) -> pb.QueueState:
        span = self._query.span(topic, queue_id)
        return pb.QueueState(
            queue_id=queue_id,
            min_offset=span.min_offset,
            max_offset=span.max_offset,
            min_store_timestamp_ms=span.min_store_timestamp_ms,
            max_store_timestamp_ms=span.max_store_timestamp_ms,
        )


def proto_topic(config: TopicConfig) -> pb.Topic:
    """Return a topic as it is sent to clients; its type is NORMAL where it has none."""
    attributes = config.attributes
    type_name = attributes.get(TYPE_ATTRIBUTE, "NORMAL")
    return pb.Topic(
        name=config.name,
        read_queue_count=config.read_queue_count,
        write_queue_count=config.write_queue_count,
        permission=config.permission,
        type=type_name if type_name in TYPE_NAMES else None,
        system=is_system_topic(config.name),
        order=config.order,
        attributes=attributes,
    )


def _check_page_token(token: str) -> None:
    """Raise IllegalPageToken unless the token is empty or may be a topic's name, as ours are."""
    try:
        if token:
            check_topic(token)
    except IllegalTopic as error:
        raise IllegalPageToken(token=token) from error
