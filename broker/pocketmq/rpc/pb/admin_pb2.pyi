from . import broker_pb2 as _broker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOPIC_TYPE_UNSPECIFIED: _ClassVar[TopicType]
    NORMAL: _ClassVar[TopicType]
    FIFO: _ClassVar[TopicType]
    DELAY: _ClassVar[TopicType]
    TRANSACTION: _ClassVar[TopicType]
    PRIORITY: _ClassVar[TopicType]
    MIXED: _ClassVar[TopicType]

class TraceStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRACE_STEP_UNSPECIFIED: _ClassVar[TraceStep]
    SENT: _ClassVar[TraceStep]
    SCHEDULED: _ClassVar[TraceStep]
    TIMED: _ClassVar[TraceStep]
    PREPARED: _ClassVar[TraceStep]
    RETRIED: _ClassVar[TraceStep]
    DEAD_LETTER: _ClassVar[TraceStep]
    INTERNAL: _ClassVar[TraceStep]
    RECALLED: _ClassVar[TraceStep]
TOPIC_TYPE_UNSPECIFIED: TopicType
NORMAL: TopicType
FIFO: TopicType
DELAY: TopicType
TRANSACTION: TopicType
PRIORITY: TopicType
MIXED: TopicType
TRACE_STEP_UNSPECIFIED: TraceStep
SENT: TraceStep
SCHEDULED: TraceStep
TIMED: TraceStep
PREPARED: TraceStep
RETRIED: TraceStep
DEAD_LETTER: TraceStep
INTERNAL: TraceStep
RECALLED: TraceStep

class Topic(_message.Message):
    __slots__ = ("name", "read_queue_count", "write_queue_count", "permission", "type", "system", "order", "attributes", "retention_ms", "retention_bytes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    type: TopicType
    system: bool
    order: bool
    attributes: _containers.ScalarMap[str, str]
    retention_ms: int
    retention_bytes: int
    def __init__(self, name: _Optional[str] = ..., read_queue_count: _Optional[int] = ..., write_queue_count: _Optional[int] = ..., permission: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ..., system: _Optional[bool] = ..., order: _Optional[bool] = ..., attributes: _Optional[_Mapping[str, str]] = ..., retention_ms: _Optional[int] = ..., retention_bytes: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "queue_count", "type", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue_count: int
    type: TopicType
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., queue_count: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "include_system", "with_stats", "name_part", "order", "skip", "with_sums")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NAME: _ClassVar[ListTopicsRequest.Order]
        TYPE: _ClassVar[ListTopicsRequest.Order]
        QUEUES: _ClassVar[ListTopicsRequest.Order]
        MESSAGES: _ClassVar[ListTopicsRequest.Order]
        SIZE: _ClassVar[ListTopicsRequest.Order]
        RATE: _ClassVar[ListTopicsRequest.Order]
        LAST: _ClassVar[ListTopicsRequest.Order]
    NAME: ListTopicsRequest.Order
    TYPE: ListTopicsRequest.Order
    QUEUES: ListTopicsRequest.Order
    MESSAGES: ListTopicsRequest.Order
    SIZE: ListTopicsRequest.Order
    RATE: ListTopicsRequest.Order
    LAST: ListTopicsRequest.Order
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    WITH_STATS_FIELD_NUMBER: _ClassVar[int]
    NAME_PART_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    WITH_SUMS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    include_system: bool
    with_stats: bool
    name_part: str
    order: ListTopicsRequest.Order
    skip: int
    with_sums: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_system: _Optional[bool] = ..., with_stats: _Optional[bool] = ..., name_part: _Optional[str] = ..., order: _Optional[_Union[ListTopicsRequest.Order, str]] = ..., skip: _Optional[int] = ..., with_sums: _Optional[bool] = ...) -> None: ...

