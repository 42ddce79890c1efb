"""Messages in the broker's own topics: functions that park them there and restore them.

    delayed     SCHEDULE_TOPIC_XXXX      until its delay level is over
    timed       rmq_sys_wheel_timer      until its delivery time
    half        RMQ_SYS_TRANS_HALF_…     until its producer decides
    sent_back   %RETRY%group             after the group failed to consume it
    revived     %RETRY%group_topic       after its lease expired
    dead        %DLQ%group               after the group's last delivery attempt

Each of these functions returns a `ParkedMessage`; format/rewrite.py makes its record.
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
"""Topic whose queue 0 contains messages with a delivery time."""
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""RocketMQ's group that reads the revive topic; it commits the offset of the last read record."""
RETRY_SEPARATOR: Final = "_"
RETRY_SEPARATOR_V2: Final = "+"
REVIVE_QUEUE_COUNT: Final = 8
"""Number of queues of the revive topic (reviveQueueNum)."""
DELIVERY_TIMES: Final = frozenset({DELIVER_AT, TIMER_DELAY_MS, TIMER_DELAY_SECONDS})
"""Properties that a delay level overrides."""
ADDED_ON_THE_WAY: Final = frozenset(
    {
        DELAY, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, FIRST_POP_TIME, ORIGIN_GROUP,
        ORIGIN_MESSAGE_ID, REAL_QUEUE, REAL_TOPIC, RETRY_TOPIC, TIMER_OUT,
    }
)  # fmt: skip
"""Properties that retries and delays add to a message."""
ADDED_TO_WAIT: Final = frozenset({REAL_QUEUE, REAL_TOPIC, TIMER_OUT, TRANSACTION_ID})
"""Properties that parking adds, and that `restored` removes."""
FIRST_BACK_LEVEL: Final = 3
"""Delay level of a message that is sent back for the first time; each retry adds 1."""


class QueuePlace(NamedTuple):
    """A queue: topic and queue id."""

    topic: str
    queue_id: int


class ParkedMessage(NamedTuple):
    """A message as it is put into one of the broker's own topics.

    changed   properties that are added or replaced
    dropped   names of properties that are removed
    """

    place: QueuePlace
    changed: dict[str, str]
    dropped: frozenset[str] = frozenset()

    def applied(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties of the parked message."""
        kept = {name: value for name, value in properties.items() if name not in self.dropped}
        return kept | self.changed


def revive_topic(cluster: str) -> str:
    """Returns the topic in which RocketMQ stores checkpoints and acks of leases."""
    return REVIVE_TOPIC_PREFIX + cluster


def lease_retry_topic(group: str, topic: str) -> str:
    """Returns the retry topic for expired leases (KeyBuilder.buildPopRetryTopicV1).

    Names are ambiguous: %RETRY%a_b_c belongs to group a with topic b_c, to group a_b with topic c,
    and to group a_b_c (see `is_of_group`).
    """
    return f"{retry_topic(group)}{RETRY_SEPARATOR}{topic}"


def lease_retry_topic_v2(group: str, topic: str) -> str:
    """Returns the retry topic for expired leases under RocketMQ's enableRetryTopicV2."""
    return f"{retry_topic(group)}{RETRY_SEPARATOR_V2}{topic}"


def leased_topic(topic: str, group: str) -> str:
    """Returns the original topic of a group's retry topic for expired leases.

    Any other topic is returned unchanged.

    Source   KeyBuilder.parseNormalTopic
    """
    own = retry_topic(group)
    if topic.startswith((own + RETRY_SEPARATOR, own + RETRY_SEPARATOR_V2)):
        return topic[len(own) + 1 :]
    return topic


def delayed(place: QueuePlace, level: int, level_count: int) -> ParkedMessage:
    """Returns a message parked for a delay level; a level above the highest is lowered.

    Source   HookUtils.transformDelayLevelMessage
    """
    assert level > 0
    assert level_count > 0
    level = min(level, level_count)
    changed = {DELAY: str(level), **_real(place)}
    return ParkedMessage(QueuePlace(SCHEDULE_TOPIC, level - 1), changed, DELIVERY_TIMES)


def timed(place: QueuePlace, deliver_at_ms: int, precision_ms: int = 1_000) -> ParkedMessage:
    """Returns a message parked until a time.

    The slot is the latest multiple of `precision_ms` before that time.

    Source   HookUtils.transformTimerMessage
    """
    assert precision_ms > 0
    due_ms = deliver_at_ms // precision_ms * precision_ms
    if due_ms == deliver_at_ms:
        due_ms -= precision_ms
    changed = {TIMER_OUT: str(due_ms), **_real(place)}
    return ParkedMessage(QueuePlace(TIMER_TOPIC, 0), changed)


def half(place: QueuePlace, unique_key: str) -> ParkedMessage:
    """Returns a half message, parked until its producer commits it or rolls it back.

    Source   TransactionalMessageBridge.parseHalfMessageInner
    """
    assert unique_key
    changed = {IS_TRANSACTIONAL: "true", TRANSACTION_ID: unique_key, **_real(place)}
    return ParkedMessage(QueuePlace(HALF_TOPIC, 0), changed)


def restored(properties: Mapping[str, str]) -> tuple[QueuePlace, dict[str, str]] | None:
    """Returns a parked message's target and original properties; None if it names no target."""
    place = real_place(properties)
    if place is None:
        return None
    return place, {name: text for name, text in properties.items() if name not in ADDED_TO_WAIT}


def real_place(properties: Mapping[str, str]) -> QueuePlace | None:
    """Returns the target of a parked message; None if the properties name no target."""
    topic, number = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE, "")
    queue_id = number_of(number, INT32_MAX)
    return QueuePlace(topic, queue_id) if topic and queue_id >= 0 else None


