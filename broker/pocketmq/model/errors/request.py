"""Invalid requests: sent again unchanged, they fail again."""

from pocketmq.model.errors.code import Code, RequestError


class IllegalTopic(RequestError, code=Code.ILLEGAL_TOPIC):
    """A name that cannot be a topic."""

    message = "topic {topic} is not allowed: {why}; choose another name"
    topic: str
    why: str


class SystemTopic(RequestError, code=Code.ILLEGAL_TOPIC):
    """A topic that belongs to the broker."""

    message = "topic {topic} belongs to the broker; clients may not {why} it"
    topic: str
    why: str


class TopicNotFound(RequestError, code=Code.TOPIC_NOT_FOUND):
    """A topic that does not exist, and is not created automatically."""

    message = "topic {topic} does not exist; create it: pocketmq topic create {topic}"
    topic: str


class TopicExists(RequestError, code=Code.PRECONDITION_FAILED):
    """Creation of a topic that exists with other settings."""

    message = "topic {topic} exists already, of type {type_name} with {queue_count} queues"
    topic: str
    queue_count: int
    type_name: str


class IllegalGroup(RequestError, code=Code.ILLEGAL_CONSUMER_GROUP):
    """A name that cannot be a consumer group."""

    message = "consumer group {group} is not allowed: {why}"
    group: str
    why: str


class SystemGroup(RequestError, code=Code.ILLEGAL_CONSUMER_GROUP):
    """A consumer group that belongs to the broker."""

    message = "consumer group {group} belongs to the broker; clients may not {why} it"
    group: str
    why: str


class GroupNotFound(RequestError, code=Code.CONSUMER_GROUP_NOT_FOUND):
    """A consumer group that does not exist."""

    message = "consumer group {group} does not exist; create it: pocketmq group create {group}"
    group: str


class GroupDisabled(RequestError, code=Code.FORBIDDEN):
    """A disabled consumer group."""

    message = (
        "consumer group {group} is turned off; turn it on: pocketmq group edit {group} "
        "--enabled true"
    )
    group: str


class GroupInUse(RequestError, code=Code.PRECONDITION_FAILED):
    """A consumer group that other clients use, with commits instead of leases or vice versa."""

    message = (
        "consumer group {group} is in use by {kind} clients: classic clients commit offsets, pop "
        "clients settle leases; use another group, or stop its other clients and wait 2 minutes"
    )
    plain = RequestError.plain | {"kind"}
    group: str
    kind: str


class GroupExists(RequestError, code=Code.PRECONDITION_FAILED):
    """Creation of a consumer group that exists with other settings."""

    message = "consumer group {group} exists already with other settings: {why}"
    group: str
    why: str


class IllegalBegin(RequestError):
    """A text that is not a point at which a group can begin."""

    message = (
        "a group cannot begin at {begin}; "
        "use min, max, or a time such as 2026-11-21T02:30:00Z or 1795228200000"
    )
    begin: str


class IllegalTag(RequestError, code=Code.ILLEGAL_MESSAGE_TAG):
    """A tag that filters cannot match."""

    message = "tag {tag} is not allowed: {why}"
    tag: str
    why: str


class IllegalKey(RequestError, code=Code.ILLEGAL_MESSAGE_KEY):
    """A key that cannot be queried."""

    message = "key {key} is not allowed: {why}"
    key: str
    why: str


class IllegalProperty(RequestError, code=Code.ILLEGAL_MESSAGE_PROPERTY_KEY):
    """A property that cannot be stored, or whose name is reserved."""

    message = "property {name} is not allowed: {why}"
    name: str
    why: str


class IllegalAttribute(RequestError):
    """An attribute that topics cannot have, or an invalid value of an attribute."""

    message = "attribute {name} is not allowed: {why}"
    name: str
    why: str


class IllegalMessageGroup(RequestError, code=Code.ILLEGAL_MESSAGE_GROUP):
    """A message group that cannot be stored."""

    message = "message group {group} is not allowed: {why}"
    group: str
    why: str


