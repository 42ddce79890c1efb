"""A plain SendMessageRequest, read in place: which bytes are what, nothing is copied.

    0A size │ message: 0A topic │ 12 body │ 1A tag │ 22 key … │ 2A id │ 30 queue id │ 5A property …
            │          50 transactional │ 60 born time │ 6A born host │ 70 flag │ 8A 01 group
    10 wait

Plain requests are those of nearly all clients: these fields, none twice but keys and properties, in
the order of their numbers; texts of printable ASCII that `model/names.py` accepts; all messages
of one topic, all or none of transactions, and those of one group. Other requests are left to the
generated classes, which read the same out of every request that is read here; so are all requests
that have to be refused.

A number with the sign bit set is not plain: as a length it would lead backwards. Sizes are compared
with the rest, never added to a place first.
"""

from typing import Final, final

from pocketmq.format.addresses import host_from_text
from pocketmq.format.protobuf_scan import is_printable, number_at, short_size, text_hash
from pocketmq.model.message import RESERVED_PROPERTIES
from pocketmq.native.machine import append, i64, vec

MESSAGES_MAX: Final = 1_024
"""Messages of one request: about 10 ms of the event loop where they are not plain."""
FIELDS_MAX: Final = 32_768
"""Fields of all messages of a request: 15 ms of walking, and 32 for each of 1,024 messages."""
TEXT_SIZE_MAX: Final = 255
"""Bytes of a plain key, tag or id: those RocketMQ allows in an id."""
PROPERTIES_MAX: Final = 32
"""Properties of a plain message: each name is compared with all before it."""
WAIT: Final = b"\x02WAIT\x01true\x02"
NO_WAIT: Final = b"\x02WAIT\x01false\x02"
ABSENT: Final = -1
KEY_WIDTH: Final = 3
"""Numbers kept of a key: where it begins, its size, its hash."""
PROPERTY_WIDTH: Final = 4
"""Numbers kept of a property: where name and value begin, and their sizes."""
_RESERVED: Final = frozenset(name.encode() for name in RESERVED_PROPERTIES)
_TIMER: Final = b"TIMER_"

_MESSAGE: Final = 0x0A
_WAIT: Final = 0x10
_WAIT_MAX: Final = 2
_WAIT_SIZE: Final = 2
_APPENDED: Final = 2
_TOPIC: Final = 0x0A
_BODY: Final = 0x12
_TAG: Final = 0x1A
_KEY: Final = 0x22
_ID: Final = 0x2A
_QUEUE_ID: Final = 0x30
_TRANSACTIONAL: Final = 0x50
_PROPERTY: Final = 0x5A
_BORN_TIME: Final = 0x60
_BORN_HOST: Final = 0x6A
_FLAG: Final = 0x70
_GROUP: Final = 0x8A
_GROUP_SECOND: Final = 1
_NAME: Final = 0x0A
_VALUE: Final = 0x12
_INT32_MAX: Final = 0x7FFF_FFFF
_BAR: Final = 0x7C
_NOT_PLAIN: Final = -1


