"""Parses requests that change topics, and lists the permissions that they need.

Source: CreateTopicRequestHeader, CreateTopicListRequestBody, AttributeParser.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pocketmq.model.access import Need
from pocketmq.model.administration import TopicChange
from pocketmq.model.errors import IllegalAttribute, SystemTopic
from pocketmq.model.names import check_number, check_topic
from pocketmq.model.topic import PERMISSION_MAX, QUEUE_COUNT_MAX, is_system_topic
from pocketmq.rpc.call import Call
from pocketmq.rpc.classic.fields import flag_field, number_field, text_field
from pocketmq.rpc.classic.json_body import Body, body_of, objects_in, text_in, texts_in, whole_in
from pocketmq.rpc.permissions import CREATE, DELETE, UPDATE, topic_need
from pocketmq.wire.remoting import Command

ADDED: Final = "+"
REMOVED: Final = "-"
"""First character of an attribute's name: the attribute is set, or removed."""
TOPIC_LIST: Final = "topicConfigList"


def changed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to create or change the topic that a request names."""
    return [topic_need(request.fields.get("topic", ""), (*UPDATE, *CREATE))]


def all_changed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to create or change all topics in a request's list.

    Errors   MalformedRequest
    """
    rows = objects_in(body_of(request), TOPIC_LIST)
    return [topic_need(text_in(row, "topicName"), (*UPDATE, *CREATE)) for row in rows]


def deleted(request: Command, call: Call) -> list[Need]:
    """Returns the permission to delete the topic that a request names."""
    return [topic_need(request.fields.get("topic", ""), DELETE)]


def change_of(request: Command) -> tuple[str, TopicChange]:
    """Returns the topic that a request names, and the topic's new settings.

    Errors   MalformedRequest, IllegalNumber, IllegalAttribute
    """
    pairs = (part.partition("=") for part in request.fields.get("attributes", "").split(","))
    attributes = {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
    added, removed = _attributes(attributes)
    change = TopicChange(
        number_field(request, "readQueueNums"),
        number_field(request, "writeQueueNums"),
        number_field(request, "perm"),
        flag_field(request, "order"),
        added,
        tuple(removed),
    )
    return text_field(request, "topic"), change


def changes_of(request: Command) -> list[tuple[str, TopicChange]]:
    """Returns the topics in a request's list, and their new settings.

    Errors   MalformedRequest, IllegalAttribute
    """
    return [_listed_change(row) for row in objects_in(body_of(request), TOPIC_LIST)]


def _listed_change(row: Body) -> tuple[str, TopicChange]:
    added, removed = _attributes(texts_in(row, "attributes"))
    change = TopicChange(
        whole_in(row, "readQueueNums"),
        whole_in(row, "writeQueueNums"),
        whole_in(row, "perm"),
        row.get("order") is True,
        added,
        tuple(removed),
    )
    return text_in(row, "topicName"), change


def _attributes(given: Mapping[str, str]) -> tuple[dict[str, str], Iterable[str]]:
    """Returns the attributes to set and the names of those to remove, without their signs.

    Errors   IllegalAttribute
    """
    for name in given:
        if name[:1] not in (ADDED, REMOVED):
            raise IllegalAttribute(name=name, why=f"write {ADDED}name=value, or {REMOVED}name")
    added = {name[1:]: value for name, value in given.items() if name.startswith(ADDED)}
    return added, [name[1:] for name in given if name.startswith(REMOVED)]


def check_name(topic: str) -> None:
    """Raises for a name that operators can neither create nor change.

    Errors   IllegalTopic, SystemTopic
    """
    check_topic(topic)
    if is_system_topic(topic):
        raise SystemTopic(topic=topic, why="change")


def check_numbers(change: TopicChange) -> None:
    """Checks all numbers of a change, as `create_topic` uses and checks only some of them.

    Errors   IllegalNumber
    """
    for name, value, lower, upper in (
        ("readQueueNums", change.read_queue_count, 1, QUEUE_COUNT_MAX),
        ("writeQueueNums", change.write_queue_count, 1, QUEUE_COUNT_MAX),
        ("perm", change.permission, 0, PERMISSION_MAX),
    ):
        check_number(name, value or 0, lower=lower, upper=upper)


def check_new(change: TopicChange) -> None:
    """Raises IllegalAttribute if a change removes an attribute, as a new topic has none."""
    for name in change.remove_attributes:
        raise IllegalAttribute(name=name, why="the topic does not have it")
