"""Requests that are at fault: sent again as they are, they fail again."""

from dataclasses import dataclass
from typing import ClassVar

from broker.model.errors.code import Code, RequestError


@dataclass(eq=False)
class IllegalTopic(RequestError):
    """A name that cannot be a topic."""

    code: ClassVar[Code] = Code.ILLEGAL_TOPIC
    message: ClassVar[str] = "topic {topic} is not allowed: {why}; choose another name"
    topic: str
    why: str


@dataclass(eq=False)
class SystemTopic(RequestError):
    """A topic that belongs to the broker."""

    code: ClassVar[Code] = Code.ILLEGAL_TOPIC
    message: ClassVar[str] = "topic {topic} belongs to the broker; clients may not {why} it"
    topic: str
    why: str


@dataclass(eq=False)
class TopicNotFound(RequestError):
    """A topic nobody created, while automatic creation is off or would not help."""

    code: ClassVar[Code] = Code.TOPIC_NOT_FOUND
    message: ClassVar[str] = (
        "topic {topic} does not exist; create it: pocketmq topic create {topic}"
    )
    topic: str


@dataclass(eq=False)
class TopicExists(RequestError):
    """Creation of a topic that exists with other settings."""

    code: ClassVar[Code] = Code.PRECONDITION_FAILED
    message: ClassVar[str] = "topic {topic} exists already with {queue_count} queues"
    topic: str
    queue_count: int


@dataclass(eq=False)
class IllegalGroup(RequestError):
    """A name that cannot be a consumer group."""

    code: ClassVar[Code] = Code.ILLEGAL_CONSUMER_GROUP
    message: ClassVar[str] = "consumer group {group} is not allowed: {why}"
    group: str
    why: str


@dataclass(eq=False)
class SystemGroup(RequestError):
    """A consumer group that belongs to the broker."""

    code: ClassVar[Code] = Code.ILLEGAL_CONSUMER_GROUP
    message: ClassVar[str] = "consumer group {group} belongs to the broker; nobody may {why} it"
    group: str
    why: str


@dataclass(eq=False)
class GroupNotFound(RequestError):
    """A consumer group nobody made."""

    code: ClassVar[Code] = Code.CONSUMER_GROUP_NOT_FOUND
    message: ClassVar[str] = (
        "consumer group {group} does not exist; create it: pocketmq group create {group}"
    )
    group: str


@dataclass(eq=False)
class GroupExists(RequestError):
    """Creation of a consumer group that exists with other settings."""

    code: ClassVar[Code] = Code.PRECONDITION_FAILED
    message: ClassVar[str] = "consumer group {group} exists already with other settings"
    group: str


@dataclass(eq=False)
class IllegalTag(RequestError):
    """A tag that filters could not match."""

    code: ClassVar[Code] = Code.ILLEGAL_MESSAGE_TAG
    message: ClassVar[str] = "tag {tag} is not allowed: {why}"
    tag: str
    why: str


@dataclass(eq=False)
class IllegalKey(RequestError):
    """A key that could not be queried."""

    code: ClassVar[Code] = Code.ILLEGAL_MESSAGE_KEY
    message: ClassVar[str] = "key {key} is not allowed: {why}"
    key: str
    why: str


@dataclass(eq=False)
class IllegalProperty(RequestError):
    """A property that the format cannot hold or the broker owns."""

    code: ClassVar[Code] = Code.ILLEGAL_MESSAGE_PROPERTY_KEY
    message: ClassVar[str] = "property {name} is not allowed: {why}"
    name: str
    why: str


@dataclass(eq=False)
class IllegalAttribute(RequestError):
    """An attribute that a topic cannot have, or a value that it cannot take."""

    message: ClassVar[str] = "attribute {name} is not allowed: {why}"
    name: str
    why: str


@dataclass(eq=False)
class IllegalMessageGroup(RequestError):
    """A message group that cannot be stored."""

    code: ClassVar[Code] = Code.ILLEGAL_MESSAGE_GROUP
    message: ClassVar[str] = "message group {group} is not allowed: {why}"
    group: str
    why: str


@dataclass(eq=False)
class IllegalMessageId(RequestError):
    """An id that is no id."""

    code: ClassVar[Code] = Code.ILLEGAL_MESSAGE_ID
    message: ClassVar[str] = "message id {message_id} is malformed: {why}"
    message_id: str
    why: str


@dataclass(eq=False)
class MessageNotFound(RequestError):
    """No record of the topic carries the id."""

    code: ClassVar[Code] = Code.MESSAGE_NOT_FOUND
    message: ClassVar[str] = "topic {topic} holds no message with id {message_id}"
    topic: str
    message_id: str


@dataclass(eq=False)
class BodyEmpty(RequestError):
    """A message without a body."""

    code: ClassVar[Code] = Code.MESSAGE_BODY_EMPTY
    message: ClassVar[str] = "the body of message {position} is empty; send at least one byte"
    position: int