class TopicTotals(_message.Message):
    __slots__ = ("topic_count", "message_count", "stored_count", "in_per_s")
    TOPIC_COUNT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_PER_S_FIELD_NUMBER: _ClassVar[int]
    topic_count: int
    message_count: int
    stored_count: int
    in_per_s: float
    def __init__(self, topic_count: _Optional[int] = ..., message_count: _Optional[int] = ..., stored_count: _Optional[int] = ..., in_per_s: _Optional[float] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token", "stats", "found_count", "total_count", "sums")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    FOUND_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    next_page_token: str
    stats: _containers.RepeatedCompositeFieldContainer[TopicStats]
    found_count: int
    total_count: int
    sums: TopicTotals
    def __init__(self, topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., stats: _Optional[_Iterable[_Union[TopicStats, _Mapping]]] = ..., found_count: _Optional[int] = ..., total_count: _Optional[int] = ..., sums: _Optional[_Union[TopicTotals, _Mapping]] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class QueueState(_message.Message):
    __slots__ = ("queue_id", "min_offset", "max_offset", "min_store_timestamp_ms", "max_store_timestamp_ms")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    min_offset: int
    max_offset: int
    min_store_timestamp_ms: int
    max_store_timestamp_ms: int
    def __init__(self, queue_id: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., min_store_timestamp_ms: _Optional[int] = ..., max_store_timestamp_ms: _Optional[int] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("topic", "queues")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    queues: _containers.RepeatedCompositeFieldContainer[QueueState]
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueState, _Mapping]]] = ...) -> None: ...

class UpdateTopicRequest(_message.Message):
    __slots__ = ("name", "read_queue_count", "write_queue_count", "permission", "order", "set_attributes", "remove_attributes")
    class SetAttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SET_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    REMOVE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    order: bool
    set_attributes: _containers.ScalarMap[str, str]
    remove_attributes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., read_queue_count: _Optional[int] = ..., write_queue_count: _Optional[int] = ..., permission: _Optional[int] = ..., order: _Optional[bool] = ..., set_attributes: _Optional[_Mapping[str, str]] = ..., remove_attributes: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("removed_topics",)
    REMOVED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    removed_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, removed_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class PurgeTopicRequest(_message.Message):
    __slots__ = ("name", "queue_ids", "before_ms", "dry_run", "planned")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue_ids: _containers.RepeatedScalarFieldContainer[int]
    before_ms: int
    dry_run: bool
    planned: _containers.RepeatedCompositeFieldContainer[PurgedQueue]
    def __init__(self, name: _Optional[str] = ..., queue_ids: _Optional[_Iterable[int]] = ..., before_ms: _Optional[int] = ..., dry_run: _Optional[bool] = ..., planned: _Optional[_Iterable[_Union[PurgedQueue, _Mapping]]] = ...) -> None: ...

class PurgedQueue(_message.Message):
    __slots__ = ("topic", "queue_id", "old_min_offset", "new_min_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OLD_MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEW_MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    old_min_offset: int
    new_min_offset: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., old_min_offset: _Optional[int] = ..., new_min_offset: _Optional[int] = ...) -> None: ...

class PurgeTopicResponse(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[PurgedQueue]
    def __init__(self, queues: _Optional[_Iterable[_Union[PurgedQueue, _Mapping]]] = ...) -> None: ...

class TopicStatsRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token", "include_system", "totals_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    TOTALS_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    include_system: bool
    totals_only: bool
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_system: _Optional[bool] = ..., totals_only: _Optional[bool] = ...) -> None: ...

class TopicStats(_message.Message):
    __slots__ = ("name", "queue_count", "message_count", "stored_count", "first_store_timestamp_ms", "last_store_timestamp_ms", "queues", "size_bytes", "size_estimated", "in_per_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    IN_PER_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue_count: int
    message_count: int
    stored_count: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueState]
    size_bytes: int
    size_estimated: bool
    in_per_s: float
    def __init__(self, name: _Optional[str] = ..., queue_count: _Optional[int] = ..., message_count: _Optional[int] = ..., stored_count: _Optional[int] = ..., first_store_timestamp_ms: _Optional[int] = ..., last_store_timestamp_ms: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueState, _Mapping]]] = ..., size_bytes: _Optional[int] = ..., size_estimated: _Optional[bool] = ..., in_per_s: _Optional[float] = ...) -> None: ...

class TopicStatsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicStats]
    next_page_token: str
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicStats, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GroupSettings(_message.Message):
    __slots__ = ("enabled", "fifo", "max_attempts", "retry_queue_count", "broadcast_enabled", "begins_at_min", "consume_timeout_minutes", "begin")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    FIFO_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_ENABLED_FIELD_NUMBER: _ClassVar[int]
    BEGINS_AT_MIN_FIELD_NUMBER: _ClassVar[int]
    CONSUME_TIMEOUT_MINUTES_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    fifo: bool
    max_attempts: int
    retry_queue_count: int
    broadcast_enabled: bool
    begins_at_min: bool
    consume_timeout_minutes: int
    begin: str
    def __init__(self, enabled: _Optional[bool] = ..., fifo: _Optional[bool] = ..., max_attempts: _Optional[int] = ..., retry_queue_count: _Optional[int] = ..., broadcast_enabled: _Optional[bool] = ..., begins_at_min: _Optional[bool] = ..., consume_timeout_minutes: _Optional[int] = ..., begin: _Optional[str] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("name", "settings", "system", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: GroupSettings
    system: bool
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ..., system: _Optional[bool] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateGroupRequest(_message.Message):
    __slots__ = ("name", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: GroupSettings
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ...) -> None: ...

class CreateGroupResponse(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: Group
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "include_system", "with_stats", "name_part", "order", "skip", "with_sums")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NAME: _ClassVar[ListGroupsRequest.Order]
        LAG: _ClassVar[ListGroupsRequest.Order]
        MEMBERS: _ClassVar[ListGroupsRequest.Order]
    NAME: ListGroupsRequest.Order
    LAG: ListGroupsRequest.Order
    MEMBERS: ListGroupsRequest.Order
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    WITH_STATS_FIELD_NUMBER: _ClassVar[int]
    NAME_PART_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    WITH_SUMS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    include_system: bool
    with_stats: bool
    name_part: str
    order: ListGroupsRequest.Order
    skip: int
    with_sums: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_system: _Optional[bool] = ..., with_stats: _Optional[bool] = ..., name_part: _Optional[str] = ..., order: _Optional[_Union[ListGroupsRequest.Order, str]] = ..., skip: _Optional[int] = ..., with_sums: _Optional[bool] = ...) -> None: ...

class GroupTotals(_message.Message):
    __slots__ = ("group_count", "lag_messages", "committed_sum", "member_count", "consuming_count")
    GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_SUM_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONSUMING_COUNT_FIELD_NUMBER: _ClassVar[int]
    group_count: int
    lag_messages: int
    committed_sum: int
    member_count: int
    consuming_count: int
    def __init__(self, group_count: _Optional[int] = ..., lag_messages: _Optional[int] = ..., committed_sum: _Optional[int] = ..., member_count: _Optional[int] = ..., consuming_count: _Optional[int] = ...) -> None: ...

class GroupStats(_message.Message):
    __slots__ = ("lag_messages", "member_count")
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COUNT_FIELD_NUMBER: _ClassVar[int]
    lag_messages: int
    member_count: int
    def __init__(self, lag_messages: _Optional[int] = ..., member_count: _Optional[int] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "stats", "found_count", "total_count", "sums")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    FOUND_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    next_page_token: str
    stats: _containers.RepeatedCompositeFieldContainer[GroupStats]
    found_count: int
    total_count: int
    sums: GroupTotals
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., stats: _Optional[_Iterable[_Union[GroupStats, _Mapping]]] = ..., found_count: _Optional[int] = ..., total_count: _Optional[int] = ..., sums: _Optional[_Union[GroupTotals, _Mapping]] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeGroupResponse(_message.Message):
    __slots__ = ("group", "topics")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group: Group
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateGroupRequest(_message.Message):
    __slots__ = ("name", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: GroupSettings
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[GroupSettings, _Mapping]] = ...) -> None: ...

