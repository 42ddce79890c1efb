"""Kinds of messages, and which of them a topic takes.

    normal        at once, in the order of its queue
    fifo          in the order of its message group
    delay         at a time, or when a delay level is over
    transaction   when its producer commits it
    priority      before messages of less weight

Source: TopicMessageType, DefaultTopicMessageTypeValidator.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

MIXED: Final = "MIXED"
"""The type of a topic that takes messages of every kind."""


class MessageKind(Enum):
    """The kind of a message; the values are RocketMQ's names."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"

    @property
    def label(self) -> str:
        """Its name in metrics."""
        return self.value.lower()


KINDS_TAKEN: Final[Mapping[str, frozenset[MessageKind]]] = {
    **{kind.value: frozenset({kind}) for kind in MessageKind},
    MIXED: frozenset(MessageKind),
}
"""Kinds of messages a topic takes, by its type; a type that only other brokers know takes none."""


def kinds_taken(type_name: str | None) -> frozenset[MessageKind]:
    """Returns the kinds of messages a topic takes; None: a topic without a row.

    Such a topic takes every kind, as a real broker's does; only its proxy refuses that.
    """
    if type_name is None:
        return KINDS_TAKEN[MIXED]
    return KINDS_TAKEN.get(type_name.upper(), frozenset())