@dataclass(eq=False)
class BodyTooLarge(RequestError):
    """A body, or the sum of a batch's bodies, over the limit."""

    code: ClassVar[Code] = Code.MESSAGE_BODY_TOO_LARGE
    message: ClassVar[str] = (
        "bodies of {size_bytes} bytes exceed the limit of {limit_bytes}; "
        "send less at once or raise maxMessageSize"
    )
    size_bytes: int
    limit_bytes: int


@dataclass(eq=False)
class PropertiesTooLarge(RequestError):
    """A property block that does not fit the record."""

    code: ClassVar[Code] = Code.MESSAGE_PROPERTIES_TOO_LARGE
    message: ClassVar[str] = (
        "properties of {size_bytes} bytes exceed the limit of {limit_bytes}, "
        "those the broker adds included"
    )
    size_bytes: int
    limit_bytes: int


@dataclass(eq=False)
class TooManyProperties(RequestError):
    """More user properties than a message may have."""

    code: ClassVar[Code] = Code.MESSAGE_PROPERTIES_TOO_LARGE
    message: ClassVar[str] = "{count} properties exceed the limit of {limit}"
    count: int
    limit: int


@dataclass(eq=False)
class RecordTooLarge(RequestError):
    """A record, or a batch, that no commit-log file can hold."""

    code: ClassVar[Code] = Code.PAYLOAD_TOO_LARGE
    message: ClassVar[str] = (
        "{size_bytes} bytes of records do not fit one commit-log file "
        "(limit {limit_bytes}); send a smaller batch or raise mappedFileSizeCommitLog"
    )
    size_bytes: int
    limit_bytes: int


@dataclass(eq=False)
class NoMessages(RequestError):
    """A send without messages."""

    code: ClassVar[Code] = Code.MESSAGE_CORRUPTED
    message: ClassVar[str] = "the request holds no message; send at least one"


@dataclass(eq=False)
class TooManyMessages(RequestError):
    """A batch with more messages than one request may carry."""

    code: ClassVar[Code] = Code.PAYLOAD_TOO_LARGE
    message: ClassVar[str] = "{count} messages in one request exceed the limit of {limit}"
    count: int
    limit: int


@dataclass(eq=False)
class MixedTopics(RequestError):
    """A batch that names two topics."""

    code: ClassVar[Code] = Code.MESSAGE_CORRUPTED
    message: ClassVar[str] = (
        "a batch goes to one topic, this one names {topic} and {other}; send a request for each"
    )
    topic: str
    other: str


@dataclass(eq=False)
class MixedQueues(RequestError):
    """A batch that names two queues or two message groups."""

    code: ClassVar[Code] = Code.MESSAGE_CORRUPTED
    message: ClassVar[str] = (
        "a batch goes to one queue, this one names two {why}; send a request for each"
    )
    why: str


@dataclass(eq=False)
class QueueOutOfRange(RequestError):
    """A queue id the topic does not have."""

    code: ClassVar[Code] = Code.BAD_REQUEST
    message: ClassVar[str] = "queue {queue_id} of topic {topic} does not exist: it has {count}"
    topic: str
    queue_id: int
    count: int


@dataclass(eq=False)
class TopicNotWritable(RequestError):
    """A topic whose permission forbids writing."""

    code: ClassVar[Code] = Code.FORBIDDEN
    message: ClassVar[str] = "topic {topic} may not be written (permission {permission})"
    topic: str
    permission: int


@dataclass(eq=False)
class TopicNotReadable(RequestError):
    """A topic whose permission forbids reading."""

    code: ClassVar[Code] = Code.FORBIDDEN
    message: ClassVar[str] = "topic {topic} may not be read (permission {permission})"
    topic: str
    permission: int


@dataclass(eq=False)
class IllegalNumber(RequestError):
    """A number outside its range."""

    message: ClassVar[str] = "{field} is {value}, allowed is {lower} to {upper}"
    field: str
    value: int
    lower: int
    upper: int


@dataclass(eq=False)
class OffsetOutOfRange(RequestError):
    """A queue offset that the queue does not have."""

    code: ClassVar[Code] = Code.ILLEGAL_OFFSET
    message: ClassVar[str] = (
        "offset {queue_offset} is outside the queue: it reaches from {min_offset} to {max_offset}"
    )
    queue_offset: int
    min_offset: int
    max_offset: int


@dataclass(eq=False)
class IllegalFilter(RequestError):
    """A filter expression that cannot be understood."""

    code: ClassVar[Code] = Code.ILLEGAL_FILTER_EXPRESSION
    message: ClassVar[str] = "filter {expression} is not allowed: {why}"
    expression: str
    why: str


@dataclass(eq=False)
class IllegalPageToken(RequestError):
    """A page token this broker did not make."""

    message: ClassVar[str] = "page token {token} is not one of this query; start without a token"
    token: str


@dataclass(eq=False)
class UnsupportedFeature(RequestError):
    """A part of the API that this version does not serve."""

    code: ClassVar[Code] = Code.UNSUPPORTED
    message: ClassVar[str] = "this version does not serve {feature}"
    feature: str
