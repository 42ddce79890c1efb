"""SendMessage and RecallMessage: converts messages to columns, with the checks of RocketMQ's proxy.

The service checks messages and topics. This module has only the checks of this protocol:
client-generated ids, digests, encodings, and the total size of user properties.
Source: SendMessageActivity, GrpcValidator.
"""

import zlib
from functools import partial
from hashlib import md5, sha1
from typing import Final

from pocketmq.format.send_request import MESSAGES_MAX
from pocketmq.format.transaction_id import HalfPlace, transaction_id
from pocketmq.model.batch import PutStatus
from pocketmq.model.errors import (
    BodyCorrupted,
    IllegalProperty,
    KindConflict,
    MixedQueues,
    NoMessages,
    PropertiesTooLarge,
    TooManyMessages,
    UnsupportedFeature,
)
from pocketmq.model.message import (
    BORN_HOST,
    BORN_TIMESTAMP,
    CHECK_IMMUNITY_SECONDS,
    FLAG_COMPRESSED,
    KEY_SEPARATOR,
    PRODUCER_GROUP,
    RECONSUME_TIME,
    RESERVED_PROPERTIES,
    TRACE_CONTEXT,
)
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.names import (
    check_message_group,
    check_message_id,
    check_number,
    check_tag,
)
from pocketmq.model.topic import DEFAULT_TYPE
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.v2_send_request import USER_SIZE_MAX
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.pending_reply import Late
from pocketmq.rpc.service import Shortcut
from pocketmq.rpc.v2.caller import client_id_of
from pocketmq.rpc.v2.durations import ms_of
from pocketmq.rpc.v2.resources import topic_of, wrapped
from pocketmq.rpc.v2.send_shortcut import SendShortcutV2
from pocketmq.rpc.v2.status import OK
from pocketmq.services.produce.drafts import (
    ABSENT_QUEUE,
    AT_ONCE,
    PEER,
    DeliveryRequest,
    Drafts,
    Envelope,
    kind_of,
)
from pocketmq.services.produce.send import Send, Sent

RECOVERY_MAX_MS: Final = 3_600_000
"""Upper limit of the time that a producer may request before the first transaction check."""
BORN: Final = "born_timestamp"
STATUSES: Final = {
    PutStatus.FLUSH_DISK_TIMEOUT: pb.Status(
        code=pb.MASTER_PERSISTENCE_TIMEOUT, message="stored, but not on disk in time"
    ),
    PutStatus.FLUSH_REPLICA_TIMEOUT: pb.Status(
        code=pb.SLAVE_PERSISTENCE_TIMEOUT, message="stored, but not on a replica in time"
    ),
    PutStatus.REPLICA_NOT_AVAILABLE: pb.Status(
        code=pb.HA_NOT_AVAILABLE, message="stored, but there is no replica"
    ),
}
"""Statuses for messages that are stored, but less durable than configured."""


class SendMessageV2:
    """The methods SendMessage and RecallMessage."""

    __slots__ = ("_send", "shortcut")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.shortcut: Shortcut = SendShortcutV2(
            send.plain,
            wrapped,
            is_durable=send.is_durable,
            late=Late(send.flush_group, partial(_too_late, send)),
        ).serve

    async def send_message(
        self, request: pb.SendMessageRequest, call: Call
    ) -> pb.SendMessageResponse:
        """Stores all messages of the request, or none.

        Errors   ClientIdRequired, those of `drafts_of` and `Send.send`
        """
        client_id_of(call)
        drafts, envelope = drafts_of(request, call)
        config = self._send.planned_topic(drafts.topics[0])
        kind = kind_of(drafts)
        if config.type_name == DEFAULT_TYPE and kind is not MessageKind.NORMAL:
            # These clients treat a topic without a declared type as NORMAL.
            raise KindConflict(topic=config.name, type=DEFAULT_TYPE, kind=kind.value)
        return _answer(await self._send.send(drafts, call.peer_host, envelope), kind)

    async def recall_message(
        self, request: pb.RecallMessageRequest, call: Call
    ) -> pb.RecallMessageResponse:
        """Recalls a delayed message before its delivery; a repeated call also succeeds.

        Errors   ClientIdRequired, those of `Recall.recall`
        """
        client_id_of(call)
        topic = topic_of(request.topic, call)
        handle = request.recall_handle
        message_id = await self._send.recall.recall(topic, handle, call.peer_host)
        return pb.RecallMessageResponse(status=OK, message_id=message_id)


