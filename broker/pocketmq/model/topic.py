"""A topic: its queues, permissions and attributes; names, and system topics.

A system topic belongs to the broker. Clients use only one of them, TRACE_TOPIC. A `%RETRY%` or
`%DLQ%` topic belongs to a consumer group, which reads it.
Source: TopicConfig, PermName, TopicAttributes, TopicValidator, MixAll.
"""

from dataclasses import dataclass, field
from typing import Final

from pocketmq.model.decimal import SUMMABLE_MAX, number_of
from pocketmq.model.errors import (
    IllegalAttribute,
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
"""Upper limit of queues of a topic; each queue costs a file."""
TYPE_ATTRIBUTE: Final = "message.type"
DEFAULT_TYPE: Final = "NORMAL"
TOPIC_TYPES: Final = frozenset(KINDS_TAKEN)
TYPE_NAMES: Final = ("normal", "fifo", "delay", "transaction", "priority", "mixed")
"""TOPIC_TYPES as operators write them, in the order in which help lists them."""
FIXED_ATTRIBUTES: Final = frozenset({"queue.type", "cleanup.policy"})
"""Attributes that determine how a topic is stored, and cannot be changed."""
RESERVE_TIME_ATTRIBUTE: Final = "reserve.time"
"""Attribute of RocketMQ's cold storage: ms, or -1. It has no effect here."""
RETENTION_MS_ATTRIBUTE: Final = "pocketmq.retention.ms"
"""Attribute: age in ms above which messages cannot be read. RocketMQ ignores and keeps it."""
RETENTION_BYTES_ATTRIBUTE: Final = "pocketmq.retention.bytes"
"""Attribute: largest total size of a topic's readable records, in bytes. Older records cannot be
read. RocketMQ ignores and keeps it."""
RETENTION_ATTRIBUTES: Final = {RETENTION_MS_ATTRIBUTE: 1_000, RETENTION_BYTES_ATTRIBUTE: 1}
"""Attributes of a topic's retention, with the lowest value of each."""
SERVED_ATTRIBUTES: Final = {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}
"""Attributes that determine how a topic is stored, with the one supported value of each."""
BATCH_QUEUES: Final = {"queue.type": "BatchCQ"}

DEFAULT_TOPIC: Final = "TBW102"
"""Template of topics that a send creates (MixAll.AUTO_CREATE_TOPIC_KEY_TOPIC)."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
QUARANTINE_TOPIC: Final = "RMQ_SYS_QUARANTINE"
"""Topic of records that replace damaged records; they have no consume unit or index entry."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Group whose committed offsets state where recovery reads half messages and op messages."""
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Topic of half messages that expired undecided."""
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
"""Topic to which classic clients send their message traces, if the application enables tracing."""

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
"""Prefix of light message queues and lite topics. Their units belong to records of other topics.
The topic table does not contain them."""
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
        TRACE_TOPIC,
        "SELF_TEST_TOPIC",
        GIVEN_UP_TOPIC,
    }
)


def is_system_topic(topic: str) -> bool:
    """Returns whether the topic belongs to the broker; clients may use only TRACE_TOPIC."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_brokers_topic(topic: str) -> bool:
    """Returns whether the topic belongs to the broker and no client may use it."""
    return is_system_topic(topic) and topic != TRACE_TOPIC


def is_system_group(group: str) -> bool:
    """Returns whether the broker consumes with this group (MixAll.isSysConsumerGroup)."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_group_topic(topic: str) -> bool:
    """Returns whether the topic is a consumer group's retry or dead-letter topic."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def retry_topic(group: str) -> str:
    """Returns the topic for messages that the group failed to consume."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Returns the topic for messages whose delivery attempts to the group are exhausted."""
    return DLQ_PREFIX + group


def is_readable_by(topic: str, group: str) -> bool:
    """Returns whether a client of this consumer group may pull from the topic."""
    if is_group_topic(topic) and not group:
        return False
    if topic.startswith(RETRY_PREFIX):
        own = retry_topic(group)
        # Messages whose lease expired are in %RETRY%group_topic (or group+topic).
        return topic == own or topic.startswith((own + "_", own + "+"))
    if topic.startswith(DLQ_PREFIX):
        return len(topic) > len(DLQ_PREFIX)  # Operators read dead letters with any group.
    return not is_brokers_topic(topic)


@dataclass(slots=True)
class TopicConfig:
    """A topic, immutable."""

    name: str
    read_queue_count: int
    """Number of queues from which consumers may pull."""
    write_queue_count: int
    """Number of queues to which producers may send."""
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    """Sum of 4 (read), 2 (write), 1 (inherit)."""
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    """Names are without the leading plus."""
    is_kept: bool = True
    """Whether the topic table contains the topic; False: only its queues exist."""
    is_plain: bool = field(init=False)
    """Whether the topic table contains the topic, and it is no system, retry or dead-letter topic.
    """
    is_readable: bool = field(init=False)
    is_writable: bool = field(init=False)
    kinds: frozenset[MessageKind] = field(init=False)
    """Kinds of messages that the topic accepts."""
    unsupported: str = field(init=False)
    """Attributes because of which the topic is neither readable nor writable; "": none."""

    def __post_init__(self) -> None:
        assert self.read_queue_count >= 0, "read queue count is negative"
        assert self.write_queue_count >= 0, "write queue count is negative"
        assert 0 <= self.permission <= PERMISSION_MAX, "permission has unknown bits"
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
        """The larger one of the read and write queue counts."""
        return max(self.read_queue_count, self.write_queue_count)

    @property
    def type_name(self) -> str:
        """The message type: one of TOPIC_TYPES, or an unknown value."""
        return self.attributes.get(TYPE_ATTRIBUTE, DEFAULT_TYPE)

    @property
    def retention_ms(self) -> int:
        """Age in ms above which the topic's messages cannot be read; 0: no limit."""
        return self._limit(RETENTION_MS_ATTRIBUTE)

    @property
    def retention_bytes(self) -> int:
        """Largest total size of the topic's readable records, in bytes; 0: no limit.

        Older records cannot be read.
        """
        return self._limit(RETENTION_BYTES_ATTRIBUTE)

    def _limit(self, attribute: str) -> int:
        found = number_of(self.attributes.get(attribute, ""), SUMMABLE_MAX)
        return found if found >= RETENTION_ATTRIBUTES[attribute] else 0

    @property
    def is_fifo(self) -> bool:
        """Whether the messages of a message group are received in order, one at a time."""
        return self.type_name == MessageKind.FIFO.value

    @property
    def has_priorities(self) -> bool:
        """Whether queues with higher ids are received first."""
        return self.type_name == MessageKind.PRIORITY.value

    def check_supported(self) -> None:
        """Raises UnsupportedTopic if this broker cannot read or write the topic's queues."""
        if self.unsupported:
            raise UnsupportedTopic(topic=self.name, attribute=self.unsupported)

    def check_readable(self) -> None:
        """Raises an error unless consumers may read the topic.

        Errors   UnsupportedTopic; TopicNotReadable: the topic has no read permission
        """
        self.check_supported()
        if not self.is_readable:
            raise TopicNotReadable(topic=self.name, permission=self.permission)

    def check_writable(self) -> None:
        """Raises an error unless producers may send to the topic.

        Errors   UnsupportedTopic; TopicNotWritable: the topic has no write permission
        """
        self.check_supported()
        if not self.is_writable:
            raise TopicNotWritable(topic=self.name, permission=self.permission)

    def check_kind(self, kind: MessageKind) -> None:
        """Raises KindConflict for a kind of messages that the topic does not accept."""
        if kind not in self.kinds:
            raise KindConflict(topic=self.name, type=self.type_name, kind=kind.value)

    def check_queue(self, queue_id: int) -> None:
        """Raises QueueOutOfRange for a queue that consumers cannot pull from."""
        count = self.read_queue_count
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=self.name, queue_id=queue_id, count=count)


