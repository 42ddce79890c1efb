"""Checks which topics a client may read.

Clients may not read system topics, except the trace topic. They may read a retry topic only for
its own group, and dead letters for any group. Operators may read every topic with read permission.
"""

from collections.abc import Callable, Mapping

from pocketmq.model.access import Action, Need, text_from_actions
from pocketmq.model.errors import AccessDenied, SystemTopic
from pocketmq.model.ownership import record_owners
from pocketmq.model.topic import TopicConfig, is_brokers_topic, is_group_topic, is_readable_by
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import LOOK, group_need, topic_need
from pocketmq.store.tables.tables import Tables
from pocketmq.store.tables.topics import TopicTable

TopicCheck = Callable[[str, str], None]
"""(topic, group or ""): raises SystemTopic if the caller may not read the topic."""


def check_client_reads(topic: str, group: str) -> None:
    """Raises SystemTopic if a client of this group may not read the topic's messages."""
    is_nobodys = not group and is_group_topic(topic)
    if is_nobodys or not is_readable_by(topic, group):
        raise SystemTopic(topic=topic, why="read")


def check_client_locates(topic: str, group: str) -> None:
    """Raises SystemTopic for a topic that no client uses; clients may see offsets of all others."""
    if is_brokers_topic(topic):
        raise SystemTopic(topic=topic, why="read")


def check_operator_reads(topic: str, group: str) -> None:
    """Accepts every topic."""


def find_readable(topics: TopicTable, topic: str, group: str, check: TopicCheck) -> TopicConfig:
    """Returns the config of a topic if the caller may read it.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, TopicNotReadable, UnsupportedTopic
    """
    check(topic, group)
    config = topics.existing(topic)
    config.check_readable()
    return config


def find_received(topics: TopicTable, topic: str, group: str) -> TopicConfig:
    """Returns the config of a topic whose received messages a client of a group settles.

    The topic may have become unreadable since the messages were received.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic
    """
    check_client_reads(topic, group)
    config = topics.existing(topic)
    config.check_supported()
    return config


def may_see(
    call: Call,
    tables: Tables,
    topic: str,
    properties: Mapping[str, str],
    actions: tuple[Action, ...] = LOOK,
) -> bool:
    """Returns whether a caller has one of `actions` on a record of a topic.

    For a record in a retry or dead-letter topic, the caller needs one of `actions` on each group
    that owns the record.
    """
    if not is_group_topic(topic):
        return call.may(topic_need(topic, actions))
    owners = record_owners(topic, properties, tables.groups.find, tables.topics.find)
    return all(call.may(group_need(group, actions)) for group in owners)


def check_may(call: Call, need: Need) -> None:
    """Raises AccessDenied if a caller lacks a permission."""
    if not call.may(need):
        action, resource = text_from_actions(frozenset(need.actions[:1])), str(need.resource)
        why = "no rule allows it"
        raise AccessDenied(
            user=call.user, action=action, resource=resource, why=why, remedy="grant"
        )
