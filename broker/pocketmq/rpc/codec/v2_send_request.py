"""Parses a plain SendMessageRequest of RocketMQ's own protocol in place.

    0A size │ message: 0A topic │ 12 property … │ 1A size │ system properties │ 22 body
              0A tag │ 12 key … │ 1A id │ 22 digest │ 28 encoding │ 30 type │ 3A born time
              42 born host │ 68 queue id │ 80 01 attempt │ 8A 01 group │ 92 01 trace context
    topic:    0A namespace │ 12 name

Nearly all producers send plain requests. They have these fields in the order of their numbers; each
message has an id, and no digest but a CRC32. All messages are of one message group or none. Bodies
may be compressed. Texts are plain as in `send_request.py`. Other requests, and all to be refused,
are left to the generated classes, which parse every request taken here to the same.
"""

from collections.abc import Callable
from typing import Final, final

from pocketmq.format.layout import crc32
from pocketmq.format.protobuf_scan import is_printable, number_at, short_size, text_hash
from pocketmq.format.send_request import (
    FIELDS_MAX,
    MESSAGES_MAX,
    MessageSpan,
    SendRequest,
)
from pocketmq.model.message import (
    BORN_HOST,
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    RECONSUME_TIME,
    SHARDING_KEY,
    TRACE_CONTEXT,
)
from pocketmq.model.names import MESSAGE_GROUP_LENGTH_MAX
from pocketmq.native.machine import i64

USER_SIZE_MAX: Final = 16 * 1024
"""Bytes of names and values, tag and keys that a user gives a message."""
TOPICS_MAX: Final = 4_096
"""Topics whose names are kept; beyond that all are read again."""
ID_END: Final = b"\x02"
"""Bytes behind the id of a message: a real proxy adds no WAIT."""

_MESSAGE: Final = 0x0A
_TOPIC: Final = 0x0A
_PROPERTY: Final = 0x12
_SYSTEM: Final = 0x1A
_BODY: Final = 0x22
_NAMESPACE: Final = 0x0A
_NAME: Final = 0x12
_TAG: Final = 0x0A
_KEY: Final = 0x12
_ID: Final = 0x1A
_DIGEST: Final = 0x22
_ENCODING: Final = 0x28
_TYPE: Final = 0x30
_BORN_TIME: Final = 0x3A
_BORN_HOST: Final = 0x42
_QUEUE_ID: Final = 0x68
_ATTEMPT: Final = 0x80
_GROUP: Final = 0x8A
_TRACE: Final = 0x92
_GZIP: Final = 2
_TRANSACTION: Final = 4
_TYPE_MAX: Final = 6
_FIRST: Final = 0x08
_SECOND: Final = 0x10
_CHECKSUM: Final = 0x12
_CRC32: Final = 1
_INT32_MAX: Final = 0x7FFF_FFFF
_SECONDS_MAX: Final = 253_402_300_799
_LONG: Final = 0x80
"""A byte of a number from which on another one follows."""
_NOT_PLAIN: Final = -1
_HOST_NOTE: Final = f"{BORN_HOST}\x01".encode()
_TIME_NOTE: Final = f"{BORN_TIMESTAMP}\x01".encode()
_GROUP_NOTE: Final = f"{PRODUCER_GROUP}\x01".encode()
_TIMES_NOTE: Final = f"\x02{RECONSUME_TIME}\x010\x02".encode()
_ORDER: Final = f"{SHARDING_KEY}\x01".encode()
_TRACE_NOTE: Final = f"{TRACE_CONTEXT}\x01".encode()
_END: Final = b"\x02"

TopicName = Callable[[str, str], str]
"""(name, namespace or "") -> the name of a topic as the store knows it."""


