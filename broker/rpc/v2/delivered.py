"""Stored records as clients get them: a Message with everything they look at.

Properties of the broker's own become fields, or stay here; the user's own go along. The body goes
as it is stored, with the encoding it was sent in and its MD5. What comes back by a retry topic has
the topic it was sent to.
Source: GrpcConverter.buildMessage, buildSystemProperties.
"""

from hashlib import md5
from typing import Final

from broker.format.addresses import text_from_host
from broker.format.official_messages import OWN_NAMES, TIMER_PREFIX
from broker.format.record import decode_record
from broker.model.message import (
    BORN_HOST,
    DELAY,
    DELIVER_AT,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    FLAG_COMPRESSED,
    IS_TRANSACTIONAL,
    ORIGIN_MESSAGE_ID,
    PRIORITY,
    RETRY_TOPIC,
    SHARDING_KEY,
    TRACE_CONTEXT,
    StoredMessage,
)
from broker.model.topic import DLQ_PREFIX
from broker.rpc.pb import messaging_pb2 as pb
from broker.rpc.v2.durations import timestamp_of

TIME_LENGTH_MAX: Final = 15
PRIORITY_LENGTH_MAX: Final = 9
"""Digits that a Timestamp, and an int32, surely hold."""


def message_of(
    record: bytes, topic: pb.Resource, *, attempt: int = 1, handle: str = ""
) -> pb.Message:
    """Return a record as a client gets it.

    topic    as the client calls it, what it asked for
    handle   of its lease, "" for none
    Cost     about 20 µs and the MD5 of its body
    """
    stored = decode_record(record, unfold=False)
    system = _system_properties(stored)
    system.delivery_attempt = attempt
    if handle:
        system.receipt_handle = handle
    return pb.Message(
        topic=topic,
        user_properties={
            name: value for name, value in stored.properties.items() if _is_users(name)
        },
        system_properties=system,
        body=stored.body,
    )


def _is_users(name: str) -> bool:
    return name not in OWN_NAMES and not name.startswith(TIMER_PREFIX)


def _system_properties(stored: StoredMessage) -> pb.SystemProperties:
    properties = stored.properties
    system = pb.SystemProperties(
        tag=stored.tag,
        keys=stored.keys,
        message_id=stored.unique_key,
        body_digest=pb.Digest(type=pb.MD5, checksum=_md5(stored.body)),
        body_encoding=pb.GZIP if stored.system_flag & FLAG_COMPRESSED else pb.IDENTITY,
        message_type=_type_of(properties),
        born_timestamp=timestamp_of(stored.born_timestamp_ms),
        born_host=properties.get(BORN_HOST) or text_from_host(stored.born_host),
        store_timestamp=timestamp_of(stored.store_timestamp_ms),
        store_host=text_from_host(stored.store_host),
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        message_group=properties.get(SHARDING_KEY),
        trace_context=properties.get(TRACE_CONTEXT),
    )
    deliver_at, priority = properties.get(DELIVER_AT, ""), properties.get(PRIORITY, "")
    if _is_number(deliver_at, TIME_LENGTH_MAX):
        system.delivery_timestamp.CopyFrom(timestamp_of(int(deliver_at)))
    if _is_number(priority, PRIORITY_LENGTH_MAX):
        system.priority = int(priority)
    if stored.topic.startswith(DLQ_PREFIX):
        system.dead_letter_queue.topic = (
            properties.get(DLQ_ORIGIN_TOPIC) or properties.get(RETRY_TOPIC) or ""
        )
        system.dead_letter_queue.message_id = (
            properties.get(DLQ_ORIGIN_MESSAGE_ID) or properties.get(ORIGIN_MESSAGE_ID) or ""
        )
    return system


def _type_of(properties: dict[str, str]) -> pb.MessageType:
    """Return which kind of message it was sent as."""
    if properties.get(IS_TRANSACTIONAL) == "true":
        return pb.TRANSACTION
    if DELIVER_AT in properties or DELAY in properties:
        return pb.DELAY
    if SHARDING_KEY in properties:
        return pb.FIFO
    return pb.PRIORITY if PRIORITY in properties else pb.NORMAL


def _is_number(text: str, length_max: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= length_max


def _md5(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest().upper()
