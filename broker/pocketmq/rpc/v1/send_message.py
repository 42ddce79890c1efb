"""SendMessage: parses a request into columns of messages, and passes them to the service.

A plain request is parsed without an object for each message:

    0A size │ message: 0A size topic │ 12 size body │ 1A size tag │ 22 size key … │ 2A size id
    10 wait

Nearly all requests are plain: messages with only these fields, in this order, all but the body
shorter than 128 bytes. Protobuf parses all others.
An empty message, key or property has two bytes in a request, and takes 60 bytes and 50 ns when
parsed: a request of 16 MiB could block the event loop for half a second. So the fields of large
requests are counted first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pocketmq.format.addresses import host_from_text
from pocketmq.format.properties import PROPERTIES_SIZE_MAX
from pocketmq.format.send_request import FIELDS_MAX, MESSAGES_MAX
from pocketmq.model.errors import (
    IllegalProperty,
    PropertiesTooLarge,
    TooManyMessages,
    TooManyProperties,
)
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import (
    PROPERTY_COUNT_MAX,
    check_group,
    check_message_group,
    check_number,
    check_tag,
)
from pocketmq.native import is_compiled
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.send_reply import with_status
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import Late
from pocketmq.rpc.service import SMALL_REQUEST_MAX, MalformedRequest, Shortcut
from pocketmq.rpc.v1.send_reply import encode_sent
from pocketmq.rpc.v1.send_shortcut import SendShortcutV1
from pocketmq.services.produce.drafts import ABSENT_QUEUE, AT_ONCE, PEER, DeliveryRequest, Drafts
from pocketmq.services.produce.send import Send

KEY_COUNT_MAX: Final = PROPERTIES_SIZE_MAX // 2
"""Most keys that fit a property block, with a separator each."""
UNWALKED_MAX: Final = 512
"""Bytes at the end of a message whose fields are not counted: they cannot contain too many, even in
1,024 messages, and usually are all the fields after the body."""
PLAIN_MESSAGES_MAX: Final = 1
"""Most messages of a request for the shortcut in an uncompiled process: for several messages the
usual path is faster, as it works by column."""
FIRST_CHECK_MAX_MS: Final = 3_600_000
NO_PROPERTIES: Final[Mapping[str, str]] = {}
_MESSAGE: Final = 0x0A
_WAIT: Final = 0x10
_TOPIC: Final = 0x0A
_BODY: Final = 0x12
_TAG: Final = 0x1A
_KEY: Final = 0x22
_ID: Final = 0x2A
_MESSAGES: Final = pb.SendMessageRequest.MESSAGES_FIELD_NUMBER
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ONE_BYTE_TAG: Final = 0x87
"""Mask of a tag's wire type and continuation bit."""


PlainColumns = tuple[list[str], list[bytes], list[str], list[Sequence[str]], list[str]]
"""Topics, bodies, tags, keys and message ids of plain messages; "" and [] if absent."""


class SendMessage:
    """The method SendMessage.

    messages_max   most messages of a request for the shortcut; None: as many as are faster there
    """

    __slots__ = ("_send", "shortcut")

    def __init__(self, send: Send, messages_max: int | None = None) -> None:
        if messages_max is None:
            messages_max = MESSAGES_MAX if is_compiled() else PLAIN_MESSAGES_MAX
        self._send = send
        self.shortcut: Shortcut = SendShortcutV1(
            send.plain,
            messages_max,
            is_durable=send.is_durable,
            late=Late(send.flush_group, _too_late),
        ).serve

    async def __call__(self, drafts: Drafts, call: Call) -> bytes:
        """Stores all messages of the request, or none; returns an encoded SendMessageResponse.

        Errors   those of `Send.send`
        """
        return encode_sent(await self._send.send(drafts, call.peer_host))


def _too_late(reply: bytes) -> bytes:
    """Returns a reply with the status FLUSH_DISK_TIMEOUT."""
    return with_status(reply, pb.FLUSH_DISK_TIMEOUT)


def parse_send_request(raw: bytes) -> Drafts:
    """Parses an encoded request; the service checks names, bodies and sizes.

    Errors     TooManyMessages, MalformedRequest, those of `drafts_of`; DecodeError
    Cost       a message: about 1 µs in a plain request, about 3 µs in any other
    """
    plain = walk_plain(raw)
    if plain is not None:
        return plain
    if len(raw) > SMALL_REQUEST_MAX:
        _check_counts(raw)
    return drafts_of(pb.SendMessageRequest.FromString(raw))


# -- plain requests --------------------------------------------------------------------------------


def walk_plain(raw: bytes) -> Drafts | None:
    """Parses a plain request; returns None for any other.

    Cost     about 1 µs a message with one key
    """
    columns: PlainColumns = ([], [], [], [], [])
    position, end, wait, field_count = 0, len(raw), 0, 0
    try:
        while position < end:
            if raw[position] == _WAIT:
                wait, position, field_count = raw[position + 1], position + 2, field_count + 1
            elif raw[position] == _MESSAGE and len(columns[0]) < MESSAGES_MAX:
                size, begin = raw[position + 1], position + 2
                if size > 0x7F:
                    size, begin = _long_size(raw, position + 1)
                position = begin + size
                field_count += _walk_message(raw, begin, position, columns)
            else:
                return None
            if field_count > FIELDS_MAX or wait > 0x7F:
                return None
    except (IndexError, ValueError):
        return None
    check_number("wait", wait, upper=pb.APPENDED)
    count = len(columns[0])
    nothing, zeros = [""] * count, [0] * count
    return Drafts(
        wait != pb.APPENDED, *columns, [ABSENT_QUEUE] * count, nothing, zeros, [PEER] * count,
        zeros, [NO_PROPERTIES] * count, [AT_ONCE] * count,
    )  # fmt: skip


