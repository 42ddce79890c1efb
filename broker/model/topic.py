"""A topic: how many queues it has, who may read and write it, and its attributes.

Source: TopicConfig, PermName, TopicAttributes.
"""

from dataclasses import dataclass, field
from typing import Final

from broker.model.errors import QueueOutOfRange
from broker.model.system_topics import is_group_topic, is_system_topic

PERMISSION_READ: Final = 4
PERMISSION_WRITE: Final = 2
PERMISSION_INHERIT: Final = 1
PERMISSION_MAX: Final = PERMISSION_READ | PERMISSION_WRITE | PERMISSION_INHERIT
QUEUE_COUNT_MAX: Final = 1_024
"""More queues than this in one topic serve nobody and cost a file each."""
TYPE_ATTRIBUTE: Final = "message.type"
DEFAULT_TYPE: Final = "NORMAL"
"""The type of a topic without the attribute."""
TOPIC_TYPES: Final = frozenset({"NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"})
"""What kind of messages a topic takes (TopicMessageType)."""


@dataclass(slots=True)
class TopicConfig:
    """One topic, not changed once it is made."""

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
    is_internal: bool = field(init=False)
    """Whether clients may not send to it."""
    is_readable: bool = field(init=False)
    is_writable: bool = field(init=False)

    def __post_init__(self) -> None:
        assert self.read_queue_count >= 0, "a table clamps what its file says"
        assert self.write_queue_count >= 0, "a table clamps what its file says"
        assert 0 <= self.permission <= PERMISSION_MAX, "a permission is a sum of three bits"
        self.is_internal = is_system_topic(self.name) or is_group_topic(self.name)
        self.is_readable = bool(self.permission & PERMISSION_READ)
        self.is_writable = bool(self.permission & PERMISSION_WRITE)

    @property
    def queue_count(self) -> int:
        """How many queues the topic has, for readers or writers."""
        return max(self.read_queue_count, self.write_queue_count)

    @property
    def type_name(self) -> str:
        """What kind of messages it takes: one of TOPIC_TYPES, or what another broker wrote."""
        return self.attributes.get(TYPE_ATTRIBUTE, DEFAULT_TYPE)

    def check_queue(self, queue_id: int) -> None:
        """Raise QueueOutOfRange for a queue that a consumer cannot pull from."""
        count = self.read_queue_count
        if not 0 <= queue_id < count:
            raise QueueOutOfRange(topic=self.name, queue_id=queue_id, count=count)
