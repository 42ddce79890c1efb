"""Reads SendMessageRequest; a request of very many tiny parts is refused before it is parsed.

Two bytes make an empty message, key or property on the wire, and parsing turns each of them into 60
bytes and 50 ns: 16 MiB of them would hold the event loop for half a second. Small requests are
parsed straight away, larger ones are walked along first, field by field, as far as the limits go.
"""

from typing import Final

from broker.model.errors import TooManyMessages
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import SMALL_REQUEST_MAX, MalformedRequest
from broker.services.send import MESSAGES_MAX

FIELDS_MAX: Final = 32_768
"""Fields of all messages of a request: 15 ms of walking, and 32 for each of 1,024 messages."""
UNWALKED_MAX: Final = 512
"""Bytes of a message that is not looked into: 1,024 of them cannot hold what would hurt."""
_MESSAGES: Final = pb.SendMessageRequest.MESSAGES_FIELD_NUMBER
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ONE_BYTE_TAG: Final = 0x87
"""The wire type of a tag, and the bit that says that more of the tag follows."""


def parse_send_request(raw: bytes) -> pb.SendMessageRequest:
    """Return the request that bytes stand for.

    Errors   TooManyMessages, MalformedRequest; DecodeError
    Cost     of requests above 64 KiB about 2 µs a message more than parsing
    """
    if len(raw) > SMALL_REQUEST_MAX:
        _check_counts(raw)
    return pb.SendMessageRequest.FromString(raw)


def _check_counts(raw: bytes) -> None:
    message_count = field_count = position = 0
    end = len(raw)
    while position < end:
        number, begin, position = _next_field(raw, position)
        if number != _MESSAGES:
            field_count += 1
        else:
            message_count += 1
            if position - begin > UNWALKED_MAX:
                field_count += _fields_between(raw, begin, min(position, end))
        if message_count > MESSAGES_MAX:
            raise TooManyMessages(count=message_count, limit=MESSAGES_MAX)
        if field_count > FIELDS_MAX:
            raise MalformedRequest(why=f"its messages have more than {FIELDS_MAX} fields")


def _fields_between(raw: bytes, position: int, end: int) -> int:
    """Return how many fields lie there, one more than the limit for more than that."""
    count = 0
    while position < end and count <= FIELDS_MAX:
        count += 1
        if raw[position] & _ONE_BYTE_TAG == _BYTES and position + 2 < end:
            size = raw[position + 1]  # As nearly always: a length of one byte, or of two.
            if size < 0x80:
                position += 2 + size
                continue
            upper = raw[position + 2]
            if upper < 0x80:
                position += 3 + (size & 0x7F) + (upper << 7)
                continue
        _, _, position = _next_field(raw, position)
    return count


def _next_field(raw: bytes, position: int) -> tuple[int, int, int]:
    """Return (field number, where its value begins, where the next field begins).

    What is no field at all leads behind the end: parsing tells what is wrong with it.
    """
    tag = raw[position]
    if tag < 0x80:
        position += 1
    else:
        tag, position = _varint(raw, position)
    wire_type = tag & 7
    if wire_type == _BYTES:
        size, position = _varint(raw, position)
        return tag >> 3, position, position + size
    if wire_type == _VARINT:
        return tag >> 3, position, _varint(raw, position)[1]
    if wire_type == _FIXED64:
        return tag >> 3, position, position + 8
    if wire_type == _FIXED32:
        return tag >> 3, position, position + 4
    return tag >> 3, position, position  # A group: its fields are walked as if they were ours.


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    """Return a number and where it ends; behind the end of the bytes when it is none."""
    value = shift = 0
    for byte in raw[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return value, len(raw)
