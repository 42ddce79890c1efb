"""Reads SendMessageRequest into columns; one of very many tiny parts is refused unparsed.

A plain one is read off its bytes (send_walk.py), any other is parsed by the generated classes. Two
bytes make an empty message, key or property on the wire, and parsing turns each of them into 60
bytes and 50 ns: 16 MiB of them would hold the event loop for half a second. Small requests are
parsed straight away, larger ones are walked along first, field by field, as far as the limits go.
"""

from collections.abc import Mapping
from typing import Final

from broker.format.addresses import host_from_text
from broker.format.content import PROPERTIES_SIZE_MAX
from broker.model.errors import (
    IllegalProperty,
    PropertiesTooLarge,
    TooManyMessages,
    TooManyProperties,
    UnsupportedFeature,
)
from broker.model.message import INT32_MAX
from broker.model.names import (
    PROPERTY_COUNT_MAX,
    check_message_group,
    check_number,
    check_tag,
)
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import SMALL_REQUEST_MAX, MalformedRequest
from broker.rpc.v1.send_walk import FIELDS_MAX, KEY_COUNT_MAX, PlainRequest, walk_plain
from broker.services.send import ABSENT_QUEUE, MESSAGES_MAX, Drafts

UNWALKED_MAX: Final = 512
"""Bytes at the end of a message that are not looked into: of 1,024 they cannot hold what would
hurt, and of nearly all messages they are what follows the body."""
NO_PROPERTIES: Final[Mapping[str, str]] = {}
_MESSAGES: Final = pb.SendMessageRequest.MESSAGES_FIELD_NUMBER
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ONE_BYTE_TAG: Final = 0x87
"""The wire type of a tag, and the bit that says that more of the tag follows."""


SendRequest = PlainRequest | pb.SendMessageRequest


def parse_send_request(raw: bytes) -> SendRequest:
    """Return the request that bytes stand for: by column when it is plain.

    Errors   TooManyMessages, MalformedRequest; DecodeError
    Cost     about 1.5 µs a message of a plain one
    """
    plain = walk_plain(raw)
    if plain is not None:
        return plain
    if len(raw) > SMALL_REQUEST_MAX:
        _check_counts(raw)
    return pb.SendMessageRequest.FromString(raw)


def drafts_of(request: SendRequest, peer_host: bytes) -> Drafts:
    """Return the messages as `services/send.py` takes them; the peer is a host where none is.

    Not here   what names, bodies and sizes may be: the service checks that
    Errors     TooManyMessages, UnsupportedFeature, IllegalNumber, IllegalTag, IllegalMessageGroup,
               IllegalProperty, PropertiesTooLarge, TooManyProperties
    Cost       about 3 µs a message, hardly anything when the request is plain
    """
    if isinstance(request, PlainRequest):
        topics, bodies, tags, keys, message_ids, _ = request
        count = len(topics)
        none, zeros = [""] * count, [0] * count
        return Drafts(
            topics, bodies, tags, keys, message_ids, [ABSENT_QUEUE] * count, none, zeros,
            [peer_host] * count, zeros, [NO_PROPERTIES] * count,
        )  # fmt: skip
    if len(request.messages) > MESSAGES_MAX:  # before they are touched one by one
        raise TooManyMessages(count=len(request.messages), limit=MESSAGES_MAX)
    drafts = Drafts([], [], [], [], [], [], [], [], [], [], [])
    for message in request.messages:
        _check_rare(message)
        has = message.HasField
        drafts.topics.append(message.topic)
        drafts.bodies.append(message.body)
        drafts.tags.append(message.tag)
        drafts.keys.append(message.keys[:])
        drafts.message_ids.append(message.message_id)
        drafts.queue_ids.append(message.queue_id if has("queue_id") else ABSENT_QUEUE)
        drafts.groups.append(message.message_group)
        drafts.born_ms.append(message.born_timestamp_ms)
        drafts.born_hosts.append(_packed_host(message.born_host) if has("born_host") else peer_host)
        drafts.flags.append(message.flag)
        drafts.properties.append(dict(message.properties))
    return drafts


def _check_rare(message: pb.Message) -> None:
    """Raise what cannot be served, and numbers that cannot be stored."""
    if len(message.keys) > KEY_COUNT_MAX:
        size = 2 * len(message.keys)
        raise PropertiesTooLarge(size_bytes=size, limit_bytes=PROPERTIES_SIZE_MAX)
    if len(message.properties) > PROPERTY_COUNT_MAX:
        raise TooManyProperties(count=len(message.properties), limit=PROPERTY_COUNT_MAX)
    if not message.tag and message.HasField("tag"):
        check_tag(message.tag)
    if message.delay_level or message.deliver_at_ms:
        raise UnsupportedFeature(feature="delayed messages")
    if message.transactional:
        raise UnsupportedFeature(feature="transactional messages")
    if message.HasField("priority"):
        raise UnsupportedFeature(feature="message priorities")
    if not message.message_group and message.HasField("message_group"):
        check_message_group(message.message_group)
    check_number("queue_id", message.queue_id, upper=INT32_MAX)
    check_number("born_timestamp_ms", message.born_timestamp_ms)


def _packed_host(text: str) -> bytes:
    try:
        return host_from_text(text)
    except ValueError as error:
        why = "a born host is an address and a port, 10.0.0.1:80 or [::1]:80"
        raise IllegalProperty(name="born_host", why=why) from error


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
                field_count += _fields_between(raw, begin, min(position, end) - UNWALKED_MAX)
        if message_count > MESSAGES_MAX:
            raise TooManyMessages(count=message_count, limit=MESSAGES_MAX)
        if field_count > FIELDS_MAX:
            raise MalformedRequest(why=f"its messages have more than {FIELDS_MAX} fields")


def _fields_between(raw: bytes, position: int, end: int) -> int:
    """Return how many fields start there, one more than the limit for more than that."""
    count = 0
    while position < end and count <= FIELDS_MAX:
        count += 1
        _, _, position = _next_field(raw, position)
    return count


def _next_field(raw: bytes, position: int) -> tuple[int, int, int]:
    """Return (field number, where its value begins, where the next field begins).

    What is no field at all leads behind the end: parsing tells what is wrong with it.
    """
    tag = raw[position]
    if tag & _ONE_BYTE_TAG == _BYTES and position + 2 < len(raw):
        size, upper = raw[position + 1], raw[position + 2]
        if size < 0x80:  # As nearly always: a length of one byte, or of two.
            return tag >> 3, position + 2, position + 2 + size
        if upper < 0x80:
            return tag >> 3, position + 3, position + 3 + (size & 0x7F) + (upper << 7)
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
