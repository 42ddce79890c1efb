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
TOPIC_TYPE_UNSPECIFIED: TopicType
NORMAL: TopicType
FIFO: TopicType
DELAY: TopicType
TRANSACTION: TopicType
PRIORITY: TopicType

class Topic(_message.Message):
    __slots__ = ("name", "read_queue_count", "write_queue_count", "permission", "type", "system", "order", "attributes")
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
    name: str
    read_queue_count: int
    write_queue_count: int
    permission: int
    type: TopicType
    system: bool
    order: bool
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., read_queue_count: _Optional[int] = ..., write_queue_count: _Optional[int] = ..., permission: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ..., system: _Optional[bool] = ..., order: _Optional[bool] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "queue_count", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    queue_count: int
    type: TopicType
    def __init__(self, name: _Optional[str] = ..., queue_count: _Optional[int] = ..., type: _Optional[_Union[TopicType, str]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "include_system")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    include_system: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_system: _Optional[bool] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics", "next_page_token")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    next_page_token: str
    def __init__(self, topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

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

class StoreStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StoreStatusResponse(_message.Message):
    __slots__ = ("state", "directory", "min_offset", "appended_offset", "flushed_offset", "dispatched_offset", "flush_mode", "version", "topic_count", "queue_count", "cluster", "broker")
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
    def __init__(self, state: _Optional[str] = ..., directory: _Optional[str] = ..., min_offset: _Optional[int] = ..., appended_offset: _Optional[int] = ..., flushed_offset: _Optional[int] = ..., dispatched_offset: _Optional[int] = ..., flush_mode: _Optional[str] = ..., version: _Optional[str] = ..., topic_count: _Optional[int] = ..., queue_count: _Optional[int] = ..., cluster: _Optional[str] = ..., broker: _Optional[str] = ...) -> None: ...
