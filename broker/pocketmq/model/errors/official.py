"""Errors of requests that break rules of RocketMQ's own protocol."""

from pocketmq.model.errors.code import Code, RequestError


class ClientIdRequired(RequestError, code=Code.CLIENT_ID_REQUIRED):
    """A call without a client id."""

    message = "the call contains no client id; send it as header x-mq-client-id"


class InvalidReceiptHandle(RequestError, code=Code.INVALID_RECEIPT_HANDLE):
    """A receipt handle without a lease: its message was settled, redelivered or never leased."""

    message = "receipt handle {handle} belongs to no leased message; receive the message again"
    handle: str


class IllegalInvisibleTime(RequestError, code=Code.ILLEGAL_INVISIBLE_TIME):
    """An invisible duration that is too short or too long."""

    message = "invisible time {value_ms} is not allowed: it may be {lower_ms} to {upper_ms}"
    value_ms: int
    lower_ms: int
    upper_ms: int


class BodyCorrupted(RequestError, code=Code.MESSAGE_CORRUPTED):
    """A body that does not match its producer's digest."""

    message = (
        "the {algorithm} digest of message {message_id} does not match its body; send it again"
    )
    plain = RequestError.plain | {"algorithm"}
    message_id: str
    algorithm: str


class IllegalSettings(RequestError):
    """Settings with neither publishing nor subscription."""

    message = "settings of client {client_id} contain neither publishing nor subscription"
    client_id: str


class ClientNotFound(RequestError):
    """A client id that is unknown to the group, or has no open stream."""

    message = "no client {client_id} of group {group} has a stream; see pocketmq group members"
    client_id: str
    group: str


class ClientSilent(RequestError):
    """A client that does not answer a command of the broker; many clients support no commands."""

    message = "client {client_id} does not answer: {why}"
    client_id: str
    why: str


class OffsetNotFound(RequestError, code=Code.OFFSET_NOT_FOUND):
    """A group without an offset in a queue."""

    message = "group {group} has no offset in queue {queue_id} of topic {topic}; update it first"
    group: str
    topic: str
    queue_id: int
