"""Property blocks that classic clients encoded: stored as they are, with the broker's properties.

Names and values may be anything: RocketMQ's broker does not check them.
Source: SendMessageProcessor, AbstractSendMessageProcessor.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR
from pocketmq.model.errors import BodyEmpty, PropertiesTooLarge
from pocketmq.model.message import UNIQUE_KEY
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.topic import TopicConfig

AT_ONCE_KINDS: Final = frozenset({MessageKind.NORMAL, MessageKind.FIFO})
"""Kinds of messages that are stored in their target queue at once."""


def completed_blocks(
    ids: Sequence[str], given: Sequence[str], added: Sequence[str], tail: str
) -> list[bytes]:
    """Returns the blocks of messages with what the broker adds to each.

    ids     unique keys; one that its block lacks is added
    added   further encoded properties of each message; empty: none
    tail    encoded properties that end every block
    """
    rows = zip(ids, given, added or [""] * len(ids), strict=True)
    return [
        f"{_missing(message_id, block)}{block}{further}{tail}".encode()
        for message_id, block, further in rows
    ]


def _missing(message_id: str, block: str) -> str:
    pair = f"{UNIQUE_KEY}{NAME_SEPARATOR}{message_id}{PAIR_SEPARATOR}"
    return "" if pair in block else pair


def check_encoded(bodies: Sequence[bytes], blocks: Sequence[bytes], size_max: int) -> None:
    """Checks sizes of messages.

    size_max   most bytes of a property block
    Errors     BodyEmpty, PropertiesTooLarge
    """
    for number, block in enumerate(blocks):
        if not bodies[number]:
            raise BodyEmpty(position=number)
        if len(block) > size_max:
            raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=size_max)


def is_in_order(config: TopicConfig, kind: MessageKind) -> bool:
    """Returns whether a topic of type NORMAL or FIFO accepts a message by its queue's order.

    Classic clients choose the queue, so that a message needs no message group.
    """
    return kind in AT_ONCE_KINDS and bool(AT_ONCE_KINDS & config.kinds)
