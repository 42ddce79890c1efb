"""Reads a plain SendMessageRequest straight off its bytes, without an object for each message.

    0A size │ message: 0A size topic │ 12 size body │ 1A size tag │ 22 size key … │ 2A size id
    10 wait

Plain is what nearly all clients send: messages with no other fields than these, in this order.
Anything else, and bytes that are no request at all, are left to the generated classes
(send_request.py), which read the same out of every request that is read here.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.format.content import PROPERTIES_SIZE_MAX
from broker.services.send import MESSAGES_MAX

FIELDS_MAX: Final = 32_768
"""Fields of all messages of a request: 15 ms of walking, and 32 for each of 1,024 messages."""
KEY_COUNT_MAX: Final = PROPERTIES_SIZE_MAX // 2
"""Keys with a separator each that a property block can hold at most."""
_MESSAGE: Final = 0x0A
_WAIT: Final = 0x10
_TOPIC: Final = 0x0A
_BODY: Final = 0x12
_TAG: Final = 0x1A
_KEY: Final = 0x22
_ID: Final = 0x2A


class PlainRequest(NamedTuple):
    """The columns of a plain request; "" stands for a tag or an id that is absent."""

    topics: list[str]
    bodies: list[bytes]
    tags: list[str]
    keys: list[Sequence[str]]
    message_ids: list[str]
    wait: int


def walk_plain(raw: bytes) -> PlainRequest | None:
    """Hot: return the columns of a request, None unless it is plain.

    Cost     about 1.5 µs a message with one key
    """
    columns = PlainRequest([], [], [], [], [], 0)
    position, end, wait, field_count = 0, len(raw), 0, 0
    try:
        while position < end:
            if raw[position] == _WAIT:
                wait, position = raw[position + 1], position + 2
                field_count += 1
                if wait > 0x7F or field_count > FIELDS_MAX:
                    return None
                continue
            if raw[position] != _MESSAGE or len(columns.bodies) == MESSAGES_MAX:
                return None
            size, begin = raw[position + 1], position + 2
            if size > 0x7F:
                size, begin = _long_size(raw, position + 1)
            position = begin + size
            if position > end:
                return None
            field_count += _walk_message(raw, begin, position, columns)
            if field_count > FIELDS_MAX:
                return None
    except (IndexError, ValueError):
        return None
    return columns._replace(wait=wait) if wait else columns


def _walk_message(raw: bytes, position: int, end: int, columns: PlainRequest) -> int:
    """Take one message into the columns; returns how many fields it has.

    Errors   ValueError, IndexError: it is not plain
    """
    topic = tag = message_id = ""
    body = b""
    keys: list[str] = []
    last = field_count = 0
    while position < end:
        field, size, begin = raw[position], raw[position + 1], position + 2
        if size > 0x7F:
            size, begin = _long_size(raw, position + 1)
        position = begin + size
        field_count += 1
        if (field <= last and (field != _KEY or last != _KEY)) or field_count > FIELDS_MAX:
            raise ValueError
        last = field
        if field == _BODY:
            body = raw[begin:position]
        elif field == _KEY:
            keys.append(raw[begin:position].decode())
        elif field == _ID:
            message_id = raw[begin:position].decode()
        elif field == _TOPIC:
            topic = raw[begin:position].decode()
        elif field == _TAG and size:
            tag = raw[begin:position].decode()
        else:
            raise ValueError
    if position != end or len(keys) > KEY_COUNT_MAX:
        raise ValueError
    columns.topics.append(topic)
    columns.bodies.append(body)
    columns.tags.append(tag)
    columns.keys.append(keys)
    columns.message_ids.append(message_id)
    return field_count


def _long_size(raw: bytes, position: int) -> tuple[int, int]:
    """Return a length of two bytes to four, and where it ends.

    Errors   ValueError: it is longer
    """
    size = raw[position] & 0x7F | (raw[position + 1] & 0x7F) << 7
    if raw[position + 1] < 0x80:
        return size, position + 2
    size |= (raw[position + 2] & 0x7F) << 14
    if raw[position + 2] < 0x80:
        return size, position + 3
    if raw[position + 3] > 0x7F:
        raise ValueError
    return size | raw[position + 3] << 21, position + 4
