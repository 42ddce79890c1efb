"""Reports topics that a send creates, and topics and groups that `create` leaves unchanged.

A topic that the first send creates may have a mistyped name.
"""

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.output import talk
from pocketmq.client import ClientError
from pocketmq.model.nearness import NEAR, nearest

Row = TypeVar("Row")


def is_missing(broker: BrokerConnection, topic: str) -> bool:
    """Returns whether a topic does not exist; False if the caller may not ask.

    Errors   ClientError
    """
    try:
        broker.ask(broker.admin.describe_topic(topic))
    except ClientError as error:
        if error.status not in ("NOT_FOUND", "PERMISSION_DENIED"):
            raise
        return error.status == "NOT_FOUND"
    return False


def exists(broker: BrokerConnection, description: Coroutine[Any, Any, object]) -> bool:
    """Returns whether a topic or group exists; False if the caller may not ask.

    An illegal name does not exist either.

    description   call of `describe_topic` or `describe_group`
    Errors        ClientError
    """
    try:
        broker.ask(description)
    except ClientError as error:
        if error.status not in ("NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT"):
            raise
        return False
    return True


def some_of_topic(broker: BrokerConnection, topic: str, found: Iterable[Row]) -> Iterator[Row]:
    """Yields what was found for a topic; if nothing was, the topic must exist.

    topic    "": any topic
    Errors   ClientError: nothing was found, and no topic has this name
    """
    is_empty = True
    for each in found:
        is_empty = False
        yield each
    if is_empty and topic:
        try:
            broker.ask(broker.admin.describe_topic(topic))
        except ClientError as error:
            if error.status != "PERMISSION_DENIED":
                raise


def report_unchanged(kind: str, name: str) -> None:
    """Reports that a topic or group existed with the wanted settings."""
    talk(f"Note: {kind} {name} existed with these settings; nothing was changed")


def report_creation(broker: BrokerConnection, topic: str) -> None:
    """Reports that a topic was created, and suggests the existing topic with the nearest name."""
    near = nearest(topic, broker.names("topic"), NEAR)
    hint = f"; did you mean {near}?" if near else ""
    talk(f"Note: topic {topic} did not exist and was created now{hint}")
