"""Finds the owners of retry and dead-letter topics: groups whose messages may be in them.

    %DLQ%g           of group g
    %RETRY%a_b_c     of group a_b_c, messages sent back; of a_b for topic c; of a for topic b_c
    %RETRY%a_b+c     of group a_b for topic c

Every grant, read and removal by such a name uses these rules. A name has several owners if groups
and topics exist for several readings; a record in it has one (`record_owners`).
Source: KeyBuilder, MixAll.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pocketmq.model.message import ORIGIN_GROUP, RETRY_TOPIC
from pocketmq.model.system_topics import RETRY_SEPARATOR, RETRY_SEPARATOR_V2
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_group_topic

Exists = Callable[[str], object]
"""Returns something true for the name of a group, or of a topic, that exists."""


class Owner(NamedTuple):
    """A group, and the topic whose messages it gets again from a retry topic.

    topic   "" for messages of all topics: those the group sent back, or gave up
    """

    group: str
    topic: str


def readings(name: str) -> list[Owner]:
    """Returns every owner that a group's topic can have by its name, the longest group first."""
    if name.startswith(DLQ_PREFIX):
        return [Owner(name.removeprefix(DLQ_PREFIX), "")]
    if not name.startswith(RETRY_PREFIX):
        return []
    rest = name.removeprefix(RETRY_PREFIX)
    if RETRY_SEPARATOR_V2 in rest:  # No group or topic of clients has it in its name.
        group, _, topic = rest.partition(RETRY_SEPARATOR_V2)
        return [Owner(group, topic)]
    found, end = [Owner(rest, "")], rest.rfind(RETRY_SEPARATOR)
    while end > 0:
        if end + 1 < len(rest):
            found.append(Owner(rest[:end], rest[end + 1 :]))
        end = rest.rfind(RETRY_SEPARATOR, 0, end)
    return found


def owners(name: str, is_group: Exists, is_topic: Exists) -> list[Owner]:
    """Returns the existing owners of a group's topic: the group, and the topic if one is meant.

    Cost     two look-ups for each separator in the name
    """
    return [
        owner
        for owner in readings(name)
        if is_group(owner.group) and (not owner.topic or is_topic(owner.topic))
    ]


def owner_groups(name: str, is_group: Exists, is_topic: Exists) -> list[str]:
    """Returns the groups that own a topic; of several that might, only those that exist."""
    found = owners(name, is_group, is_topic) or readings(name)[:1]
    return [owner.group for owner in found]


def record_owners(
    name: str, properties: Mapping[str, str], is_group: Exists, is_topic: Exists
) -> list[str]:
    """Returns the groups of which one owns a record in a group's topic.

    More than one: a broker put it there that leaves no name (`is_of_group`).
    """
    assert is_group_topic(name), "other topics are no group's"
    origin = properties.get(ORIGIN_GROUP)
    if origin and name.startswith(RETRY_PREFIX):
        return [origin]
    if RETRY_TOPIC in properties:  # It was sent back, or given up.
        return [readings(name)[0].group]
    return owner_groups(name, is_group, is_topic)


def is_ambiguous(name: str) -> bool:
    """Returns whether records of several groups may be in a topic."""
    return len(readings(name)) > 1


def is_left_alone(name: str, owner: Owner, is_group: Exists, is_topic: Exists) -> bool:
    """Whether this owner is the only one, so that the topic may be deleted with it."""
    return all(found == owner for found in owners(name, is_group, is_topic))