def check_attribute(name: str, value: str) -> None:
    """Refuses an attribute that cannot be set, and a value that it cannot have.

    Errors   IllegalAttribute
    Source   TopicAttributes
    """
    if name == TYPE_ATTRIBUTE:
        if value not in TOPIC_TYPES:
            why = f"its value is one of {', '.join(sorted(TOPIC_TYPES))}"
            raise IllegalAttribute(name=name, why=why)
    elif name == RESERVE_TIME_ATTRIBUTE:
        if number_of(value) < 0 and value != "-1":
            raise IllegalAttribute(name=name, why="its value is a number of ms, or -1")
    elif name in RETENTION_ATTRIBUTES:
        lower = RETENTION_ATTRIBUTES[name]
        if not lower <= number_of(value, SUMMABLE_MAX):
            unit = "ms" if name == RETENTION_MS_ATTRIBUTE else "bytes"
            limits = f"a number of {unit} from {lower} to {SUMMABLE_MAX}"
            why = f"its value is {limits}; remove it for no limit"
            raise IllegalAttribute(name=name, why=why)
    elif name in FIXED_ATTRIBUTES:
        raise IllegalAttribute(name=name, why="it cannot be changed")
    else:
        known = ", ".join((TYPE_ATTRIBUTE, RESERVE_TIME_ATTRIBUTE, *RETENTION_ATTRIBUTES))
        raise IllegalAttribute(name=name, why=f"the attributes that can be set are {known}")
