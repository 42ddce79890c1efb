"""Parses the usual SendMessageRequests of RocketMQ's protocol in place, without generated classes.

    0A size │ message: 0A topic │ 12 property … │ 1A size │ system properties │ 22 body
              0A tag │ 12 key … │ 1A id │ 22 digest │ 28 encoding │ 30 type │ 3A born time
              42 born host │ 68 queue id │ 80 01 attempt │ 8A 01 group │ 92 01 trace context
    topic:    0A namespace │ 12 name

A request is plain if it has only these fields, in this order, and meets the conditions that
format/send_request.py lists. Each message must have an id, and at most USER_SIZE_MAX bytes of user
texts. Its digest, if any, must be a correct CRC32, and its type must not be TRANSACTION. Bodies may
be compressed. The generated protobuf classes parse all other requests.
"""

from collections.abc import Callable
from typing import Final, final

from pocketmq.format.layout import crc32
from pocketmq.format.plain_text import is_printable
from pocketmq.format.send_request import ABSENT, MessageSpan, SendRequest
from pocketmq.model.message import (
    BORN_HOST,
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    RECONSUME_TIME,
    TRACE_CONTEXT,
)
from pocketmq.model.names import MESSAGE_GROUP_LENGTH_MAX
from pocketmq.native.machine import i64
from pocketmq.rpc.codec import v2_fields as field
from pocketmq.rpc.codec.protobuf_scan import END, FieldScan, MapEntry, bits

USER_SIZE_MAX: Final = 16 * 1024
"""Upper limit of the bytes of a message's user properties, tag and keys together."""
TOPICS_MAX: Final = 4_096
"""Upper limit of cached topic names; the cache is cleared when full."""
ID_END: Final = b"\x02"
"""Bytes of the property block after a message's id.

RocketMQ's classic client adds a property WAIT there; RocketMQ's proxy adds none.
"""

_MESSAGE: Final = 1
_NAMESPACE: Final = 1
_NAME: Final = 2
_DIGEST_TYPE: Final = 1
_CHECKSUM: Final = 2
_CRC32: Final = 1
_GZIP: Final = 2
_TYPE_MAX: Final = 6
_TRANSACTION: Final = 4
_INT32_MAX: Final = 0x7FFF_FFFF
_SECONDS_MAX: Final = 253_402_300_799
_HOST_NOTE: Final = f"{BORN_HOST}\x01".encode()
_TIME_NOTE: Final = f"{BORN_TIMESTAMP}\x01".encode()
_GROUP_NOTE: Final = f"{PRODUCER_GROUP}\x01".encode()
_TIMES_NOTE: Final = f"\x02{RECONSUME_TIME}\x010\x02".encode()
_TRACE_NOTE: Final = f"{TRACE_CONTEXT}\x01".encode()
_END: Final = b"\x02"

TopicName = Callable[[str, str], str]
"""(name, namespace or "") -> the store's name of the topic."""


