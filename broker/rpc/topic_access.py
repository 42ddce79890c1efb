"""Which topics a client may read, and which of their queues exist.

Broker serves clients: no system topics, and a group's retry and dead-letter topic only to that
group. Admin serves operators: every topic that exists and is readable.
"""

from collections.abc import Callable
from typing import Protocol

from broker.model.errors import QueueOutOfRange, SystemTopic, TopicNotFound, TopicNotReadable
from broker.model.system_topics import is_group_topic, is_readable_by, is_system_topic
from broker.model.topic import TopicConfig
from broker.model.topic_names import check_topic


class Topics(Protocol):
    """Finds topics by name."""

    def find(self, topic: str, /) -> TopicConfig | None:
        """Return a topic, None when nobody created it."""


TopicCheck = Callable[[str, str], None]
"""(topic, group or ""): raises SystemTopic where reading is not for this caller."""


def check_client_reads(topic: str, group: str) -> None:
    """Raise SystemTopic for a topic whose messages a client of this group may not read."""
    is_nobodys = not group and is_group_topic(topic)
    if is_nobodys or not is_readable_by(topic, group):
        raise SystemTopic(topic=topic, why="read")


def check_client_locates(topic: str, group: str) -> None:
    """Raise SystemTopic for a system topic; any other one's offsets are no secret."""
    if is_system_topic(topic):
        raise SystemTopic(topic=topic, why="read")


def check_operator_reads(topic: str, group: str) -> None:
    """Let every topic pass."""


def find_topic(topics: Topics, topic: str) -> TopicConfig:
    """Return a topic that exists.

    Errors   IllegalTopic, TopicNotFound
    """
    config = topics.find(topic)
    if config is None:
        check_topic(topic)
        raise TopicNotFound(topic=topic)
    return config


def find_readable(topics: Topics, topic: str, group: str, check: TopicCheck) -> TopicConfig:
    """Return a topic that this caller may read.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, TopicNotReadable
    """
    check(topic, group)
    config = find_topic(topics, topic)
    if not config.is_readable:
        raise TopicNotReadable(topic=topic, permission=config.permission)
    return config


def check_queue(config: TopicConfig, queue_id: int) -> None:
    """Raise QueueOutOfRange for a queue the topic does not have."""
    count = config.read_queue_count
    if not 0 <= queue_id < count:
        raise QueueOutOfRange(topic=config.name, queue_id=queue_id, count=count)
