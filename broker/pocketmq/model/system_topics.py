"""Messages on their way through the broker's own topics: the place they are put at, and back.

    delayed     SCHEDULE_TOPIC_XXXX      waits there until its level is over
    timed       rmq_sys_wheel_timer      waits there until its second
    half        RMQ_SYS_TRANS_HALF_…     waits there for its producer's decision
    sent_back   %RETRY%group             the group failed to consume it
    revived     %RETRY%group_topic       its lease was over
    dead        %DLQ%group               the group gave it up

Each returns a `ParkedMessage`: the message's topic and queue, and the changed properties. The
inverse finds the place again by properties and names alone. Pure; a record is made of it by
format/rewrite.py.
Source: HookUtils, ScheduleMessageService, AbstractSendMessageProcessor.consumerSendMsgBack,
PopReviveService, KeyBuilder.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pocketmq.model.decimal import number_of
from pocketmq.model.message import (
    DELAY,
    DELIVER_AT,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    FIRST_POP_TIME,
    INT32_MAX,
    IS_TRANSACTIONAL,
    ORIGIN_GROUP,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_OUT,
    TRANSACTION_ID,
    WAIT,
)
from pocketmq.model.topic import (
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    dead_letter_topic,
    retry_topic,
)

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Everything that is due at a time of its own waits in its queue 0."""
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""A real broker's own; its offset is that of the last record it read of the revive topic."""
RETRY_SEPARATOR: Final = "_"
RETRY_SEPARATOR_V2: Final = "+"
REVIVE_QUEUE_COUNT: Final = 8
"""Checkpoints and acks of leases take its queues in turn (reviveQueueNum)."""
DELIVERY_TIMES: Final = frozenset({DELIVER_AT, TIMER_DELAY_MS, TIMER_DELAY_SECONDS})
"""Properties of which a delay level takes the place."""
ADDED_ON_THE_WAY: Final = frozenset(
    {
        DELAY, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, FIRST_POP_TIME, ORIGIN_GROUP,
        ORIGIN_MESSAGE_ID, REAL_QUEUE, REAL_TOPIC, RETRY_TOPIC, TIMER_OUT,
    }
)  # fmt: skip
"""Properties that retries leave on a message."""
ADDED_TO_WAIT: Final = frozenset({REAL_QUEUE, REAL_TOPIC, TIMER_OUT, TRANSACTION_ID})
"""Properties that a message gets while it waits; those with the reason were its producer's."""
FIRST_BACK_LEVEL: Final = 3
"""The level of a message sent back for the first time; each further time is one more."""


class QueuePlace(NamedTuple):
    """A queue by its topic."""

    topic: str
    queue_id: int