@final
class V2SendRequest:
    """Parses one request after another into `request`, which is reset each time.

    topic_name   returns the store's name of a topic, also of one that clients may not use
    """

    __slots__ = (
        "_born_ms", "_checksum", "_digest", "_entry", "_fields", "_group", "_host",
        "_is_compressed", "_known", "_messages", "_names", "_namespace", "_noted", "_noted_host",
        "_noted_ms", "_noted_topic", "_resource", "_system", "_time", "_topic", "_topic_name",
        "_trace", "request",
    )  # fmt: skip

    def __init__(self, request: SendRequest, topic_name: TopicName) -> None:
        self.request = request
        self._topic_name = topic_name
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._namespace = ""
        self._resource = b""
        """The encoded topic of the last request; `_topic` is its name."""
        self._topic = b""
        self._noted = b""
        """Last result of `_note` without the trace context.

        The next three fields are the values that it was built from.
        """
        self._noted_host = b""
        self._noted_ms: i64 = -1
        self._noted_topic = b""
        self._messages = FieldScan(bits(_MESSAGE), repeated=bits(_MESSAGE), required=bits(_MESSAGE))
        self._fields = FieldScan(
            bits(field.TOPIC, field.PROPERTY, field.SYSTEM, field.BODY),
            repeated=bits(field.PROPERTY),
            required=bits(field.TOPIC, field.SYSTEM, field.BODY),
        )
        self._names = FieldScan(bits(_NAMESPACE, _NAME), required=bits(_NAME))
        self._entry = MapEntry()
        self._system = FieldScan(
            bits(
                field.TAG,
                field.KEY,
                field.ID,
                field.DIGEST,
                field.BORN_TIME,
                field.BORN_HOST,
                field.GROUP,
                field.TRACE,
            ),
            bits(field.ENCODING, field.TYPE, field.QUEUE_ID, field.ATTEMPT),
            repeated=bits(field.KEY),
            required=bits(field.ID),
            empty=bits(field.BORN_TIME, field.BORN_HOST),
        )
        self._time = FieldScan(0, bits(field.SECONDS, field.NANOS))
        self._digest = FieldScan(
            bits(_CHECKSUM), bits(_DIGEST_TYPE), required=bits(_CHECKSUM, _DIGEST_TYPE)
        )
        self._clear()

    def _clear(self) -> None:
        self._born_ms: i64 = -1
        self._checksum = b""
        self._group = b""
        self._host = b""
        self._is_compressed = False
        self._trace = b""

    def read(self, raw: bytes, namespace: str) -> bool:
        """Parses a request; returns whether it is plain.

        namespace   namespace of topics that name no namespace
        Cost        about 0.6 µs a message with tag, key and id when compiled
        """
        request, messages = self.request, self._messages
        request.begin(raw)
        request.id_end = ID_END
        messages.enter(0, len(raw))
        while (number := messages.step(raw)) > 0:
            if request.count == request.messages_max:
                return False
            if not self._read_message(raw, namespace, messages.begin, messages.end):
                return False
        return number == END

    def _read_message(self, raw: bytes, namespace: str, begin: i64, end: i64) -> bool:
        request, fields, entry = self.request, self._fields, self._entry
        span = request.next_span()
        self._clear()
        fields.enter(begin, end)
        while (number := fields.step(raw)) > 0:
            begin = fields.begin
            if number == field.TOPIC:
                if not self._take_topic(namespace, raw[begin : fields.end]):
                    return False
            elif number == field.SYSTEM:
                if not self._take_system(raw, span, begin, fields.end):
                    return False
            elif number == field.BODY:
                request.take_body(span, begin, fields.size)
            elif not entry.read(raw, begin, fields.end) or not request.take_property(
                span, entry.name, entry.name_size, entry.value, entry.value_size
            ):
                return False
        if number != END or span.texts_size + span.tag_size > USER_SIZE_MAX:
            return False
        if self._checksum and not self._is_sound(span):
            return False
        span.note = self._note()
        return request.add(span, ABSENT, False, b"", self._group, self._is_compressed)

    def _take_topic(self, namespace: str, resource: bytes) -> bool:
        request = self.request
        is_last = resource == self._resource and namespace == self._namespace
        if request.count:
            return is_last
        if not is_last and not self._find_topic(namespace, resource):
            return False
        return request.take_topic(self._topic)

    def _find_topic(self, namespace: str, resource: bytes) -> bool:
        """Finds a topic's name and stores it in `_topic`; returns whether the topic is plain."""
        known = self._known.get((namespace, resource))
        if known is None:
            known = self._named(namespace, resource)
            if not known:
                return False
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            self._known[namespace, resource] = known
        assert known, "a topic's name is empty"
        self._namespace, self._resource, self._topic = namespace, resource, known
        return True

    def _named(self, namespace: str, resource: bytes) -> bytes:
        """Returns the store's name of a topic; empty: the topic is not plain."""
        scan, name = self._names, b""
        scan.enter(0, len(resource))
        while (number := scan.step(resource)) > 0:
            if not is_printable(resource, scan.begin, scan.end):
                return b""
            name = resource[scan.begin : scan.end]
            if number == _NAMESPACE:
                namespace = name.decode()
        return self._topic_name(name.decode(), namespace).encode() if number == END else b""

    def _take_system(self, raw: bytes, span: MessageSpan, begin: i64, end: i64) -> bool:
        request, system = self.request, self._system
        system.enter(begin, end)
        while (number := system.step(raw)) > 0:
            begin, size = system.begin, system.size
            if number == field.TAG:
                if not request.take_tag(span, begin, size):
                    return False
            elif number == field.KEY:
                if not request.take_key(span, begin, size):
                    return False
            elif number == field.ID:
                if not request.take_id(span, begin, size):
                    return False
            elif number == field.ENCODING:
                self._is_compressed = system.value == _GZIP
                if system.value > _GZIP:
                    return False
            elif number == field.BORN_TIME:
                if not self._take_time(raw, span, begin, system.end):
                    return False
            elif number == field.BORN_HOST:
                self._host = raw[begin : system.end]
                if not is_printable(raw, begin, system.end):
                    return False
            elif not self._take(raw, number):
                return False
        return number == END

    def _take(self, raw: bytes, number: i64) -> bool:
        """Parses a rare system property, or checks one whose value is ignored."""
        system = self._system
        if number == field.TYPE:
            return system.value <= _TYPE_MAX and system.value != _TRANSACTION
        if number == field.DIGEST:
            return self._take_digest(raw, system.begin, system.end)
        if number == field.GROUP:
            self._group = raw[system.begin : system.end]
            return system.size <= MESSAGE_GROUP_LENGTH_MAX
        if number == field.TRACE:
            self._trace = raw[system.begin : system.end]
            return is_printable(raw, system.begin, system.end)
        assert number in (field.QUEUE_ID, field.ATTEMPT)
        return system.value <= _INT32_MAX

    def _take_time(self, raw: bytes, span: MessageSpan, begin: i64, end: i64) -> bool:
        """Parses a Timestamp: 08 seconds, 10 nanoseconds."""
        scan = self._time
        seconds: i64 = 0
        nanos: i64 = 0
        scan.enter(begin, end)
        while (number := scan.step(raw)) > 0:
            if number == field.SECONDS:
                seconds = scan.value
            else:
                nanos = scan.value
        if number != END or seconds > _SECONDS_MAX or nanos > _INT32_MAX:
            return False
        self._born_ms = seconds * 1_000 + nanos // 1_000_000
        span.born_ms = self._born_ms
        return True

    def _take_digest(self, raw: bytes, begin: i64, end: i64) -> bool:
        """Parses a Digest if it is a CRC32: 08 type, 12 checksum."""
        scan = self._digest
        scan.enter(begin, end)
        while (number := scan.step(raw)) > 0:
            if number == _CHECKSUM:
                self._checksum = raw[scan.begin : scan.end]
            elif scan.value != _CRC32:
                return False
        return number == END

    def _is_sound(self, span: MessageSpan) -> bool:
        raw, begin = self.request.raw, span.body_begin
        crc: i64 = crc32(raw[begin : begin + span.body_size])
        return self._checksum.upper().lstrip(b"0") == (b"%X" % crc).lstrip(b"0")

    def _note(self) -> bytes:
        """Returns the properties that RocketMQ's proxy adds to a message.

        They are cached, as they are usually those of the previous message.
        """
        topic, born_ms, host = self.request.topic, self._born_ms, self._host
        if born_ms != self._noted_ms or host != self._noted_host or topic != self._noted_topic:
            note = _HOST_NOTE + host + _END if host else b""
            if born_ms >= 0:
                note += _TIME_NOTE + str(born_ms).encode() + _END
            self._noted = note + _GROUP_NOTE + topic + _TIMES_NOTE
            self._noted_host, self._noted_ms, self._noted_topic = host, born_ms, topic
        if not self._trace:
            return self._noted
        return self._noted + _TRACE_NOTE + self._trace + _END