def _answer(sent: Sent, kind: MessageKind) -> pb.SendMessageResponse:
    """Returns the answer to a send, with transaction ids or recall handles.

    Other messages have their message id as transaction id, since clients log it.
    """
    status = STATUSES.get(sent.result.status, OK)
    first, message_ids = sent.result.queue_offset, sent.message_ids
    queue_offsets = sent.queue_offsets or range(first, first + len(message_ids))
    transaction_ids = message_ids
    if kind is MessageKind.TRANSACTION:
        places = zip(queue_offsets, sent.result.physical_offsets, message_ids, strict=True)
        transaction_ids = [transaction_id(HalfPlace(*place)) for place in places]
    columns = zip(
        message_ids, transaction_ids, queue_offsets, sent.handles or [""] * len(message_ids),
        strict=True,
    )  # fmt: skip
    entries = [
        pb.SendResultEntry(
            status=status,
            message_id=message_id,
            transaction_id=its_transaction,
            offset=queue_offset,
            recall_handle=handle,
        )
        for message_id, its_transaction, queue_offset, handle in columns
    ]
    return pb.SendMessageResponse(status=status, entries=entries)


def _too_late(send: Send, reply: bytes) -> bytes:
    response = pb.SendMessageResponse.FromString(reply)
    late = STATUSES[send.late_status]
    response.status.CopyFrom(late)
    for entry in response.entries:
        entry.status.CopyFrom(late)
    return response.SerializeToString()


def drafts_of(request: pb.SendMessageRequest, call: Call) -> tuple[Drafts, Envelope]:
    """Returns the messages of a request as columns for `services/produce`.

    Errors   NoMessages, TooManyMessages, MixedQueues, IllegalTopic, SystemTopic, IllegalMessageId,
             IllegalTag, IllegalMessageGroup, IllegalProperty, PropertiesTooLarge, IllegalNumber,
             BodyCorrupted, UnsupportedFeature
    """
    messages = request.messages
    if not messages:
        raise NoMessages()
    if len(messages) > MESSAGES_MAX:
        raise TooManyMessages(count=len(messages), limit=MESSAGES_MAX)
    encodings = {message.system_properties.body_encoding == pb.GZIP for message in messages}
    if len(encodings) > 1:
        raise MixedQueues(why="body encodings")
    drafts = Drafts(True, [], [], [], [], [], [], [], [], [], [], [], [])
    notes: list[str] = []
    for message in messages:
        topic, system = topic_of(message.topic, call), message.system_properties
        _check(message, system)
        drafts.topics.append(topic)
        drafts.bodies.append(message.body)
        drafts.tags.append(system.tag)
        drafts.keys.append(_keys_of(system))
        drafts.message_ids.append(system.message_id)
        drafts.queue_ids.append(ABSENT_QUEUE)
        drafts.groups.append(system.message_group)
        drafts.born_ms.append(max(ms_of(system.born_timestamp), 0))
        drafts.born_hosts.append(PEER)
        drafts.flags.append(0)
        drafts.properties.append(_properties_of(message))
        drafts.deliveries.append(_delivery_of(system))
        notes.append(_note(topic, system))
    return drafts, Envelope(notes, FLAG_COMPRESSED if True in encodings else 0)


