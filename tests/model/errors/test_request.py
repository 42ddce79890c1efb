"""What a client reads when its request is at fault: what, which limit, what next."""

import pytest

from broker.model import errors
from broker.model.errors import BrokerError, Code, RequestError

MESSAGES: list[tuple[BrokerError, Code, str]] = [
    (
        errors.SystemTopic(topic="TBW102", why="write"),
        Code.ILLEGAL_TOPIC,
        "topic 'TBW102' belongs to the broker; clients may not write it",
    ),
    (
        errors.TopicExists(topic="T", queue_count=4),
        Code.PRECONDITION_FAILED,
        "topic 'T' exists already with 4 queues",
    ),
    (
        errors.IllegalGroup(group="", why="it is empty"),
        Code.ILLEGAL_CONSUMER_GROUP,
        "consumer group '' is not allowed: it is empty",
    ),
    (
        errors.SystemGroup(group="CID_RMQ_SYS_X", why="change"),
        Code.ILLEGAL_CONSUMER_GROUP,
        "consumer group 'CID_RMQ_SYS_X' belongs to the broker; nobody may change it",
    ),
    (
        errors.GroupNotFound(group="G"),
        Code.CONSUMER_GROUP_NOT_FOUND,
        "consumer group 'G' does not exist; create it: pocketmq group create 'G'",
    ),
    (
        errors.GroupExists(group="G"),
        Code.PRECONDITION_FAILED,
        "consumer group 'G' exists already with other settings",
    ),
    (
        errors.IllegalAttribute(name="queue.type", why="it cannot be changed"),
        Code.BAD_REQUEST,
        "attribute 'queue.type' is not allowed: it cannot be changed",
    ),
    (
        errors.IllegalTag(tag="a|b", why="it holds |"),
        Code.ILLEGAL_MESSAGE_TAG,
        "tag 'a|b' is not allowed: it holds |",
    ),
    (
        errors.IllegalKey(key="a b", why="it holds a space"),
        Code.ILLEGAL_MESSAGE_KEY,
        "key 'a b' is not allowed: it holds a space",
    ),
    (
        errors.IllegalProperty(name="KEYS", why="the name belongs to the broker"),
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
        "property 'KEYS' is not allowed: the name belongs to the broker",
    ),
    (
        errors.IllegalMessageGroup(group=" ", why="it is blank"),
        Code.ILLEGAL_MESSAGE_GROUP,
        "message group ' ' is not allowed: it is blank",
    ),
    (
        errors.IllegalMessageId(message_id="\t", why="it is blank"),
        Code.ILLEGAL_MESSAGE_ID,
        r"message id '\t' is malformed: it is blank",
    ),
    (
        errors.MessageNotFound(topic="T", message_id="id"),
        Code.MESSAGE_NOT_FOUND,
        "topic 'T' holds no message with id 'id'",
    ),
    (
        errors.BodyEmpty(position=2),
        Code.MESSAGE_BODY_EMPTY,
        "the body of message 2 is empty; send at least one byte",
    ),
    (
        errors.BodyTooLarge(size_bytes=11, limit_bytes=10),
        Code.MESSAGE_BODY_TOO_LARGE,
        "bodies of 11 bytes exceed the limit of 10; send less at once or raise maxMessageSize",
    ),
    (
        errors.PropertiesTooLarge(size_bytes=40_000, limit_bytes=32_767),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        "properties of 40000 bytes exceed the limit of 32767, those the broker adds included",
    ),
    (
        errors.TooManyProperties(count=129, limit=128),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        "129 properties exceed the limit of 128",
    ),
    (
        errors.NoMessages(),
        Code.MESSAGE_CORRUPTED,
        "the request holds no message; send at least one",
    ),
    (
        errors.TooManyMessages(count=3, limit=2),
        Code.PAYLOAD_TOO_LARGE,
        "3 messages in one request exceed the limit of 2",
    ),
    (
        errors.MixedTopics(topic="a", other="b"),
        Code.MESSAGE_CORRUPTED,
        "a batch goes to one topic, this one names 'a' and 'b'; send a request for each",
    ),
    (
        errors.MixedQueues(why="message groups"),
        Code.MESSAGE_CORRUPTED,
        "a batch goes to one queue, this one names two message groups; send a request for each",
    ),
    (
        errors.QueueOutOfRange(topic="T", queue_id=4, count=4),
        Code.BAD_REQUEST,
        "queue 4 of topic 'T' does not exist: it has 4",
    ),
    (
        errors.TopicNotWritable(topic="T", permission=4),
        Code.FORBIDDEN,
        "topic 'T' may not be written (permission 4)",
    ),
    (
        errors.TopicNotReadable(topic="T", permission=2),
        Code.FORBIDDEN,
        "topic 'T' may not be read (permission 2)",
    ),
    (
        errors.IllegalNumber(field="max_messages", value=0, lower=1, upper=32),
        Code.BAD_REQUEST,
        "max_messages is 0, allowed is 1 to 32",
    ),
    (
        errors.OffsetOutOfRange(queue_offset=9, min_offset=1, max_offset=5),
        Code.ILLEGAL_OFFSET,
        "offset 9 is outside the queue: it reaches from 1 to 5",
    ),
    (
        errors.IllegalFilter(expression="||", why="it names no tag"),
        Code.ILLEGAL_FILTER_EXPRESSION,
        "filter '||' is not allowed: it names no tag",
    ),
    (
        errors.IllegalPageToken(token="t"),
        Code.BAD_REQUEST,
        "page token 't' is not one of this query; start without a token",
    ),
    (
        errors.UnsupportedFeature(feature="delayed messages"),
        Code.UNSUPPORTED,
        "this version does not serve delayed messages",
    ),
]


@pytest.mark.parametrize(
    ("error", "code", "text"), MESSAGES, ids=lambda value: type(value).__name__
)
def test_an_error_tells_its_client_what_to_change(
    error: BrokerError, code: Code, text: str
) -> None:
    assert str(error) == text
    assert error.code is code
    assert isinstance(error, RequestError)
    assert not error.retryable


def test_the_topic_of_another_command_can_be_pasted() -> None:
    error = errors.TopicNotFound(topic="orders")
    assert str(error).endswith("create it: pocketmq topic create 'orders'")


def test_a_record_too_large_names_the_setting() -> None:
    error = errors.RecordTooLarge(size_bytes=70_000, limit_bytes=65_528)
    assert "70000 bytes" in str(error)
    assert "limit 65528" in str(error)
    assert "mappedFileSizeCommitLog" in str(error)
    assert error.code is Code.PAYLOAD_TOO_LARGE


def test_a_topic_that_cannot_be_is_told_from_one_that_is_not() -> None:
    assert errors.IllegalTopic.code is Code.ILLEGAL_TOPIC
    assert errors.TopicNotFound.code is Code.TOPIC_NOT_FOUND
