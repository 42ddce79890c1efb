"""Protobuf messages into what services take, and stored messages into protobuf.

Names and meaning of fields are those of the proto; an optional field that is unset stays absent.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from broker.format.hosts import host_from_text, text_from_host
from broker.format.message_id import offset_message_id
from broker.format.properties import PROPERTIES_SIZE_MAX
from broker.model.errors import (
    IllegalProperty,
    PropertiesTooLarge,
    TooManyProperties,
    UnsupportedFeature,
)
from broker.model.message import DELAY, DELIVER_AT, SHARDING_KEY, StoredMessage
from broker.model.offsets import INT32_MAX, OFFSET_MAX
from broker.model.topic_names import (
    PROPERTY_COUNT_MAX,
    check_message_group,
    check_number,
    check_tag,
)
from broker.rpc.pb import broker_pb2 as pb
from broker.services.send import Draft

ABSENT_QUEUE: Final = -1
KEY_COUNT_MAX: Final = PROPERTIES_SIZE_MAX // 2
"""Keys with a separator each that a property block can hold at most."""
NO_PROPERTIES: Final[dict[str, str]] = {}
_RARE: Final = {
    "queue_id": 0,
    "message_group": "",
    "delay_level": 0,
    "deliver_at_ms": 0,
    "transactional": False,
    "born_timestamp_ms": 0,
    "born_host": "",
    "flag": 0,
    "priority": 0,
}
"""Fields most messages leave at these values."""
_RARE_DEFAULTS: Final = tuple(_RARE.values())
_RARE_FIELDS: Final = attrgetter(*_RARE)
_FIELDS: Final = attrgetter("topic", "body", "tag", "message_id")
REPLY_BODY_SIZE_MAX: Final = 15 * 1024 * 1024
"""A reply of 16 MiB holds a body of this size and everything else of its message."""


def draft_from_message(message: pb.Message, peer_host: bytes) -> Draft:
    """Hot: return a message as `services/send.py` takes it; the peer is its host if it names none.

    Not here   what names, bodies and sizes may be: the service checks that
    Errors     UnsupportedFeature, IllegalNumber, IllegalTag, IllegalMessageGroup, IllegalProperty,
               PropertiesTooLarge, TooManyProperties
    Cost       about 2 µs for a message with nothing but id, body, tag and keys
    """
    topic, body, tag, message_id = _FIELDS(message)
    keys, properties = message.keys[:], message.properties
    if len(keys) > KEY_COUNT_MAX:
        raise PropertiesTooLarge(size_bytes=2 * len(keys), limit_bytes=PROPERTIES_SIZE_MAX)
    own = _own_properties(properties) if len(properties) else NO_PROPERTIES
    if not tag and message.HasField("tag"):
        check_tag(tag)
    if _RARE_FIELDS(message) == _RARE_DEFAULTS and not _has_doubtful(message):
        return (topic, body, tag, keys, message_id, ABSENT_QUEUE, "", 0, peer_host, 0, own)
    _refuse_unserved(message)
    group, flag = message.message_group, message.flag
    if not group and message.HasField("message_group"):
        check_message_group(group)
    queue_id = ABSENT_QUEUE
    if message.HasField("queue_id"):
        queue_id = message.queue_id
        check_number("queue_id", queue_id, upper=INT32_MAX)
    born_ms = message.born_timestamp_ms
    check_number("born_timestamp_ms", born_ms)
    host = _packed_host(message.born_host) if message.HasField("born_host") else peer_host
    return (topic, body, tag, keys, message_id, queue_id, group, born_ms, host, flag, own)


def _has_doubtful(message: pb.Message) -> bool:
    """Return whether a field is present that means something also at its default."""
    has = message.HasField
    return has("queue_id") or has("message_group") or has("born_host") or has("priority")


def _own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    if len(properties) > PROPERTY_COUNT_MAX:
        raise TooManyProperties(count=len(properties), limit=PROPERTY_COUNT_MAX)
    return dict(properties)


def proto_message(message: StoredMessage) -> pb.StoredMessage:
    """Return a stored message as it is sent to clients.

    Errors   UnsupportedFeature for a body that unfolds to more than a reply can hold
    """
    body, properties = message.body, message.properties
    if len(body) > REPLY_BODY_SIZE_MAX:
        feature = f"a body that unfolds to {len(body)} bytes here; pull it with shape RECORDS"
        raise UnsupportedFeature(feature=feature)
    return pb.StoredMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_size=message.store_size,
        message_id=message.unique_key,
        offset_message_id=offset_message_id(message.store_host, message.physical_offset),
        tag=message.tag,
        keys=message.keys,
        message_group=properties.get(SHARDING_KEY),
        properties=properties,
        body=body,
        body_crc=message.body_crc,
        system_flag=message.system_flag,
        flag=message.flag,
        reconsume_times=message.reconsume_times,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=text_from_host(message.born_host),
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=text_from_host(message.store_host),
        prepared_transaction_offset=message.prepared_transaction_offset,
        delay_level=_number(properties.get(DELAY), INT32_MAX),
        deliver_at_ms=_number(properties.get(DELIVER_AT), OFFSET_MAX),
    )


def _refuse_unserved(message: pb.Message) -> None:
    if message.delay_level or message.deliver_at_ms:
        raise UnsupportedFeature(feature="delayed messages")
    if message.transactional:
        raise UnsupportedFeature(feature="transactional messages")
    if message.HasField("priority"):
        raise UnsupportedFeature(feature="message priorities")


def _packed_host(text: str) -> bytes:
    try:
        return host_from_text(text)
    except ValueError as error:
        why = "a born host is an address and a port, 10.0.0.1:80 or [::1]:80"
        raise IllegalProperty(name="born_host", why=why) from error


def _number(text: str | None, largest: int) -> int | None:
    """Return a property's number, None for none and for what is no number the field can hold."""
    if text is None or len(text) > 20:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -largest - 1 <= value <= largest else None