def _walk_message(raw: bytes, position: int, end: int, columns: PlainColumns) -> int:
    """Appends one message to the columns; returns an upper bound of its number of fields.

    Errors   ValueError, IndexError: the message is not plain
    """
    topic = tag = message_id = ""
    body = b""
    keys: list[str] = []
    sizes = 0  # All lengths of short fields, combined by OR.
    if position < end and raw[position] == _TOPIC:
        begin, sizes = position + 2, raw[position + 1]
        position = begin + sizes
        topic = raw[begin:position].decode()
    if position < end and raw[position] == _BODY:
        size, begin = raw[position + 1], position + 2
        if size > 0x7F:
            size, begin = _long_size(raw, position + 1)
        position = begin + size
        body = raw[begin:position]
    if position < end and raw[position] == _TAG:
        begin, size = position + 2, raw[position + 1]
        position, sizes = begin + size, sizes | size
        tag = raw[begin:position].decode()
        if not size:
            raise ValueError
    while position < end and raw[position] == _KEY and len(keys) <= KEY_COUNT_MAX:
        begin, size = position + 2, raw[position + 1]
        position, sizes = begin + size, sizes | size
        keys.append(raw[begin:position].decode())
    if position < end and raw[position] == _ID:
        begin, size = position + 2, raw[position + 1]
        position, sizes = begin + size, sizes | size
        message_id = raw[begin:position].decode()
    if position != end or end > len(raw) or sizes > 0x7F or len(keys) > KEY_COUNT_MAX:
        raise ValueError
    topics, bodies, tags, all_keys, message_ids = columns
    topics.append(topic)
    bodies.append(body)
    tags.append(tag)
    all_keys.append(keys)
    message_ids.append(message_id)
    return len(keys) + 4


def _long_size(raw: bytes, position: int) -> tuple[int, int]:
    """Returns the value of a length of two to four bytes, and its end.

    Errors   ValueError: the length has more bytes
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


# -- all other requests ----------------------------------------------------------------------------


def drafts_of(request: pb.SendMessageRequest) -> Drafts:
    """Returns the messages of a request as columns for `services/produce/send.py`.

    Errors     TooManyMessages, IllegalNumber, IllegalTag, IllegalMessageGroup, IllegalProperty,
                PropertiesTooLarge, TooManyProperties
    """
    check_number("wait", request.wait, upper=pb.APPENDED)
    if len(request.messages) > MESSAGES_MAX:  # before they are touched one by one
        raise TooManyMessages(count=len(request.messages), limit=MESSAGES_MAX)
    drafts = Drafts(request.wait != pb.APPENDED, [], [], [], [], [], [], [], [], [], [], [], [])
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
        drafts.born_hosts.append(_packed_host(message.born_host) if has("born_host") else PEER)
        drafts.flags.append(message.flag)
        drafts.properties.append(dict(message.properties))
        drafts.deliveries.append(_delivery(message))
    return drafts


def _delivery(message: pb.Message) -> DeliveryRequest:
    """Returns a message's delay, priority and transaction settings."""
    has_priority = message.HasField("priority")
    is_later = message.delay_level or message.deliver_at_ms or message.delay_ms
    is_half = message.transactional or message.producer_group or message.first_check_ms
    if not (is_later or is_half or has_priority):
        return AT_ONCE
    if has_priority:
        check_number("priority", message.priority, upper=INT32_MAX)
    check_number("delay_level", message.delay_level, upper=INT32_MAX)
    check_number("deliver_at_ms", message.deliver_at_ms)
    check_number("delay_ms", message.delay_ms)
    check_number("first_check_ms", message.first_check_ms, upper=FIRST_CHECK_MAX_MS)
    if message.producer_group:
        check_group(message.producer_group)
    return DeliveryRequest(
        message.delay_level,
        message.deliver_at_ms,
        message.delay_ms,
        message.transactional,
        message.priority if has_priority else None,
        message.producer_group,
        message.first_check_ms,
    )


def _check_rare(message: pb.Message) -> None:
    """Checks the counts of keys and properties, empty names, and the range of numbers."""
    if len(message.keys) > KEY_COUNT_MAX:
        size = 2 * len(message.keys)
        raise PropertiesTooLarge(size_bytes=size, limit_bytes=PROPERTIES_SIZE_MAX)
    if len(message.properties) > PROPERTY_COUNT_MAX:
        raise TooManyProperties(count=len(message.properties), limit=PROPERTY_COUNT_MAX)
    if not message.tag and message.HasField("tag"):
        check_tag(message.tag)
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
    """Returns the number of fields in a range; stops counting at FIELDS_MAX + 1."""
    count = 0
    while position < end and count <= FIELDS_MAX:
        count += 1
        _, _, position = _next_field(raw, position)
    return count


def _next_field(raw: bytes, position: int) -> tuple[int, int, int]:
    """Returns (field number, start of its value, start of the next field).

    For invalid bytes the next field starts beyond the end: parsing then raises the error.
    """
    tag = raw[position]
    if tag & _ONE_BYTE_TAG == _BYTES and position + 2 < len(raw):
        size, upper = raw[position + 1], raw[position + 2]
        if size < 0x80:  # Nearly all lengths have one byte or two.
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
    return tag >> 3, position, position  # A group: its fields are counted as well.


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    """Returns a varint's value and its end; the end of `raw` if the varint is invalid."""
    value = shift = 0
    for byte in raw[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return value, len(raw)
