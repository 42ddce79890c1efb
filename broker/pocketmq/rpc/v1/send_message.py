"""SendMessage: parses a request into columns of messages, and passes them to the service.

Each empty message, key or property has two bytes in a request, but costs 60 bytes and 50 ns when
parsed. A request of 16 MiB could thus block the event loop for half a second. Therefore the fields
of large requests are counted before parsing.
"""

from functools import partial
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
from pocketmq.rpc.codec.protobuf_scan import next_field
from pocketmq.rpc.codec.send_reply import with_status
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import Late
from pocketmq.rpc.service import SMALL_REQUEST_MAX, MalformedRequest, Shortcut
from pocketmq.rpc.v1.send_reply import SEND_STATUSES, encode_sent
from pocketmq.rpc.v1.send_shortcut import SendShortcutV1
from pocketmq.services.produce.drafts import ABSENT_QUEUE, AT_ONCE, PEER, DeliveryRequest, Drafts
from pocketmq.services.produce.send import Send

KEY_COUNT_MAX: Final = PROPERTIES_SIZE_MAX // 2
"""Upper limit of keys: more keys, each with a separator, do not fit a property block."""
UNWALKED_MAX: Final = 512
"""Bytes at the end of each message whose fields are not counted: usually all after the body. They
contain at most 256 fields, which FIELDS_MAX does not limit."""
PLAIN_MESSAGES_MAX: Final = 1
"""Upper limit of messages of a request that the shortcut serves in an uncompiled process. For
several messages the usual path is faster, as it works by column."""
FIRST_CHECK_MAX_MS: Final = 3_600_000
_MESSAGES: Final = pb.SendMessageRequest.MESSAGES_FIELD_NUMBER


class SendMessage:
    """The method SendMessage.

    messages_max   upper limit of messages for the shortcut; None: MESSAGES_MAX if compiled,
                   else PLAIN_MESSAGES_MAX
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
            late=Late(send.flush_group, partial(_too_late, send)),
        ).serve

    async def __call__(self, drafts: Drafts, call: Call) -> bytes:
        """Stores all messages of the request, or none; returns an encoded SendMessageResponse.

        Errors   those of `Send.send`
        """
        return encode_sent(await self._send.send(drafts, call.peer_host))


def _too_late(send: Send, reply: bytes) -> bytes:
    return with_status(reply, SEND_STATUSES[send.late_status])


def parse_send_request(raw: bytes) -> Drafts:
    """Parses an encoded request; the service checks names, bodies and sizes.

    Errors     TooManyMessages, MalformedRequest, those of `drafts_of`; DecodeError
    Cost       about 3 µs a message
    """
    if len(raw) > SMALL_REQUEST_MAX:
        _check_counts(raw)
    return drafts_of(pb.SendMessageRequest.FromString(raw))


def drafts_of(request: pb.SendMessageRequest) -> Drafts:
    """Returns the messages of a request as columns for `services/produce/send.py`.

    Errors     TooManyMessages, IllegalNumber, IllegalGroup, IllegalTag, IllegalMessageGroup,
               IllegalProperty, PropertiesTooLarge, TooManyProperties
    """
    check_number("wait", request.wait, upper=pb.APPENDED)
    if len(request.messages) > MESSAGES_MAX:  # Checked before a Python object is made of each.
        raise TooManyMessages(count=len(request.messages), limit=MESSAGES_MAX)
    messages = list(request.messages)  # Makes one Python object of each message.
    for message in messages:
        _check_rare(message)
    return Drafts(
        request.wait != pb.APPENDED,
        [one.topic for one in messages],
        [one.body for one in messages],
        [one.tag for one in messages],
        [one.keys[:] for one in messages],
        [one.message_id for one in messages],
        [one.queue_id if one.HasField("queue_id") else ABSENT_QUEUE for one in messages],
        [one.message_group for one in messages],
        [one.born_timestamp_ms for one in messages],
        [_packed_host(one.born_host) if one.HasField("born_host") else PEER for one in messages],
        [one.flag for one in messages],
        [dict(one.properties) for one in messages],
        [_delivery(one) for one in messages],
    )


def _delivery(message: pb.Message) -> DeliveryRequest:
    has_priority = message.HasField("priority")
    if not (
        has_priority
        or message.delay_level
        or message.deliver_at_ms
        or message.delay_ms
        or message.transactional
        or message.producer_group
        or message.first_check_ms
    ):
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
    """Checks counts of keys and properties, an empty tag or message group, and negative numbers."""
    if len(message.keys) > KEY_COUNT_MAX:
        size = 2 * len(message.keys)
        raise PropertiesTooLarge(size_bytes=size, limit_bytes=PROPERTIES_SIZE_MAX)
    if len(message.properties) > PROPERTY_COUNT_MAX:
        raise TooManyProperties(count=len(message.properties), limit=PROPERTY_COUNT_MAX)
    if not message.tag and message.HasField("tag"):
        check_tag(message.tag)
    if not message.message_group and message.HasField("message_group"):
        check_message_group(message.message_group)
    if message.queue_id < 0 or message.born_timestamp_ms < 0:
        check_number("queue_id", message.queue_id)
        check_number("born_timestamp_ms", message.born_timestamp_ms)


def _packed_host(text: str) -> bytes:
    try:
        return host_from_text(text)
    except ValueError as error:
        why = "a born host is an address and a port, 10.0.0.1:80 or [::1]:80"
        raise IllegalProperty(name="born_host", why=why) from error


def _check_counts(raw: bytes) -> None:
    message_count = field_count = position = number = 0
    end = len(raw)
    while position < end and number >= 0:  # Parsing raises the error for invalid fields later.
        number, _, begin, position = next_field(raw, position, end)
        if number != _MESSAGES:
            field_count += 1
        else:
            message_count += 1
            field_count += _fields_between(raw, begin, position - UNWALKED_MAX)
        if message_count > MESSAGES_MAX:
            raise TooManyMessages(count=message_count, limit=MESSAGES_MAX)
        if field_count > FIELDS_MAX:
            raise MalformedRequest(why=f"its messages have more than {FIELDS_MAX} fields")


def _fields_between(raw: bytes, position: int, end: int) -> int:
    """Returns the number of fields in a range; stops counting at FIELDS_MAX + 1."""
    count = number = 0
    while position < end and number >= 0 and count <= FIELDS_MAX:
        count += 1
        number, _, _, position = next_field(raw, position, len(raw))
    return count