def _keys_of(system: pb.SystemProperties) -> list[str]:
    """Returns a message's keys; a key with spaces becomes several, since spaces separate keys."""
    keys = []
    for key in system.keys:
        # A key of spaces only is kept here; the service refuses it.
        keys += [part for part in key.split(KEY_SEPARATOR) if part] or [key]
    return keys


def _properties_of(message: pb.Message) -> dict[str, str]:
    # The property block cannot represent a property without a value.
    given = message.user_properties.items()
    return {name: value for name, value in given if value or name in RESERVED_PROPERTIES}


def _check(message: pb.Message, system: pb.SystemProperties) -> None:
    check_message_id(system.message_id)
    if system.HasField("tag"):
        check_tag(system.tag)
    if system.HasField("message_group"):
        check_message_group(system.message_group)
    if system.HasField("lite_topic"):
        raise UnsupportedFeature(feature="lite topics")
    if system.HasField("priority"):
        check_number("priority", system.priority)
    recovery_ms = ms_of(system.orphaned_transaction_recovery_duration)
    check_number("orphaned_transaction_recovery_duration", recovery_ms, upper=RECOVERY_MAX_MS)
    texts = [system.tag, *system.keys]
    size_bytes = sum(len(text.encode()) for text in texts)
    for name, value in message.user_properties.items():
        size_bytes += len(name.encode()) + len(value.encode())
    if size_bytes > USER_SIZE_MAX:
        raise PropertiesTooLarge(size_bytes=size_bytes, limit_bytes=USER_SIZE_MAX)
    if system.HasField("body_digest"):
        _check_digest(message.body, system)


def _check_digest(body: bytes, system: pb.SystemProperties) -> None:
    """Raises BodyCorrupted if a body does not match its digest, whose format varies by client."""
    given, kind = system.body_digest.checksum.strip().upper(), system.body_digest.type
    if kind == pb.CRC32:
        crc = zlib.crc32(body)
        is_same = given.lstrip("0") in (f"{crc:X}".lstrip("0"), str(crc).lstrip("0"))
    elif kind in _DIGESTS:
        is_same = given == _DIGESTS[kind](body, usedforsecurity=False).hexdigest().upper()
    else:
        return  # A digest of an unknown type is not checked.
    if not is_same:
        name = pb.DigestType.Name(kind)
        raise BodyCorrupted(message_id=system.message_id, algorithm=name)


def _delivery_of(system: pb.SystemProperties) -> DeliveryRequest:
    is_transactional = system.message_type == pb.TRANSACTION
    has_time, has_priority = system.HasField("delivery_timestamp"), system.HasField("priority")
    if not (is_transactional or has_time or has_priority):
        return AT_ONCE
    return DeliveryRequest(
        deliver_at_ms=max(ms_of(system.delivery_timestamp), 1) if has_time else 0,
        transactional=is_transactional,
        priority=system.priority if has_priority else None,
    )


def _note(topic: str, system: pb.SystemProperties) -> str:
    """Returns the properties that RocketMQ's proxy adds to a message, encoded.

    Errors   IllegalProperty
    """
    host, trace = system.born_host, system.trace_context
    if _SEPARATORS & {*host, *trace}:
        why = "it contains U+0000, U+0001 or U+0002"
        raise IllegalProperty(name="born_host or trace_context", why=why)
    recovery_ms = ms_of(system.orphaned_transaction_recovery_duration)
    pairs = {
        BORN_HOST: host,
        BORN_TIMESTAMP: str(ms_of(system.born_timestamp)) if system.HasField(BORN) else "",
        # For a transaction, the service adds the producer group.
        PRODUCER_GROUP: topic if system.message_type != pb.TRANSACTION else "",
        CHECK_IMMUNITY_SECONDS: str(recovery_ms // 1000) if recovery_ms else "",
        RECONSUME_TIME: "0",
        TRACE_CONTEXT: trace,
    }
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value)


_SEPARATORS: Final = {"\x00", "\x01", "\x02"}
_DIGESTS: Final = {pb.MD5: md5, pb.SHA1: sha1}