class IllegalMessageId(RequestError, code=Code.ILLEGAL_MESSAGE_ID):
    """A malformed message id."""

    message = "message id {message_id} is malformed: {why}"
    message_id: str
    why: str


class MessageNotFound(RequestError, code=Code.MESSAGE_NOT_FOUND):
    """An id that no message of the topic has."""

    message = "topic {topic} contains no message with id {message_id}"
    topic: str
    message_id: str


class BodyEmpty(RequestError, code=Code.MESSAGE_BODY_EMPTY):
    """A message without a body."""

    message = "the body of message {position} is empty; send at least one byte"
    position: int


class BodyTooLarge(RequestError, code=Code.MESSAGE_BODY_TOO_LARGE):
    """A body, or the sum of a batch's bodies, above the limit."""

    message = (
        "bodies of {size_bytes} bytes exceed the limit of {limit_bytes}; "
        "send less at once or raise limits.max_message_size_bytes (maxMessageSize)"
    )
    size_bytes: int
    limit_bytes: int


class PropertiesTooLarge(RequestError, code=Code.MESSAGE_PROPERTIES_TOO_LARGE):
    """A property block that is too large for a record."""

    message = (
        "properties of {size_bytes} bytes exceed the limit of {limit_bytes}, "
        "including the properties that the broker adds; shorten keys, tag or properties"
    )
    size_bytes: int
    limit_bytes: int


class TooManyProperties(RequestError, code=Code.MESSAGE_PROPERTIES_TOO_LARGE):
    """More user properties than a message may have."""

    message = "{count} properties exceed the limit of {limit}"
    count: int
    limit: int


class RecordTooLarge(RequestError, code=Code.PAYLOAD_TOO_LARGE):
    """A record, or a batch, that is too large for a commit-log file."""

    message = (
        "{size_bytes} bytes of records do not fit one commit-log file "
        "(limit {limit_bytes}); send a smaller batch or raise mappedFileSizeCommitLog"
    )
    size_bytes: int
    limit_bytes: int


class NoMessages(RequestError, code=Code.MESSAGE_CORRUPTED):
    """A send without messages."""

    message = "the request contains no message; send at least one"


class TooManyMessages(RequestError, code=Code.PAYLOAD_TOO_LARGE):
    """A batch with more messages than one request may carry."""

    message = "{count} messages in one request exceed the limit of {limit}"
    count: int
    limit: int


class TooManyElements(RequestError):
    """A request with more elements of one field than the method accepts."""

    message = "field {field} has more than {limit} elements; send them in several requests"
    field: str
    limit: int


class MixedTopics(RequestError, code=Code.MESSAGE_CORRUPTED):
    """A batch that names two topics."""

    message = (
        "the messages of a request must have one topic, but these have {topic} and {other}; send a "
        "request for each topic"
    )
    topic: str
    other: str


class MixedQueues(RequestError, code=Code.MESSAGE_CORRUPTED):
    """A batch whose messages differ in queue id, message group, priority or body encoding."""

    message = (
        "the messages of a request must have equal {why}; send those that differ in separate "
        "requests"
    )
    why: str


class KindConflict(RequestError, code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE):
    """A message of a kind that its topic does not accept."""

    message = (
        "topic {topic} accepts {type} messages, this is a {kind} message; send it to a topic of "
        "that type, or of type MIXED"
    )
    topic: str
    type: str
    kind: str


class AmbiguousKind(RequestError, code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE):
    """A message with two features that exclude each other."""

    message = (
        "a message has either a message group, a delay level, a delivery time, a delay, "
        "a transaction or a priority; message {position} has {why}"
    )
    position: int
    why: str


class MixedKinds(RequestError, code=Code.MESSAGE_CORRUPTED):
    """A batch with messages of two kinds."""

    message = (
        "the messages of a request must have one kind, but these have {kind} and {other}; send a "
        "request for each kind"
    )
    kind: str
    other: str


