"""Finds the owners of retry and dead-letter topics: the groups whose messages they may contain.

    %DLQ%g           of group g
    %RETRY%a_b_c     of group a_b_c (sent-back messages), of a_b for topic c, of a for topic b_c
    %RETRY%a_b+c     of group a_b for topic c

The name of a retry topic may be split into group and topic in several ways, called readings. The
topic has several owners if group and topic of several readings exist. A single record usually has
one owner (`record_owners`).
Source: KeyBuilder, MixAll.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pocketmq.model.message import ORIGIN_GROUP, RETRY_TOPIC
from pocketmq.model.system_topics import RETRY_SEPARATOR, RETRY_SEPARATOR_V2
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_group_topic

Exists = Callable[[str], object]
"""Returns a true value if a group, or a topic, of this name exists."""


class Owner(NamedTuple):
    """A group, and the topic whose messages are redelivered to it from a retry topic.

    topic   "": sent-back messages or dead letters of the group, from all topics
    """

    group: str
    topic: str


def readings(name: str) -> list[Owner]:
    """Returns all readings of a topic's name, the reading with the longest group first."""
    if name.startswith(DLQ_PREFIX):
        return [Owner(name.removeprefix(DLQ_PREFIX), "")]
    if not name.startswith(RETRY_PREFIX):
        return []
    rest = name.removeprefix(RETRY_PREFIX)
    if RETRY_SEPARATOR_V2 in rest:  # Clients' groups and topics cannot contain it.
        group, _, topic = rest.partition(RETRY_SEPARATOR_V2)
        return [Owner(group, topic)]
    found, end = [Owner(rest, "")], rest.rfind(RETRY_SEPARATOR)
    while end > 0:
        if end + 1 < len(rest):
            found.append(Owner(rest[:end], rest[end + 1 :]))
        end = rest.rfind(RETRY_SEPARATOR, 0, end)
    return found


def owners(name: str, is_group: Exists, is_topic: Exists) -> list[Owner]:
    """Returns the readings of a topic's name whose group, and whose topic if any, exist.

    Cost     two look-ups for each separator in the name
    """
    return [
        owner
        for owner in readings(name)
        if is_group(owner.group) and (not owner.topic or is_topic(owner.topic))
    ]


def owner_groups(name: str, is_group: Exists, is_topic: Exists) -> list[str]:
    """Returns the groups that own a topic; if none exists, the longest possible group."""
    found = owners(name, is_group, is_topic) or readings(name)[:1]
    return [owner.group for owner in found]


def record_owners(
    name: str, properties: Mapping[str, str], is_group: Exists, is_topic: Exists
) -> list[str]:
    """Returns the groups that may own a record in a retry or dead-letter topic: usually one group.

    There may be several groups if the broker that stored the record set no ORIGIN_GROUP.
    """
    assert is_group_topic(name), "not a group's topic"
    origin = properties.get(ORIGIN_GROUP)
    if origin and name.startswith(RETRY_PREFIX):
        return [origin]
    if RETRY_TOPIC in properties:  # The record was sent back, or is a dead letter.
        return [readings(name)[0].group]
    return owner_groups(name, is_group, is_topic)


def is_ambiguous(name: str) -> bool:
    """Returns whether a topic may contain records of several groups."""
    return len(readings(name)) > 1


def is_left_alone(name: str, owner: Owner, is_group: Exists, is_topic: Exists) -> bool:
    """Returns whether a topic has no other owner, so that it may be deleted with this owner."""
    return all(found == owner for found in owners(name, is_group, is_topic))