class UpdateGroupResponse(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: Group
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("name", "with_topics", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WITH_TOPICS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    with_topics: bool
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., with_topics: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ("removed_topics",)
    REMOVED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    removed_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, removed_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ListProducersRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("address", "client_id", "groups", "language", "version", "sent_ms")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_MS_FIELD_NUMBER: _ClassVar[int]
    address: str
    client_id: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    language: str
    version: str
    sent_ms: int
    def __init__(self, address: _Optional[str] = ..., client_id: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., language: _Optional[str] = ..., version: _Optional[str] = ..., sent_ms: _Optional[int] = ...) -> None: ...

class ListProducersResponse(_message.Message):
    __slots__ = ("producers",)
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    def __init__(self, producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("group", "client_id", "address", "mode", "topics", "since_ms", "seen_ms", "language", "version")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    SEEN_MS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    address: str
    mode: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    since_ms: int
    seen_ms: int
    language: str
    version: str
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., address: _Optional[str] = ..., mode: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., since_ms: _Optional[int] = ..., seen_ms: _Optional[int] = ..., language: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class PrintClientStackRequest(_message.Message):
    __slots__ = ("group", "client_id", "wait_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    wait_ms: int
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class VerifyMessageRequest(_message.Message):
    __slots__ = ("group", "client_id", "topic", "message_id", "wait_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    client_id: str
    topic: str
    message_id: str
    wait_ms: int
    def __init__(self, group: _Optional[str] = ..., client_id: _Optional[str] = ..., topic: _Optional[str] = ..., message_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class AskClientResponse(_message.Message):
    __slots__ = ("status", "text", "stack")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    status: str
    text: str
    stack: str
    def __init__(self, status: _Optional[str] = ..., text: _Optional[str] = ..., stack: _Optional[str] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("group", "topic")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("topic", "queue_id", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ...) -> None: ...

class GroupLagRequest(_message.Message):
    __slots__ = ("group", "topic", "page_size", "page_token")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    page_size: int
    page_token: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class QueueLag(_message.Message):
    __slots__ = ("queue_id", "committed_offset", "min_offset", "max_offset", "lag_messages", "lag_ms", "in_flight_count", "in_flight_ms")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_COUNT_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_MS_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    committed_offset: int
    min_offset: int
    max_offset: int
    lag_messages: int
    lag_ms: int
    in_flight_count: int
    in_flight_ms: int
    def __init__(self, queue_id: _Optional[int] = ..., committed_offset: _Optional[int] = ..., min_offset: _Optional[int] = ..., max_offset: _Optional[int] = ..., lag_messages: _Optional[int] = ..., lag_ms: _Optional[int] = ..., in_flight_count: _Optional[int] = ..., in_flight_ms: _Optional[int] = ...) -> None: ...

class TopicLag(_message.Message):
    __slots__ = ("group", "topic", "committed_sum", "lag_messages", "lag_ms", "queues")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_SUM_FIELD_NUMBER: _ClassVar[int]
    LAG_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    committed_sum: int
    lag_messages: int
    lag_ms: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueLag]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., committed_sum: _Optional[int] = ..., lag_messages: _Optional[int] = ..., lag_ms: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueLag, _Mapping]]] = ...) -> None: ...

class GroupLagResponse(_message.Message):
    __slots__ = ("topics", "next_page_token")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicLag]
    next_page_token: str
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicLag, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class QueueOffset(_message.Message):
    __slots__ = ("queue_id", "offset")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    offset: int
    def __init__(self, queue_id: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class SetOffsetsRequest(_message.Message):
    __slots__ = ("group", "topic", "offsets", "dry_run")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    offsets: _containers.RepeatedCompositeFieldContainer[QueueOffset]
    dry_run: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[QueueOffset, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("group", "topic", "place", "time_ms", "offset", "queue_ids", "dry_run")
    class Place(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EARLIEST: _ClassVar[ResetOffsetsRequest.Place]
        LATEST: _ClassVar[ResetOffsetsRequest.Place]
    EARLIEST: ResetOffsetsRequest.Place
    LATEST: ResetOffsetsRequest.Place
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    place: ResetOffsetsRequest.Place
    time_ms: int
    offset: int
    queue_ids: _containers.RepeatedScalarFieldContainer[int]
    dry_run: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., place: _Optional[_Union[ResetOffsetsRequest.Place, str]] = ..., time_ms: _Optional[int] = ..., offset: _Optional[int] = ..., queue_ids: _Optional[_Iterable[int]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CloneOffsetsRequest(_message.Message):
    __slots__ = ("source_group", "target_group", "topic", "dry_run")
    SOURCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    TARGET_GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    source_group: str
    target_group: str
    topic: str
    dry_run: bool
    def __init__(self, source_group: _Optional[str] = ..., target_group: _Optional[str] = ..., topic: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class MovedOffset(_message.Message):
    __slots__ = ("topic", "queue_id", "old_offset", "new_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OLD_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEW_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    old_offset: int
    new_offset: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., old_offset: _Optional[int] = ..., new_offset: _Optional[int] = ...) -> None: ...

class MoveOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[MovedOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[MovedOffset, _Mapping]]] = ...) -> None: ...

class TraceMessageRequest(_message.Message):
    __slots__ = ("id", "topic")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    id: str
    topic: str
    def __init__(self, id: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class TracedRecord(_message.Message):
    __slots__ = ("step", "topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp_ms", "reconsume_times", "group", "target_topic", "deliver_at_ms", "delay_level", "passed_by", "awaited_by", "origin_topic")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    RECONSUME_TIMES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TARGET_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PASSED_BY_FIELD_NUMBER: _ClassVar[int]
    AWAITED_BY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_TOPIC_FIELD_NUMBER: _ClassVar[int]
    step: TraceStep
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    reconsume_times: int
    group: str
    target_topic: str
    deliver_at_ms: int
    delay_level: int
    passed_by: _containers.RepeatedScalarFieldContainer[str]
    awaited_by: _containers.RepeatedScalarFieldContainer[str]
    origin_topic: str
    def __init__(self, step: _Optional[_Union[TraceStep, str]] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., physical_offset: _Optional[int] = ..., store_timestamp_ms: _Optional[int] = ..., reconsume_times: _Optional[int] = ..., group: _Optional[str] = ..., target_topic: _Optional[str] = ..., deliver_at_ms: _Optional[int] = ..., delay_level: _Optional[int] = ..., passed_by: _Optional[_Iterable[str]] = ..., awaited_by: _Optional[_Iterable[str]] = ..., origin_topic: _Optional[str] = ...) -> None: ...

class TraceMessageResponse(_message.Message):
    __slots__ = ("message_id", "records")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    records: _containers.RepeatedCompositeFieldContainer[TracedRecord]
    def __init__(self, message_id: _Optional[str] = ..., records: _Optional[_Iterable[_Union[TracedRecord, _Mapping]]] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("group", "page_size", "page_token")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    group: str
    page_size: int
    page_token: str
    def __init__(self, group: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class DeadLetters(_message.Message):
    __slots__ = ("group", "topic", "waiting_count", "stored_count", "first_store_timestamp_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    waiting_count: int
    stored_count: int
    first_store_timestamp_ms: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., waiting_count: _Optional[int] = ..., stored_count: _Optional[int] = ..., first_store_timestamp_ms: _Optional[int] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("groups", "next_page_token")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DeadLetters]
    next_page_token: str
    def __init__(self, groups: _Optional[_Iterable[_Union[DeadLetters, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RedriveDeadLettersRequest(_message.Message):
    __slots__ = ("group", "max_messages", "topic", "dry_run", "until")
    class UntilEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    group: str
    max_messages: int
    topic: str
    dry_run: bool
    until: _containers.ScalarMap[int, int]
    def __init__(self, group: _Optional[str] = ..., max_messages: _Optional[int] = ..., topic: _Optional[str] = ..., dry_run: _Optional[bool] = ..., until: _Optional[_Mapping[int, int]] = ...) -> None: ...

class RedrivenMessage(_message.Message):
    __slots__ = ("message_id", "dead_queue_id", "dead_queue_offset", "topic", "queue_id", "queue_offset")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    DEAD_QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    DEAD_QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    dead_queue_id: int
    dead_queue_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    def __init__(self, message_id: _Optional[str] = ..., dead_queue_id: _Optional[int] = ..., dead_queue_offset: _Optional[int] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ...) -> None: ...

class RedriveDeadLettersResponse(_message.Message):
    __slots__ = ("messages", "waiting_count", "until")
    class UntilEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[RedrivenMessage]
    waiting_count: int
    until: _containers.ScalarMap[int, int]
    def __init__(self, messages: _Optional[_Iterable[_Union[RedrivenMessage, _Mapping]]] = ..., waiting_count: _Optional[int] = ..., until: _Optional[_Mapping[int, int]] = ...) -> None: ...

class ListDelayedRequest(_message.Message):
    __slots__ = ("topic", "message_id", "page_size", "page_token")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_id: str
    page_size: int
    page_token: str
    def __init__(self, topic: _Optional[str] = ..., message_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class DelayedMessage(_message.Message):
    __slots__ = ("message_id", "topic", "queue_id", "deliver_at_ms", "delay_level", "store_timestamp_ms", "physical_offset", "tag", "keys", "recall_handle")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RECALL_HANDLE_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    topic: str
    queue_id: int
    deliver_at_ms: int
    delay_level: int
    store_timestamp_ms: int
    physical_offset: int
    tag: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    recall_handle: str
    def __init__(self, message_id: _Optional[str] = ..., topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., delay_level: _Optional[int] = ..., store_timestamp_ms: _Optional[int] = ..., physical_offset: _Optional[int] = ..., tag: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., recall_handle: _Optional[str] = ...) -> None: ...

class ListDelayedResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DelayedMessage]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[DelayedMessage, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TransactionRow(_message.Message):
    __slots__ = ("transaction_id", "group", "topic", "message_id", "checks", "store_timestamp_ms", "state", "producer_count")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_COUNT_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    group: str
    topic: str
    message_id: str
    checks: int
    store_timestamp_ms: int
    state: str
    producer_count: int
    def __init__(self, transaction_id: _Optional[str] = ..., group: _Optional[str] = ..., topic: _Optional[str] = ..., message_id: _Optional[str] = ..., checks: _Optional[int] = ..., store_timestamp_ms: _Optional[int] = ..., state: _Optional[str] = ..., producer_count: _Optional[int] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("group", "topic", "max", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    max: int
    offset: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., max: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("transactions", "next_offset", "open_count")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OPEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionRow]
    next_offset: int
    open_count: int
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionRow, _Mapping]]] = ..., next_offset: _Optional[int] = ..., open_count: _Optional[int] = ...) -> None: ...

class DescribeTransactionRequest(_message.Message):
    __slots__ = ("transaction_id",)
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    def __init__(self, transaction_id: _Optional[str] = ...) -> None: ...

class DescribeTransactionResponse(_message.Message):
    __slots__ = ("transaction", "message")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    transaction: TransactionRow
    message: _broker_pb2.StoredMessage
    def __init__(self, transaction: _Optional[_Union[TransactionRow, _Mapping]] = ..., message: _Optional[_Union[_broker_pb2.StoredMessage, _Mapping]] = ...) -> None: ...

class ResumeTransactionRequest(_message.Message):
    __slots__ = ("transaction_id",)
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    def __init__(self, transaction_id: _Optional[str] = ...) -> None: ...

class ResumeTransactionResponse(_message.Message):
    __slots__ = ("transaction_id",)
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    def __init__(self, transaction_id: _Optional[str] = ...) -> None: ...

class StoreStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StoreStatusResponse(_message.Message):
    __slots__ = ("state", "directory", "min_offset", "appended_offset", "flushed_offset", "dispatched_offset", "flush_mode", "version", "topic_count", "queue_count", "cluster", "broker", "retention_state", "disk_free_bytes", "disk_total_bytes", "index_file_count", "queue_file_count", "state_since_ms", "group_count", "modules", "commit", "send_refusal")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    MIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPENDED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DISPATCHED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FLUSH_MODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    RETENTION_STATE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATE_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    MODULES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    SEND_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    state: str
    directory: str
    min_offset: int
    appended_offset: int
    flushed_offset: int
    dispatched_offset: int
    flush_mode: str
    version: str
    topic_count: int
    queue_count: int
    cluster: str
    broker: str
    retention_state: str
    disk_free_bytes: int
    disk_total_bytes: int
    index_file_count: int
    queue_file_count: int
    state_since_ms: int
    group_count: int
    modules: str
    commit: str
    send_refusal: str
    def __init__(self, state: _Optional[str] = ..., directory: _Optional[str] = ..., min_offset: _Optional[int] = ..., appended_offset: _Optional[int] = ..., flushed_offset: _Optional[int] = ..., dispatched_offset: _Optional[int] = ..., flush_mode: _Optional[str] = ..., version: _Optional[str] = ..., topic_count: _Optional[int] = ..., queue_count: _Optional[int] = ..., cluster: _Optional[str] = ..., broker: _Optional[str] = ..., retention_state: _Optional[str] = ..., disk_free_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., index_file_count: _Optional[int] = ..., queue_file_count: _Optional[int] = ..., state_since_ms: _Optional[int] = ..., group_count: _Optional[int] = ..., modules: _Optional[str] = ..., commit: _Optional[str] = ..., send_refusal: _Optional[str] = ...) -> None: ...

class MapStoreRequest(_message.Message):
    __slots__ = ("part_count",)
    PART_COUNT_FIELD_NUMBER: _ClassVar[int]
    part_count: int
    def __init__(self, part_count: _Optional[int] = ...) -> None: ...

class MapPart(_message.Message):
    __slots__ = ("begin", "end", "topic", "stored_ms")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STORED_MS_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    topic: int
    stored_ms: int
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ..., topic: _Optional[int] = ..., stored_ms: _Optional[int] = ...) -> None: ...

class MapTopic(_message.Message):
    __slots__ = ("name", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class MapStoreResponse(_message.Message):
    __slots__ = ("parts", "topics", "log_file_size_bytes", "log_file_count", "queue_file_size_bytes", "queue_file_count", "queue_entry_count", "index_file_size_bytes", "index_file_count", "index_entry_count", "index_file_entries_max")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    LOG_FILE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FILE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILE_ENTRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[MapPart]
    topics: _containers.RepeatedCompositeFieldContainer[MapTopic]
    log_file_size_bytes: int
    log_file_count: int
    queue_file_size_bytes: int
    queue_file_count: int
    queue_entry_count: int
    index_file_size_bytes: int
    index_file_count: int
    index_entry_count: int
    index_file_entries_max: int
    def __init__(self, parts: _Optional[_Iterable[_Union[MapPart, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[MapTopic, _Mapping]]] = ..., log_file_size_bytes: _Optional[int] = ..., log_file_count: _Optional[int] = ..., queue_file_size_bytes: _Optional[int] = ..., queue_file_count: _Optional[int] = ..., queue_entry_count: _Optional[int] = ..., index_file_size_bytes: _Optional[int] = ..., index_file_count: _Optional[int] = ..., index_entry_count: _Optional[int] = ..., index_file_entries_max: _Optional[int] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FlushResponse(_message.Message):
    __slots__ = ("flushed_offset",)
    FLUSHED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    flushed_offset: int
    def __init__(self, flushed_offset: _Optional[int] = ...) -> None: ...

class ReportArchiveRequest(_message.Message):
    __slots__ = ("upto", "target")
    UPTO_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    upto: int
    target: str
    def __init__(self, upto: _Optional[int] = ..., target: _Optional[str] = ...) -> None: ...

class ReportArchiveResponse(_message.Message):
    __slots__ = ("upto",)
    UPTO_FIELD_NUMBER: _ClassVar[int]
    upto: int
    def __init__(self, upto: _Optional[int] = ...) -> None: ...

class EffectiveConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigRow(_message.Message):
    __slots__ = ("key", "value", "origin")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    origin: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class EffectiveConfigResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[ConfigRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[ConfigRow, _Mapping]]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