@final
class MessageSpan:
    """Positions of the parts of one message in its request; absent parts have size 0.

    first_key, first_property   where its own begin in the request's `keys` and `properties`
    tag_hash, id_hash           String.hashCode, unsigned
    texts_size                  bytes of all keys, of all property names and values
    host                        packed; empty for the sender's
    identity                    the id, given or made
    note                        bytes that the property block gets behind the user's own properties
    """

    __slots__ = (
        "body_begin", "body_size", "born_ms", "first_key", "first_property", "flag", "host",
        "id_hash", "identity", "key_count", "note", "property_count", "tag_begin", "tag_hash",
        "tag_size", "texts_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.host = b""
        self.identity = b""
        self.note = b""
        self.clear(0, 0)

    def clear(self, first_key: i64, first_property: i64) -> None:
        """Clears all fields."""
        assert first_key >= 0
        assert first_property >= 0
        self.host = b""
        self.identity = b""
        self.note = b""
        self.body_begin: i64 = 0
        self.body_size: i64 = 0
        self.tag_begin: i64 = 0
        self.tag_size: i64 = 0
        self.tag_hash: i64 = 0
        self.id_hash: i64 = 0
        self.first_key: i64 = first_key
        self.key_count: i64 = 0
        self.first_property: i64 = first_property
        self.property_count: i64 = 0
        self.texts_size: i64 = 0
        self.born_ms: i64 = 0
        self.flag: i64 = 0


@final
class SendRequest:
    """The messages of one request after another: `read` forgets the one before.

    messages_max    a request of more is not plain
    count           messages
    waits           whether the answer waits until the flush mode's promise holds
    id_end          bytes that each property block has behind the id
    queue_id        of all of them, ABSENT for none
    bodies_size     bytes of all bodies
    unnamed_count   messages without an id
    is_half         all of them are of transactions; `group` is their producer's, empty: the topic's
    order           message group of all of them, as in the blocks, empty for none
    order_hash      String.hashCode of that group, unsigned
    is_compressed   whether all bodies are, as producers do it, or none is
    keys            KEY_WIDTH numbers each, of all messages
    properties      PROPERTY_WIDTH numbers each
    """

    __slots__ = (
        "_messages_max", "bodies_size", "count", "group", "id_end", "is_compressed", "is_half",
        "keys", "order", "order_hash", "properties", "queue_id", "raw", "spans", "topic",
        "unnamed_count", "waits",
    )  # fmt: skip

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        assert 0 < messages_max <= MESSAGES_MAX
        self._messages_max: i64 = messages_max
        self.raw = b""
        self.topic = b""
        self.waits = True
        self.id_end = WAIT
        self.count: i64 = 0
        self.queue_id: i64 = ABSENT
        self.bodies_size: i64 = 0
        self.unnamed_count: i64 = 0
        self.is_half = False
        self.group = b""
        self.order = b""
        self.order_hash: i64 = 0
        self.is_compressed = False
        self.spans: list[MessageSpan] = []
        self.keys: vec[i64] = vec[i64]()
        self.properties: vec[i64] = vec[i64]()

    def read(self, raw: bytes) -> bool:
        """Finds the parts of a request; returns whether it is plain.

        Cost     about 0.4 µs a message with tag, key and id when compiled, 20 µs when not
        """
        self.begin(raw)
        end: i64 = len(raw)
        position: i64 = 0
        field_count: i64 = 0
        while position < end:
            mark: i64 = raw[position]
            if end - position < 2:
                return False
            if mark == _WAIT:
                wait: i64 = raw[position + 1]
                if wait > _WAIT_MAX:
                    return False
                self.waits = wait != _APPENDED
                position += 2
                field_count += 1
            elif mark == _MESSAGE:
                size, begin = short_size(raw, position + 1, end)
                if size < 0 or size > end - begin:
                    return False
                position = begin + size
                if self.count + 1 >= self._messages_max and end - position > _WAIT_SIZE:
                    return False
                found = self._read_message(begin, position)
                if found == _NOT_PLAIN:
                    return False
                field_count += found
                self.count += 1
            else:
                return False
            if field_count > FIELDS_MAX:
                return False
        self.id_end = WAIT if self.waits else NO_WAIT
        return self.count > 0

    def begin(self, raw: bytes) -> None:
        """Forgets the request before; this one has no message yet."""
        self.raw = raw
        self.waits = True
        self.count = 0
        self.bodies_size = 0
        self.unnamed_count = 0
        self.is_half = False
        self.group = b""
        self.order = b""
        self.order_hash = 0
        self.is_compressed = False
        if len(self.keys):
            self.keys = vec[i64]()
        if len(self.properties):
            self.properties = vec[i64]()

    def next_span(self) -> MessageSpan:
        """Returns the span of the message behind those that were counted, without any part."""
        number = self.count
        assert number < self._messages_max
        if number == len(self.spans):
            self.spans.append(MessageSpan())
        span = self.spans[number]
        span.clear(len(self.keys), len(self.properties))
        return span

    def _read_message(self, position: i64, end: i64) -> i64:
        """Takes the next message; returns how many fields it has, or _NOT_PLAIN."""
        raw, span = self.raw, self.next_span()
        queue_id: i64 = ABSENT
        field_count: i64 = 0
        last: i64 = 0
        has_topic = False
        is_half, group = False, b""
        while position < end:
            mark: i64 = raw[position]
            if mark <= last and not (mark == last and mark in (_KEY, _PROPERTY)):
                return _NOT_PLAIN
            last = mark
            field_count += 1
            if mark & 7 == 0:
                value, position = number_at(raw, position + 1, end)
                if value < 0:
                    return _NOT_PLAIN
                if mark == _QUEUE_ID and value <= _INT32_MAX:
                    queue_id = value
                elif mark == _TRANSACTIONAL and value == 1:
                    is_half = True
                elif not _take_number(span, mark, value):
                    return _NOT_PLAIN
                continue
            if mark == _GROUP:
                position += 1
                if position == end or raw[position] != _GROUP_SECOND:
                    return _NOT_PLAIN
            size, begin = short_size(raw, position + 1, end)
            if size < 0 or size > end - begin:
                return _NOT_PLAIN
            position = begin + size
            if mark == _BODY:
                span.body_begin, span.body_size = begin, size
                self.bodies_size += size
            elif mark == _TOPIC:
                if not self._take_topic(raw[begin:position]):
                    return _NOT_PLAIN
                has_topic = True
            elif mark == _GROUP:
                group = raw[begin:position]
            elif mark == _PROPERTY:
                if not self.take_property(span, begin, position):
                    return _NOT_PLAIN
            elif mark == _BORN_HOST:
                if not _take_host(span, raw[begin:position]):
                    return _NOT_PLAIN
            elif not self._take_text(span, mark, begin, size):
                return _NOT_PLAIN
        is_whole = has_topic and span.body_size > 0
        if not is_whole or not self._agrees(queue_id, is_half, group):
            return _NOT_PLAIN
        if not span.identity:
            self.unnamed_count += 1
        return field_count

    def _agrees(self, queue_id: i64, is_half: bool, group: bytes) -> bool:
        """Returns whether a message is of the same kind as those before it."""
        if not self.count:
            self.queue_id, self.is_half, self.group = queue_id, is_half, group
            return is_half or not group
        return queue_id == self.queue_id and is_half == self.is_half and group == self.group

    def _take_topic(self, topic: bytes) -> bool:
        if not self.count:
            self.topic = topic
            return True
        return topic == self.topic

    def _take_text(self, span: MessageSpan, mark: i64, begin: i64, size: i64) -> bool:
        """Takes a tag, a key or an id."""
        if mark == _ID:
            return self.take_id(span, begin, size)
        if mark == _KEY:
            return self.take_key(span, begin, size)
        return mark == _TAG and self.take_tag(span, begin, size)

    def take_id(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes an id, an empty one for none; returns whether it is plain, as all that follow."""
        if size > TEXT_SIZE_MAX:
            return False
        if size:
            span.id_hash = text_hash(self.raw, begin, begin + size, 0)
            span.identity = self.raw[begin : begin + size]
        return span.id_hash >= 0

    def take_key(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes one key more."""
        if not size or size > TEXT_SIZE_MAX:
            return False
        hashed = text_hash(self.raw, begin, begin + size, 0)
        self.keys = append(append(append(self.keys, begin), size), hashed)
        span.key_count += 1
        span.texts_size += size
        return hashed >= 0

    def take_tag(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes the tag."""
        if not size or size > TEXT_SIZE_MAX:
            return False
        span.tag_begin, span.tag_size = begin, size
        span.tag_hash = text_hash(self.raw, begin, begin + size, _BAR)
        return span.tag_hash >= 0

    def take_property(self, span: MessageSpan, position: i64, end: i64) -> bool:
        """Takes an entry of a map: a name, then a value, both there."""
        raw = self.raw
        if end - position < 2 or raw[position] != _NAME:
            return False
        size, name = short_size(raw, position + 1, end)
        if size <= 0 or size > end - name:
            return False
        position = name + size
        if end - position < 2 or raw[position] != _VALUE:
            return False
        value_size, value = short_size(raw, position + 1, end)
        if value_size <= 0 or value_size != end - value:
            return False
        if text_hash(raw, name, position, 0) < 0 or not is_printable(raw, value, end):
            return False
        text = raw[name:position]
        if text in _RESERVED or text.startswith(_TIMER) or self._has_property(span, text):
            return False
        if span.property_count == PROPERTIES_MAX:
            return False
        spans = append(append(self.properties, name), size)
        self.properties = append(append(spans, value), value_size)
        span.property_count += 1
        span.texts_size += size + value_size
        return True

    def _has_property(self, span: MessageSpan, name: bytes) -> bool:
        place, end = span.first_property, i64(len(self.properties))
        while place < end:
            begin, size = self.properties[place], self.properties[place + 1]
            if size == len(name) and self.raw[begin : begin + size] == name:
                return True
            place += PROPERTY_WIDTH
        return False


def _take_number(span: MessageSpan, mark: i64, value: i64) -> bool:
    if mark == _BORN_TIME:
        span.born_ms = value
        return True
    if mark == _FLAG and value <= _INT32_MAX:
        span.flag = value
        return True
    return False


def _take_host(span: MessageSpan, text: bytes) -> bool:
    try:
        span.host = host_from_text(text.decode())
    except ValueError:
        return False
    return True