def back_level(asked: int, reconsume_times: int) -> int:
    """Returns the delay level of a message that is sent back; `asked` 0 selects the default."""
    return asked or FIRST_BACK_LEVEL + reconsume_times


def sent_back(
    group: str, topic: str, properties: Mapping[str, str], message_id: str, level: int
) -> ParkedMessage:
    """Returns a message as it is stored in its group's retry topic.

    topic       the topic from which the message was consumed
    message_id  the offset message id of the record
    Source      AbstractSendMessageProcessor.consumerSendMsgBack
    """
    assert level > 0
    changed = {**_origin(topic, properties, message_id), DELAY: str(level), WAIT: "false"}
    return ParkedMessage(QueuePlace(retry_topic(group), 0), changed)


def dead(group: str, topic: str, properties: Mapping[str, str], message_id: str) -> ParkedMessage:
    """Returns a message as a dead letter of a group; parameters as for `sent_back`.

    Source   AbstractSendMessageProcessor.consumerSendMsgBack
    """
    changed = {**_origin(topic, properties, message_id), DELAY: "0", WAIT: "false"}
    return ParkedMessage(QueuePlace(dead_letter_topic(group), 0), changed)


def sent_first(group: str, properties: Mapping[str, str]) -> tuple[str, ParkedMessage] | None:
    """Returns a dead letter's original topic, and the message as it is sent there again.

    Properties of retries and delays are dropped. None: the properties name no original topic.
    """
    topic = properties.get(DLQ_ORIGIN_TOPIC) or properties.get(RETRY_TOPIC, "")
    if not topic:
        return None
    topic = leased_topic(topic, group)
    return topic, ParkedMessage(QueuePlace(topic, 0), {WAIT: "true"}, ADDED_ON_THE_WAY)


def revived(
    group: str, topic: str, properties: Mapping[str, str], popped_at_ms: int
) -> ParkedMessage:
    """Returns a message whose lease expired, as it is stored in a retry topic.

    topic    the topic from which the message was leased; it may be a retry topic
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
    """Returns whether a message of a retry topic is for a group; other groups may share the topic.

    is_sent_back   whether the topic is the group's %RETRY% topic for sent-back messages
    """
    origin = properties.get(ORIGIN_GROUP)
    if origin is None:  # It was sent back, or stored by a broker that sets no ORIGIN_GROUP.
        return is_sent_back or RETRY_TOPIC not in properties
    return origin == group


def _real(place: QueuePlace) -> dict[str, str]:
    return {REAL_TOPIC: place.topic, REAL_QUEUE: str(place.queue_id)}


def _origin(topic: str, properties: Mapping[str, str], message_id: str) -> dict[str, str]:
    return {
        ORIGIN_MESSAGE_ID: properties.get(ORIGIN_MESSAGE_ID) or message_id,
        RETRY_TOPIC: properties.get(RETRY_TOPIC) or topic,
    }
