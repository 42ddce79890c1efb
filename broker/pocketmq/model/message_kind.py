"""Kinds of messages, and which kinds a topic accepts.

Source: TopicMessageType, DefaultTopicMessageTypeValidator.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

MIXED: Final = "MIXED"
"""Type of a topic that accepts messages of every kind."""


class MessageKind(Enum):
    """The kind of a message; the values are RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"

    @property
    def label(self) -> str:
        """Name in metrics."""
        return self.value.lower()


KINDS_TAKEN: Final[Mapping[str, frozenset[MessageKind]]] = {
    **{kind.value: frozenset({kind}) for kind in MessageKind},
    MIXED: frozenset(MessageKind),
}
"""Kinds that a topic accepts, by its type; a topic of an unknown type accepts none."""


def kinds_taken(type_name: str | None) -> frozenset[MessageKind]:
    """Returns the kinds of messages that a topic accepts; None: the topic has no type.

    As in RocketMQ's broker, a topic without a type accepts every kind.
    """
    if type_name is None:
        return KINDS_TAKEN[MIXED]
    return KINDS_TAKEN.get(type_name.upper(), frozenset())