class ParkedMessage(NamedTuple):
    """How a message is put into one of the broker's own topics.

    changed   properties it gets, whatever they were
    dropped   names of those it loses
    """

    place: QueuePlace
    changed: dict[str, str]
    dropped: frozenset[str] = frozenset()

    def applied(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties of the disguised message."""
        kept = {name: value for name, value in properties.items() if name not in self.dropped}
        return kept | self.changed


def revive_topic(cluster: str) -> str:
    """Returns where a real broker keeps checkpoints and acks of leases that are over."""
    return REVIVE_TOPIC_PREFIX + cluster


def lease_retry_topic(group: str, topic: str) -> str:
    """Returns where messages go whose lease was over (KeyBuilder.buildPopRetryTopicV1).

    Others may have the same: that of group a and topic b_c is that of group a_b and topic c, and
    that of group a and topic b is where group a_b sends back (`is_of_group`).
    """
    return f"{retry_topic(group)}{RETRY_SEPARATOR}{topic}"


def lease_retry_topic_v2(group: str, topic: str) -> str:
    """Returns the same where a real broker has enableRetryTopicV2."""
    return f"{retry_topic(group)}{RETRY_SEPARATOR_V2}{topic}"


def leased_topic(topic: str, group: str) -> str:
    """Returns the topic that a group's lease retry topic is of; any other is its own.

    Source   KeyBuilder.parseNormalTopic
    """
    own = retry_topic(group)
    if topic.startswith((own + RETRY_SEPARATOR, own + RETRY_SEPARATOR_V2)):
        return topic[len(own) + 1 :]
    return topic


def delayed(place: QueuePlace, level: int, level_count: int) -> ParkedMessage:
    """Returns how a message waits for a delay level above 0; one above the highest is lowered.

    Source   HookUtils.transformDelayLevelMessage
    """
    assert level > 0
    assert level_count > 0
    level = min(level, level_count)
    changed = {DELAY: str(level), **_real(place)}
    return ParkedMessage(QueuePlace(SCHEDULE_TOPIC, level - 1), changed, DELIVERY_TIMES)


def timed(place: QueuePlace, deliver_at_ms: int, precision_ms: int = 1_000) -> ParkedMessage:
    """Returns how a message waits for a time: its slot is the last full precision before it.

    The producer's property with the time stays as it is.
    Source   HookUtils.transformTimerMessage
    """
    assert precision_ms > 0
    due_ms = deliver_at_ms // precision_ms * precision_ms
    if due_ms == deliver_at_ms:
        due_ms -= precision_ms
    changed = {TIMER_OUT: str(due_ms), **_real(place)}
    return ParkedMessage(QueuePlace(TIMER_TOPIC, 0), changed)


def half(place: QueuePlace, unique_key: str) -> ParkedMessage:
    """Returns how a transactional message waits until its producer commits it or rolls it back.

    Source   TransactionalMessageBridge.parseHalfMessageInner
    """
    assert unique_key
    changed = {IS_TRANSACTIONAL: "true", TRANSACTION_ID: unique_key, **_real(place)}
    return ParkedMessage(QueuePlace(HALF_TOPIC, 0), changed)


def restored(properties: Mapping[str, str]) -> tuple[QueuePlace, dict[str, str]] | None:
    """Returns where a waiting message goes, and the properties it was sent with.

    None   its properties do not name the place
    """
    place = real_place(properties)
    if place is None:
        return None
    return place, {name: text for name, text in properties.items() if name not in ADDED_TO_WAIT}


def real_place(properties: Mapping[str, str]) -> QueuePlace | None:
    """Returns the target of a waiting message, None where its properties do not name it."""
    topic, number = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE, "")
    queue_id = number_of(number, INT32_MAX)
    return QueuePlace(topic, queue_id) if topic and queue_id >= 0 else None


def back_level(asked: int, reconsume_times: int) -> int:
    """Returns the delay level of a message that is sent back; `asked` 0 selects the default."""
    return asked or FIRST_BACK_LEVEL + reconsume_times


def sent_back(
    group: str, topic: str, properties: Mapping[str, str], message_id: str, level: int
) -> ParkedMessage:
    """Returns how a message becomes one of its group's retry topic; it still has to wait there.

    topic       the one it was consumed from
    message_id  the offset message id of the record
    Source      AbstractSendMessageProcessor.consumerSendMsgBack
    """
    assert level > 0
    changed = {**_origin(topic, properties, message_id), DELAY: str(level), WAIT: "false"}
    return ParkedMessage(QueuePlace(retry_topic(group), 0), changed)


def dead(group: str, topic: str, properties: Mapping[str, str], message_id: str) -> ParkedMessage:
    """Returns how a message becomes a dead letter of a group; parameters as for `sent_back`.

    Source   AbstractSendMessageProcessor.consumerSendMsgBack
    """
    changed = {**_origin(topic, properties, message_id), DELAY: "0", WAIT: "false"}
    return ParkedMessage(QueuePlace(dead_letter_topic(group), 0), changed)


def sent_first(group: str, properties: Mapping[str, str]) -> tuple[str, ParkedMessage] | None:
    """Returns the topic a dead letter came from, and how it becomes a message of it again.

    It loses properties of its way: origins, delays, places, times. None: it names no topic.
    """
    topic = properties.get(DLQ_ORIGIN_TOPIC) or properties.get(RETRY_TOPIC, "")
    if not topic:
        return None
    topic = leased_topic(topic, group)
    return topic, ParkedMessage(QueuePlace(topic, 0), {WAIT: "true"}, ADDED_ON_THE_WAY)


def revived(
    group: str, topic: str, properties: Mapping[str, str], popped_at_ms: int
) -> ParkedMessage:
    """Returns how a message is delivered again whose lease was over.

    topic    the one it was leased from: the producer's, or the retry topic itself
    Source   PopReviveService.reviveRetry
    """
    changed = {ORIGIN_GROUP: group}
    if FIRST_POP_TIME not in properties:
        changed[FIRST_POP_TIME] = str(popped_at_ms)
    is_retried = topic.startswith(RETRY_PREFIX)
    return ParkedMessage(
        QueuePlace(topic if is_retried else lease_retry_topic(group, topic), 0), changed
    )


def is_of_group(group: str, properties: Mapping[str, str], *, is_sent_back: bool) -> bool:
    """Returns whether a message is of a group; other groups' retry topics may have the same name.

    is_sent_back   of the messages there only those that were sent back may be the group's
    """
    origin = properties.get(ORIGIN_GROUP)
    if origin is None:  # It was sent back, or put there by a broker that leaves no name.
        return is_sent_back or RETRY_TOPIC not in properties
    return origin == group


def _real(place: QueuePlace) -> dict[str, str]:
    return {REAL_TOPIC: place.topic, REAL_QUEUE: str(place.queue_id)}


def _origin(topic: str, properties: Mapping[str, str], message_id: str) -> dict[str, str]:
    return {
        ORIGIN_MESSAGE_ID: properties.get(ORIGIN_MESSAGE_ID) or message_id,
        RETRY_TOPIC: properties.get(RETRY_TOPIC) or topic,
    }
