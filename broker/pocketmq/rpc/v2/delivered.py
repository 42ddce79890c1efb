"""Converts stored records to the protocol's Message.

System properties become fields or are omitted; user properties are copied. The body is sent in a
codec that clients can decompress, with its MD5. The topic of a message from a retry topic is its
original topic.
Source: GrpcConverter.buildMessage, buildSystemProperties.
"""

from hashlib import md5
from typing import Final

from pocketmq.format.addresses import text_from_host
from pocketmq.format.body_codec import BodyBudget, is_gzip
from pocketmq.format.record import decode_record, is_shown
from pocketmq.model.message import (
    BODY_CODEC,
    BORN_HOST,
    DELAY,
    DELIVER_AT,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    INT32_MAX,
    IS_TRANSACTIONAL,
    ORIGIN_MESSAGE_ID,
    PRIORITY,
    RETRY_TOPIC,
    SHARDING_KEY,
    TRACE_CONTEXT,
    StoredMessage,
)
from pocketmq.model.topic import DLQ_PREFIX
from pocketmq.rpc.codec.v2_messages import OWN_NAMES, TIMER_PREFIX
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.durations import timestamp_of

TIME_MAX_MS: Final = 10**15 - 1
"""Largest delivery time that is read from a property."""
PRIORITY_MAX: Final = 10**9 - 1
"""Largest priority that is read from a property."""
ALONE_SIZE_MAX: Final = 4 * 1024 * 1024
"""Upper limit of decompressed bytes of a message in a command to a client."""


def message_of(
    record: bytes, topic: pb.Resource, *, attempt: int = 1, handle: str = ""
) -> pb.Message:
    """Returns a record as a message; a body of up to `ALONE_SIZE_MAX` is decompressed.

    topic    the client's name of the topic
    handle   receipt handle; "": the message has no lease
    Cost     about 20 µs, plus the MD5 of the body and its decompression
    """
    budget = BodyBudget(ALONE_SIZE_MAX, body_max=ALONE_SIZE_MAX)
    found = message_within(budget, record, topic, attempt=attempt, handle=handle)
    assert found is not None, "the budget does not suffice for one message"
    return found


def message_within(
    budget: BodyBudget, record: bytes, topic: pb.Resource, *, attempt: int = 1, handle: str = ""
) -> pb.Message | None:
    """Returns a record as a message, None if the call's budget of decompressed bytes is used up.

    A gzip body is sent as stored. Bodies in other codecs, which 5.x clients do not know, are
    decompressed here. A body too large for that is sent as stored, with the encoding IDENTITY and
    the codec's name in the property PMQ_BODY_CODEC.
    """
    stored = decode_record(record, decompress=False)
    encoding = pb.IDENTITY
    if is_gzip(stored.body, stored.system_flag):
        encoding = pb.GZIP
    elif not is_shown(stored, budget):
        return None
    system = _system_properties(stored, encoding)
    system.delivery_attempt = min(attempt, INT32_MAX)
    if handle:
        system.receipt_handle = handle
    return pb.Message(
        topic=topic,
        user_properties=_users(stored),
        system_properties=system,
        body=stored.body,
    )


def _users(stored: StoredMessage) -> dict[str, str]:
    found = {
        name: value
        for name, value in stored.properties.items()
        if name not in OWN_NAMES and not name.startswith(TIMER_PREFIX)
    }
    return found | {BODY_CODEC: stored.body_codec} if stored.body_codec else found


def _system_properties(stored: StoredMessage, encoding: pb.Encoding) -> pb.SystemProperties:
    properties = stored.properties
    system = pb.SystemProperties(
        tag=stored.tag,
        keys=stored.keys,
        message_id=stored.unique_key,
        body_digest=pb.Digest(type=pb.MD5, checksum=_md5(stored.body)),
        body_encoding=encoding,
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
    deliver_at = stored.number(DELIVER_AT, TIME_MAX_MS)
    priority = stored.number(PRIORITY, PRIORITY_MAX)
    if deliver_at >= 0:
        system.delivery_timestamp.CopyFrom(timestamp_of(deliver_at))
    if priority >= 0:
        system.priority = priority
    if stored.topic.startswith(DLQ_PREFIX):
        system.dead_letter_queue.topic = (
            properties.get(DLQ_ORIGIN_TOPIC) or properties.get(RETRY_TOPIC) or ""
        )
        system.dead_letter_queue.message_id = (
            properties.get(DLQ_ORIGIN_MESSAGE_ID) or properties.get(ORIGIN_MESSAGE_ID) or ""
        )
    return system


def _type_of(properties: dict[str, str]) -> pb.MessageType:
    if properties.get(IS_TRANSACTIONAL) == "true":
        return pb.TRANSACTION
    if DELIVER_AT in properties or DELAY in properties:
        return pb.DELAY
    if SHARDING_KEY in properties:
        return pb.FIFO
    return pb.PRIORITY if PRIORITY in properties else pb.NORMAL


def _md5(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest().upper()
