"""The trace of a message: its records, and the reason for each record."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.model.message import DLQ_ORIGIN_TOPIC, ORIGIN_GROUP, RETRY_TOPIC
from pocketmq.model.system_topics import TIMER_TOPIC, leased_topic
from pocketmq.model.topic import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    is_system_topic,
)


class TraceStep(Enum):
    """Reason why a record of a message exists; names and numbers as in the proto."""

    SENT = 1
    SCHEDULED = 2
    TIMED = 3
    PREPARED = 4
    RETRIED = 5
    DEAD_LETTER = 6
    INTERNAL = 7
    RECALLED = 8


class TracedRecord(NamedTuple):
    """One record of a traced message.

    group           group whose retry or dead letter the record is or will be; "": neither
    target_topic    target of a parked message; "": the message is not parked
    origin_topic    the topic to which consumers subscribe
    passed_by       groups whose offset is beyond the record
    awaited_by      groups whose offset is not beyond the record
    """

    step: TraceStep
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    reconsume_times: int
    group: str
    target_topic: str
    deliver_at_ms: int | None
    delay_level: int | None
    passed_by: list[str]
    awaited_by: list[str]
    origin_topic: str


STEPS: Final = {
    SCHEDULE_TOPIC: TraceStep.SCHEDULED,
    TIMER_TOPIC: TraceStep.TIMED,
    HALF_TOPIC: TraceStep.PREPARED,
}


def step_of(topic: str) -> TraceStep:
    """Returns the reason why a topic contains a record."""
    if topic.startswith(RETRY_PREFIX):
        return TraceStep.RETRIED
    if topic.startswith(DLQ_PREFIX):
        return TraceStep.DEAD_LETTER
    return STEPS.get(topic, TraceStep.INTERNAL if is_system_topic(topic) else TraceStep.SENT)


def origin_topic_of(topic: str, properties: Mapping[str, str], group: str) -> str:
    """Returns the original topic of a retry or dead letter; for other messages, `topic`.

    topic   the topic that contains or will contain the message
    group   the group that owns the topic (`owner_of`)
    """
    if step_of(topic) not in (TraceStep.RETRIED, TraceStep.DEAD_LETTER):
        return topic
    origin = properties.get(DLQ_ORIGIN_TOPIC) or properties.get(RETRY_TOPIC) or topic
    return leased_topic(origin, group)


def owner_of(topic: str, properties: Mapping[str, str], groups: Iterable[str]) -> str:
    """Returns the group whose retry or dead letter a message is; "" for other messages.

    groups   existing groups; used if the name of a retry topic has several readings
    """
    if topic.startswith(DLQ_PREFIX):
        return topic.removeprefix(DLQ_PREFIX)
    if not topic.startswith(RETRY_PREFIX):
        return ""
    given = properties.get(ORIGIN_GROUP, "")
    if given:
        return given
    rest = topic.removeprefix(RETRY_PREFIX)
    if RETRY_TOPIC in properties:  # The message was sent back.
        return rest
    known = [group for group in groups if f"{rest}_".startswith((f"{group}_", f"{group}+"))]
    return max(known, key=len, default=rest)
