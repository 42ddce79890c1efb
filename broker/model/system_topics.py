"""Which topics and groups belong to the broker, and how retry and dead-letter topics are named.

Clients neither write nor read a system topic; `%RETRY%` and `%DLQ%` topics belong to one consumer
group and are read by it.
Source: TopicValidator, MixAll.
"""

from typing import Final

DEFAULT_TOPIC: Final = "TBW102"
"""The template for topics that are created by a send (MixAll.AUTO_CREATE_TOPIC_KEY_TOPIC)."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
QUARANTINE_TOPIC: Final = "RMQ_SYS_QUARANTINE"
"""Topic of records that stand in the place of damaged ones; they have no unit and no entry."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")
SYSTEM_TOPICS: Final = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_TRACE_TOPIC",
        "SELF_TEST_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)


def is_system_topic(topic: str) -> bool:
    """Return whether only the broker itself may write and read the topic."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_system_group(group: str) -> bool:
    """Return whether the broker itself consumes by this group (MixAll.isSysConsumerGroup)."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_group_topic(topic: str) -> bool:
    """Return whether the topic is the retry or dead-letter topic of some consumer group."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def retry_topic(group: str) -> str:
    """Return the topic that holds messages the group failed to consume."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic that holds messages the group gave up."""
    return DLQ_PREFIX + group


def is_readable_by(topic: str, group: str) -> bool:
    """Return whether a client of this consumer group may pull from the topic."""
    if is_group_topic(topic) and not group:
        return False
    if topic.startswith(RETRY_PREFIX):
        own = retry_topic(group)
        # Messages a group failed to settle go to %RETRY%group_topic (or group+topic).
        return topic == own or topic.startswith((own + "_", own + "+"))
    if topic.startswith(DLQ_PREFIX):
        return topic == dead_letter_topic(group)
    return not is_system_topic(topic)