@final
class V2SendRequest:
    """Reads one request after another into `request`, which forgets the one before.

    topic_name   gives the store's name of a topic; for one that clients may not use, any
    """

    __slots__ = (
        "_born_ms", "_crc_begin", "_crc_size", "_group", "_group_begin", "_group_size",
        "_host_begin", "_host_size", "_is_compressed", "_known", "_noted", "_noted_host",
        "_noted_ms", "_noted_topic", "_topic", "_topic_name", "_trace_begin", "_trace_size",
        "request",
    )  # fmt: skip

    def __init__(self, request: SendRequest, topic_name: TopicName) -> None:
        self.request = request
        self._topic_name = topic_name
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._topic = b""
        """How the first message of the request calls its topic."""
        self._group = b""
        """The message group of the first message."""
        self._noted = b""
        """The last note without its trace; its findings follow."""
        self._noted_host = b""
        self._noted_ms: i64 = -1
        self._noted_topic = b""
        self._clear()

    def _clear(self) -> None:
        """Resets the system properties of a message."""
        self._born_ms: i64 = -1
        self._crc_begin: i64 = 0
        self._crc_size: i64 = -1
        self._group_begin: i64 = 0
        self._group_size: i64 = 0
        self._host_begin: i64 = 0
        self._host_size: i64 = 0
        self._is_compressed = False
        self._trace_begin: i64 = 0
        self._trace_size: i64 = 0

    def read(self, raw: bytes, namespace: str) -> bool:
        """Finds the parts of a request; returns whether it is plain.

        namespace   of a topic that names none itself, "" for none
        Cost        about 0.8 µs a message with tag, key and id when compiled
        """
        request = self.request
        request.begin(raw)
        request.id_end = ID_END
        request.queue_id = -1
        end: i64 = len(raw)
        position: i64 = 0
        field_count: i64 = 0
        while position < end:
            if raw[position] != _MESSAGE or request.count == MESSAGES_MAX:
                return False
            size, begin = short_size(raw, position + 1, end)
            if size < 0 or size > end - begin:
                return False
            position = begin + size
            found = self._read_message(namespace, begin, position)
            if found == _NOT_PLAIN:
                return False
            field_count += found
            request.count += 1
            if field_count > FIELDS_MAX:
                return False
        return request.count > 0

    def _read_message(self, namespace: str, position: i64, end: i64) -> i64:
        """Takes the next message; returns how many fields it has, or _NOT_PLAIN."""
        request = self.request
        raw, span = request.raw, request.next_span()
        field_count: i64 = 0
        last: i64 = 0
        self._clear()
        while position < end:
            mark: i64 = raw[position]
            if mark <= last and not (mark == last and mark == _PROPERTY):
                return _NOT_PLAIN
            if not last and mark != _TOPIC:
                return _NOT_PLAIN
            last = mark
            size, begin = short_size(raw, position + 1, end)
            if size < 0 or size > end - begin:
                return _NOT_PLAIN
            position = begin + size
            field_count += 1
            if mark == _TOPIC:
                if not self._take_topic(namespace, raw[begin:position]):
                    return _NOT_PLAIN
            elif mark == _PROPERTY:
                if not request.take_property(span, begin, position):
                    return _NOT_PLAIN
            elif mark == _SYSTEM:
                found = self._take_system(span, begin, position)
                if found == _NOT_PLAIN:
                    return _NOT_PLAIN
                field_count += found
            elif mark == _BODY:
                span.body_begin, span.body_size = begin, size
                request.bodies_size += size
            else:
                return _NOT_PLAIN
        if not span.identity or not span.body_size or not self._agrees():
            return _NOT_PLAIN
        if self._crc_size >= 0 and not self._is_sound(span):
            return _NOT_PLAIN
        if span.texts_size + span.tag_size > USER_SIZE_MAX:
            return _NOT_PLAIN
        span.note = self._note()
        return field_count

    def _agrees(self) -> bool:
        """Returns whether a message is of the same group as the first, and compressed like it."""
        request, begin, end = self.request, self._group_begin, self._group_begin + self._group_size
        if request.count:
            if self._is_compressed != request.is_compressed:
                return False
            return request.raw[begin:end] == self._group
        request.is_compressed = self._is_compressed
        self._group = request.raw[begin:end]
        if self._group_size:
            request.order = _ORDER + self._group + _END
            request.order_hash = text_hash(request.raw, begin, end, 0)
        return request.order_hash >= 0

    def _take_topic(self, namespace: str, resource: bytes) -> bool:
        request = self.request
        if request.count:
            return resource == self._topic
        self._topic = resource
        known = self._known.get((namespace, resource))
        if known is None:
            known = self._named(namespace, resource)
            if not known:
                return False
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            self._known[namespace, resource] = known
        assert known, "a topic has a name"
        request.topic = known
        return True

    def _named(self, namespace: str, resource: bytes) -> bytes:
        """Returns the name of a topic, empty where it is not plain."""
        end: i64 = len(resource)
        position: i64 = 0
        name = b""
        last: i64 = 0
        while position < end:
            mark: i64 = resource[position]
            if mark <= last or (mark != _NAMESPACE and mark != _NAME):
                return b""
            last = mark
            size, begin = short_size(resource, position + 1, end)
            if size <= 0 or size > end - begin:
                return b""
            position = begin + size
            if not is_printable(resource, begin, position):
                return b""
            text = resource[begin:position]
            if mark == _NAMESPACE:
                namespace = text.decode()
            else:
                name = text
        return self._topic_name(name.decode(), namespace).encode() if name else b""

    def _take_system(self, span: MessageSpan, position: i64, end: i64) -> i64:
        """Takes the system properties; returns how many there are, or _NOT_PLAIN."""
        raw = self.request.raw
        field_count: i64 = 0
        last: i64 = 0
        while position < end:
            mark: i64 = raw[position]
            position += 1
            if mark > 0x7F:  # Of two bytes, the second of which is 1 for all that are known.
                if position == end or raw[position] != 1:
                    return _NOT_PLAIN
                position += 1
            if mark <= last and not (mark == last and mark == _KEY):
                return _NOT_PLAIN
            last = mark
            field_count += 1
            first: i64 = _LONG if position == end else raw[position]
            if mark & 7 == 0:
                value, position = first, position + 1
                if first >= _LONG:
                    value, position = number_at(raw, position - 1, end)
                if not self._takes_number(mark, value):
                    return _NOT_PLAIN
                continue
            size, begin = first, position + 1
            if first >= _LONG:
                size, begin = short_size(raw, position, end)
            if size < 0 or size > end - begin:
                return _NOT_PLAIN
            position = begin + size
            if not self._take_text(span, mark, begin, size):
                return _NOT_PLAIN
        return field_count

    def _take_text(self, span: MessageSpan, mark: i64, begin: i64, size: i64) -> bool:
        request, end = self.request, begin + size
        if mark == _TAG:
            return request.take_tag(span, begin, size)
        if mark == _KEY:
            return request.take_key(span, begin, size)
        if mark == _ID:
            return request.take_id(span, begin, size)
        if mark == _BORN_TIME:
            return self._take_time(span, begin, end)
        if mark == _DIGEST:
            return self._take_digest(begin, end)
        if mark == _GROUP:
            self._group_begin, self._group_size = begin, size
            return 0 < size <= MESSAGE_GROUP_LENGTH_MAX
        if mark == _BORN_HOST:
            self._host_begin, self._host_size = begin, size
        elif mark == _TRACE:
            self._trace_begin, self._trace_size = begin, size
        else:
            return False
        return is_printable(request.raw, begin, end)

    def _take_time(self, span: MessageSpan, position: i64, end: i64) -> bool:
        """Takes a Timestamp: 08 seconds, 10 nanoseconds."""
        raw = self.request.raw
        seconds: i64 = 0
        nanos: i64 = 0
        if position < end and raw[position] == _FIRST:
            seconds, position = number_at(raw, position + 1, end)
        if 0 <= seconds <= _SECONDS_MAX and position < end and raw[position] == _SECOND:
            nanos, position = number_at(raw, position + 1, end)
        if position != end or not 0 <= seconds <= _SECONDS_MAX or not 0 <= nanos <= _INT32_MAX:
            return False
        self._born_ms = seconds * 1_000 + nanos // 1_000_000
        span.born_ms = self._born_ms
        return True

    def _take_digest(self, position: i64, end: i64) -> bool:
        """Takes a Digest if it is a CRC32: 08 type, 12 checksum."""
        raw = self.request.raw
        if end - position < 4 or raw[position] != _FIRST or raw[position + 1] != _CRC32:
            return False
        if raw[position + 2] != _CHECKSUM:
            return False
        size, begin = short_size(raw, position + 3, end)
        if size < 0 or size != end - begin:
            return False
        self._crc_begin, self._crc_size = begin, size
        return True

    def _is_sound(self, span: MessageSpan) -> bool:
        """Returns whether a body has the CRC32 that its producer states."""
        raw, begin = self.request.raw, span.body_begin
        crc: i64 = crc32(raw[begin : begin + span.body_size])
        given = raw[self._crc_begin : self._crc_begin + self._crc_size]
        return given.upper().lstrip(b"0") == (b"%X" % crc).lstrip(b"0")

    def _takes_number(self, mark: i64, value: i64) -> bool:
        """Takes a number; returns whether a plain message may have it."""
        if mark == _ENCODING:
            self._is_compressed = value == _GZIP
            return 0 <= value <= _GZIP
        if mark == _TYPE:
            return 0 <= value <= _TYPE_MAX and value != _TRANSACTION
        return mark in (_QUEUE_ID, _ATTEMPT) and 0 <= value <= _INT32_MAX

    def _note(self) -> bytes:
        """Returns a real proxy's additions to each message: mostly those of the last one."""
        raw, topic, born_ms = self.request.raw, self.request.topic, self._born_ms
        host = raw[self._host_begin : self._host_begin + self._host_size]
        if born_ms != self._noted_ms or host != self._noted_host or topic != self._noted_topic:
            note = _HOST_NOTE + host + _END if host else b""
            if born_ms >= 0:
                note += _TIME_NOTE + str(born_ms).encode() + _END
            self._noted = note + _GROUP_NOTE + topic + _TIMES_NOTE
            self._noted_host, self._noted_ms, self._noted_topic = host, born_ms, topic
        if not self._trace_size:
            return self._noted
        trace = raw[self._trace_begin : self._trace_begin + self._trace_size]
        return self._noted + _TRACE_NOTE + trace + _END