class IllegalDeliveryTime(RequestError, code=Code.ILLEGAL_DELIVERY_TIME):
    """A delivery time beyond the longest delay of messages."""

    message = (
        "a delivery {ahead_ms} ahead exceeds the limit of {limit_ms}; deliver earlier, or raise "
        "limits.delay_max_ms"
    )
    ahead_ms: int
    limit_ms: int


class IllegalRecallHandle(RequestError):
    """A recall handle that this broker cannot have returned for the topic."""

    message = "the recall handle is not valid: {why}; use the one that the send returned"
    why: str


class NotWaiting(RequestError, code=Code.MESSAGE_NOT_FOUND):
    """A recall after the message's delivery."""

    message = (
        "message {message_id} of topic {topic} is not pending any more: its delivery time has "
        "passed"
    )
    topic: str
    message_id: str


class QueueOutOfRange(RequestError, code=Code.BAD_REQUEST):
    """A queue id that the topic does not have."""

    message = "queue {queue_id} of topic {topic} does not exist: it has {count}"
    topic: str
    queue_id: int
    count: int


class TopicNotWritable(RequestError, code=Code.FORBIDDEN):
    """A topic whose permission forbids writing."""

    message = "topic {topic} may not be written (permission {permission})"
    topic: str
    permission: int


class TopicNotReadable(RequestError, code=Code.FORBIDDEN):
    """A topic whose permission forbids reading."""

    message = "topic {topic} may not be read (permission {permission})"
    topic: str
    permission: int


class UnsupportedTopic(RequestError, code=Code.UNSUPPORTED):
    """A topic that RocketMQ stores in a way that PocketMQ does not support."""

    message = (
        "topic {topic} has {attribute}, which this broker does not serve: its messages stay as "
        "they are, for a RocketMQ broker; use another topic"
    )
    topic: str
    attribute: str


class IllegalNumber(RequestError):
    """A number outside its range."""

    message = "{field} is {value}, allowed is {lower} to {upper}"
    field: str
    value: int
    lower: int
    upper: int


class OffsetOutOfRange(RequestError, code=Code.ILLEGAL_OFFSET):
    """A queue offset that the queue does not have."""

    message = (
        "offset {queue_offset} is outside the queue: it reaches from {min_offset} to {max_offset}"
    )
    queue_offset: int
    min_offset: int
    max_offset: int


class IllegalFilter(RequestError, code=Code.ILLEGAL_FILTER_EXPRESSION):
    """An invalid filter expression."""

    message = "filter {expression} is not allowed: {why}"
    expression: str
    why: str


class IllegalPageToken(RequestError):
    """A page token that this broker did not make for this query."""

    message = "page token {token} does not belong to this query; start without a token"
    token: str


class OriginUnknown(RequestError, code=Code.PRECONDITION_FAILED):
    """A dead letter that does not name its original topic."""

    message = (
        "dead letter {queue_offset} of group {group} does not name its original topic; state a "
        "target topic"
    )
    group: str
    queue_offset: int


class TransactionsRefused(RequestError, code=Code.FORBIDDEN):
    """A transactional message, while the broker refuses transactional messages."""

    message = (
        "this broker accepts no messages of transactions (transactions.refuse); "
        "send the message without one"
    )


class TransactionUnknown(RequestError, code=Code.INVALID_TRANSACTION_ID):
    """An id that names no half message of the producer group."""

    message = "transaction {transaction_id} is not one of producer group {group}: {why}"
    transaction_id: str
    group: str
    why: str


class TransactionDecided(RequestError, code=Code.INVALID_TRANSACTION_ID):
    """A decision that contradicts the first decision about its transaction."""

    message = (
        "transaction {transaction_id} is already {first}: the first decision stands; send the "
        "message again if that is wrong"
    )
    plain = RequestError.plain | {"first"}
    transaction_id: str
    first: str


class UnsupportedFeature(RequestError, code=Code.UNSUPPORTED):
    """A part of the API that this version does not implement."""

    message = "this version does not serve {feature}"
    feature: str
