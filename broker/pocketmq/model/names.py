"""Checks names of topics, groups, tags, keys and properties, and ranges of numbers.

Names of topics become directory names, so they must not contain dots, slashes and control
characters.
Source: TopicValidator, Validators; proxy GrpcValidator.
"""

import re
from typing import Final

from pocketmq.model.errors import (
    IllegalGroup,
    IllegalKey,
    IllegalMessageGroup,
    IllegalMessageId,
    IllegalNumber,
    IllegalProperty,
    IllegalTag,
    IllegalTopic,
)
from pocketmq.model.message import OFFSET_MAX, RESERVED_PROPERTIES
from pocketmq.model.topic import LMQ_PREFIX, RETRY_PREFIX

TOPIC_LENGTH_MAX: Final = 127
RETRY_TOPIC_LENGTH_MAX: Final = 255
"""Maximum length of a retry topic's name; above 127 characters, records have the V2 format."""
GROUP_LENGTH_MAX: Final = 120
MESSAGE_ID_LENGTH_MAX: Final = 255
MESSAGE_GROUP_LENGTH_MAX: Final = 63
PROPERTY_COUNT_MAX: Final = 128

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_LMQ_ALLOWED = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_topic(topic: str) -> None:
    """Raises IllegalTopic unless a topic may have this name; system topics are accepted.

    Limits   1..127 characters of % | a-z A-Z 0-9 _ -; up to 255 for %RETRY% topics
    """
    if not topic:
        raise IllegalTopic(topic=topic, why="it is empty")
    limit = RETRY_TOPIC_LENGTH_MAX if topic.startswith(RETRY_PREFIX) else TOPIC_LENGTH_MAX
    if len(topic) > limit:
        raise IllegalTopic(topic=topic, why=f"it has {len(topic)} characters, limit {limit}")
    if _ALLOWED.fullmatch(topic) is None:
        raise IllegalTopic(topic=topic, why="only letters, digits and % | _ - are allowed")


def is_queue_topic(name: str) -> bool:
    """Returns whether a directory of queues may have this name."""
    try:
        check_queue_topic(name)
    except IllegalTopic:
        return False
    return True


def check_queue_topic(topic: str) -> None:
    """Raises IllegalTopic unless a directory of queues may have this name.

    Other systems choose the names of light message queues: up to 255 bytes of all characters except
    slashes and control characters.
    """
    if not topic.startswith(LMQ_PREFIX):
        check_topic(topic)
        return
    size = len(topic.encode("utf-8", "replace"))
    if size > RETRY_TOPIC_LENGTH_MAX:
        why = f"it has {size} bytes, limit {RETRY_TOPIC_LENGTH_MAX}"
        raise IllegalTopic(topic=topic, why=why)
    if _LMQ_ALLOWED.fullmatch(topic) is None:
        raise IllegalTopic(topic=topic, why="it contains a slash or a control character")


def check_group(group: str) -> None:
    """Raises IllegalGroup unless a consumer group may have this name."""
    if not group:
        raise IllegalGroup(group=group, why="it is empty")
    if len(group) > GROUP_LENGTH_MAX:
        why = f"it has {len(group)} characters, limit {GROUP_LENGTH_MAX}"
        raise IllegalGroup(group=group, why=why)
    if _ALLOWED.fullmatch(group) is None:
        raise IllegalGroup(group=group, why="only letters, digits and % | _ - are allowed")


def check_producers(name: str) -> None:
    """Raises IllegalGroup unless the name is valid as a producer group or as a topic."""
    if not (name.isascii() and len(name) <= TOPIC_LENGTH_MAX and _ALLOWED.fullmatch(name)):
        check_group(name)


def is_group(name: str) -> bool:
    """Returns whether a group may have this name."""
    return bool(name) and len(name) <= GROUP_LENGTH_MAX and _ALLOWED.fullmatch(name) is not None


def check_tag(tag: str) -> None:
    """Raises IllegalTag for a tag that is blank, or contains "|" or a control character."""
    if not tag.strip():
        raise IllegalTag(tag=tag, why="it is blank")
    if "|" in tag or _CONTROL.search(tag):
        raise IllegalTag(tag=tag, why="it contains | or a control character")


def check_key(key: str) -> None:
    """Raises IllegalKey for a key that is blank, or contains a space or a control character."""
    if not key.strip():
        raise IllegalKey(key=key, why="it is blank")
    if " " in key or _CONTROL.search(key):
        raise IllegalKey(key=key, why="it contains a space or a control character")


def check_message_group(group: str) -> None:
    """Raises IllegalMessageGroup unless the name is not blank, and has at most 63 bytes.

    Control characters are not allowed.
    """
    if not group.strip() or _CONTROL.search(group):
        raise IllegalMessageGroup(group=group, why="it is blank or contains a control character")
    if len(group.encode()) > MESSAGE_GROUP_LENGTH_MAX:
        why = f"it is longer than {MESSAGE_GROUP_LENGTH_MAX} bytes"
        raise IllegalMessageGroup(group=group, why=why)


def check_message_id(message_id: str) -> None:
    """Raises IllegalMessageId for an id that is blank, too long, or has control characters."""
    if not message_id.strip():
        raise IllegalMessageId(message_id=message_id, why="it is blank")
    if len(message_id.encode()) > MESSAGE_ID_LENGTH_MAX:
        why = f"it is longer than {MESSAGE_ID_LENGTH_MAX} bytes"
        raise IllegalMessageId(message_id=message_id, why=why)
    if _CONTROL.search(message_id):
        raise IllegalMessageId(message_id=message_id, why="it contains a control character")


def check_number(field: str, value: int, *, lower: int = 0, upper: int = OFFSET_MAX) -> None:
    """Raises IllegalNumber for a field of a request outside [lower, upper]."""
    if not lower <= value <= upper:
        raise IllegalNumber(field=field, value=value, lower=lower, upper=upper)


def is_reserved(name: str) -> bool:
    """Returns whether a property with this name belongs to the broker."""
    return name in RESERVED_PROPERTIES or name.startswith("TIMER_")


def check_property(name: str, value: str) -> None:
    """Raises IllegalProperty for a reserved name, or a name or value that cannot be stored.

    Empty values are rejected, as readers of the format drop properties with empty values.
    """
    if not name.strip():
        raise IllegalProperty(name=name, why="its name is blank")
    if is_reserved(name):
        raise IllegalProperty(name=name, why="the name belongs to the broker")
    if not value:
        raise IllegalProperty(name=name, why="its value is empty")
    if _CONTROL.search(name):
        raise IllegalProperty(name=name, why="its name contains a control character")
    if "\x00" in value or "\x01" in value or "\x02" in value:
        raise IllegalProperty(name=name, why="its value contains U+0000, U+0001 or U+0002")
