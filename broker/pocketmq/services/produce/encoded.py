"""Completes the property blocks that classic clients encoded with the broker's properties.

As in RocketMQ's broker, the names and values in these blocks are not checked.
Source: SendMessageProcessor, AbstractSendMessageProcessor.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR
from pocketmq.model.errors import BodyEmpty, PropertiesTooLarge
from pocketmq.model.message import UNIQUE_KEY
from pocketmq.model.message_kind import MessageKind

AT_ONCE_KINDS: Final = frozenset({MessageKind.NORMAL, MessageKind.FIFO})
"""Kinds of messages that are stored in their target queue at once."""


def completed_blocks(
    ids: Sequence[str], given: Sequence[str], added: Sequence[str], tail: str
) -> list[bytes]:
    """Returns property blocks with the broker's properties.

    ids     unique keys; a key is added to its block unless the block contains it
    added   for each message: encoded properties to add; empty: no message has any
    tail    encoded properties that are added to every block
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
    """Checks the sizes of messages.

    size_max   maximum bytes of a property block
    Errors     BodyEmpty, PropertiesTooLarge
    """
    for number, block in enumerate(blocks):
        if not bodies[number]:
            raise BodyEmpty(position=number)
        if len(block) > size_max:
            raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=size_max)
