"""A topic: its queues, permissions and attributes; names, and system topics.

Clients neither write nor read a system topic; `%RETRY%` and `%DLQ%` topics belong to one consumer
group and are read by it. Source: TopicConfig, PermName, TopicAttributes, TopicValidator, MixAll.
"""

from dataclasses import dataclass, field
from typing import Final

from pocketmq.model.errors import (
    KindConflict,
    QueueOutOfRange,
    TopicNotReadable,
    TopicNotWritable,
    UnsupportedTopic,
)
from pocketmq.model.message_kind import KINDS_TAKEN, MessageKind, kinds_taken

PERMISSION_READ: Final = 4
PERMISSION_WRITE: Final = 2
PERMISSION_INHERIT: Final = 1
PERMISSION_MAX: Final = PERMISSION_READ | PERMISSION_WRITE | PERMISSION_INHERIT
QUEUE_COUNT_MAX: Final = 1_024
"""More queues than this in one topic are of no use and cost a file each."""
TYPE_ATTRIBUTE: Final = "message.type"
DEFAULT_TYPE: Final = "NORMAL"
"""The type of a topic without the attribute."""
TOPIC_TYPES: Final = frozenset(KINDS_TAKEN)
"""Kinds of messages that a topic takes (TopicMessageType)."""
SERVED_ATTRIBUTES: Final = {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}
"""Attributes that decide how a topic is stored, and the one value of each that is served."""
BATCH_QUEUES: Final = {"queue.type": "BatchCQ"}

DEFAULT_TOPIC: Final = "TBW102"
"""The template for topics that are created by a send (MixAll.AUTO_CREATE_TOPIC_KEY_TOPIC)."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
QUARANTINE_TOPIC: Final = "RMQ_SYS_QUARANTINE"
"""Topic of records that replace damaged ones; they have no unit and no entry."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that expired undecided."""

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
"""Prefix of light message queues, lite topics' included. They hold no records of their own, but
units of other topics' records. The table of topics contains no such name."""
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
        GIVEN_UP_TOPIC,
    }
)


def is_system_topic(topic: str) -> bool:
    """Returns whether only the broker itself writes and reads the topic."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_system_group(group: str) -> bool:
    """Returns whether the broker itself consumes by this group (MixAll.isSysConsumerGroup)."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_group_topic(topic: str) -> bool:
    """Returns whether the topic is the retry or dead-letter topic of some consumer group."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def retry_topic(group: str) -> str:
    """Returns the topic that holds messages the group failed to consume."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Returns the topic that holds messages the group gave up."""
    return DLQ_PREFIX + group


def is_readable_by(topic: str, group: str) -> bool:
    """Returns whether a client of this consumer group may pull from the topic."""
    if is_group_topic(topic) and not group:
        return False
    if topic.startswith(RETRY_PREFIX):
        own = retry_topic(group)
        # Messages a group failed to settle go to %RETRY%group_topic (or group+topic).
        return topic == own or topic.startswith((own + "_", own + "+"))
    if topic.startswith(DLQ_PREFIX):
        return len(topic) > len(DLQ_PREFIX)  # An operator's group reads dead letters.
    return not is_system_topic(topic)


@dataclass(slots=True)
class TopicConfig:
    """A topic, immutable."""

    name: str
    read_queue_count: int
    """Queues a consumer may pull from."""
    write_queue_count: int
    """Queues a producer may send to."""
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    """Sum of 4 read, 2 write, 1 inherit."""
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    """Attributes without the leading plus: message.type and others."""
    is_kept: bool = True
    """Whether the table on disk contains it; False: it is known by its queues alone."""
    is_plain: bool = field(init=False)
    """Whether sends need no further checks: the table contains it, and it is no system topic."""
    is_readable: bool = field(init=False)
    is_writable: bool = field(init=False)
    kinds: frozenset[MessageKind] = field(init=False)
    """Kinds of messages it takes."""
    unsupported: str = field(init=False)
    """The attribute that makes it neither readable nor writable, "" without one."""

    def __post_init__(self) -> None:
        assert self.read_queue_count >= 0, "a table clamps what its file says"
        assert self.write_queue_count >= 0, "a table clamps what its file says"
        assert 0 <= self.permission <= PERMISSION_MAX, "a permission is a sum of three bits"
        is_internal = is_system_topic(self.name) or is_group_topic(self.name)
        self.is_plain = self.is_kept and not is_internal
        self.unsupported = ", ".join(
            f"{name}={self.attributes[name]}"
            for name, served in SERVED_ATTRIBUTES.items()
            if self.attributes.get(name, served).upper() != served.upper()
        )
        self.kinds = kinds_taken(self.attributes.get(TYPE_ATTRIBUTE))
        self.is_readable = bool(self.permission & PERMISSION_READ) and not self.unsupported
        self.is_writable = bool(self.permission & PERMISSION_WRITE) and not self.unsupported

    @property
    def queue_count(self) -> int:
        """How many queues the topic has, for readers or writers."""
        return max(self.read_queue_count, self.write_queue_count)

    @property
    def type_name(self) -> str:
        """The kind of messages it takes: one of TOPIC_TYPES, or another broker's value."""
        return self.attributes.get(TYPE_ATTRIBUTE, DEFAULT_TYPE)

    @property
    def is_fifo(self) -> bool:
        """Whether the messages of a message group are received one after the other."""
        return self.type_name == MessageKind.FIFO.value

    @property
    def has_priorities(self) -> bool:
        """Whether a higher queue is received before a lower one."""
        return self.type_name == MessageKind.PRIORITY.value

    def check_supported(self) -> None:
        """Raises UnsupportedTopic where the topic is stored in a way this broker cannot."""
        if self.unsupported:
            raise UnsupportedTopic(topic=self.name, attribute=self.unsupported)

    def check_readable(self) -> None:
        """Raises UnsupportedTopic or TopicNotReadable if the topic has no read permission."""
        self.check_supported()
        if not self.is_readable:
            raise TopicNotReadable(topic=self.name, permission=self.permission)

    def check_writable(self) -> None:
        """Raises UnsupportedTopic or TopicNotWritable if the topic has no write permission."""
        self.check_supported()
        if not self.is_writable:
            raise TopicNotWritable(topic=self.name, permission=self.permission)

    def check_kind(self, kind: MessageKind) -> None:
        """Raises KindConflict for a kind of messages that it does not take."""
        if kind not in self.kinds:
            raise KindConflict(topic=self.name, type=self.type_name, kind=kind.value)

    def check_queue(self, queue_id: int) -> None:
        """Raises QueueOutOfRange for a queue that a consumer cannot pull from."""
        count = self.read_queue_count
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=self.name, queue_id=queue_id, count=count)
