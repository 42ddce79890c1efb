"""Which topics a client may read.

Broker serves clients: no system topics, a group's retry topic only to that group, dead letters to
any group. Admin serves operators: every topic that exists and is readable.
"""

from collections.abc import Callable

from broker.model.errors import SystemTopic
from broker.model.topic import TopicConfig, is_group_topic, is_readable_by, is_system_topic
from broker.store.tables.topics import TopicTable

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


def find_readable(topics: TopicTable, topic: str, group: str, check: TopicCheck) -> TopicConfig:
    """Return a topic that this caller may read.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, TopicNotReadable, UnsupportedTopic
    """
    check(topic, group)
    config = topics.existing(topic)
    config.check_readable()
    return config
