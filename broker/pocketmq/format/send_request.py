"""Positions of the parts of a plain SendMessageRequest in its bytes, and which parts are plain.

    bytes ──► rpc/codec/v1_send_request, v2_send_request ──► SendRequest ──► send_records.py

Nearly all requests are plain. Their texts are printable ASCII that `model/names.py` accepts. All
their messages are of one topic, for one queue or any, all or none of transactions, of one message
group or none, and all compressed or none. The codecs of both protocols take such requests. They
leave all others, and all that have to be refused, to the generated classes.
"""

from typing import Final, final

from pocketmq.format.addresses import host_from_text
from pocketmq.format.plain_text import is_printable, text_hash
from pocketmq.model.message import RESERVED_PROPERTIES, SHARDING_KEY
from pocketmq.native.machine import append, i64, vec

MESSAGES_MAX: Final = 1_024
"""Messages of one request: about 10 ms of the event loop where they are not plain."""
FIELDS_MAX: Final = 32_768
"""Keys and properties of all messages of a plain request, fields of any other: 15 ms of walking."""
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

_ORDER: Final = f"{SHARDING_KEY}\x01".encode()
_END: Final = b"\x02"
_BAR: Final = 0x7C


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
    """The messages of one request after another: `begin` forgets the one before.

    messages_max    a request of more is not plain
    count           messages
    waits           whether the answer waits until the flush mode's promise holds
    id_end          bytes that each property block has behind the id
    queue_id        of all of them, ABSENT for none
    bodies_size     bytes of all bodies
    unnamed_count   messages without an id
    is_half         all of them are of transactions; `group` is their producer's, empty: the topic's
    message_group   of all of them, empty for none; order: the same as in the blocks
    order_hash      String.hashCode of that group, unsigned
    is_compressed   whether all bodies are, as producers do it, or none is
    keys            KEY_WIDTH numbers each, of all messages
    properties      PROPERTY_WIDTH numbers each
    """

    __slots__ = (
        "bodies_size", "count", "group", "id_end", "is_compressed", "is_half", "keys",
        "message_group", "messages_max", "order", "order_hash", "properties", "queue_id", "raw",
        "spans", "topic", "unnamed_count", "waits",
    )  # fmt: skip

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        assert 0 < messages_max <= MESSAGES_MAX
        self.messages_max: i64 = messages_max
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
        self.message_group = b""
        self.order = b""
        self.order_hash: i64 = 0
        self.is_compressed = False
        self.spans: list[MessageSpan] = []
        self.keys: vec[i64] = vec[i64]()
        self.properties: vec[i64] = vec[i64]()

    def begin(self, raw: bytes) -> None:
        """Forgets the request before; this one has no message yet."""
        self.raw = raw
        self.waits = True
        self.count = 0
        self.bodies_size = 0
        self.unnamed_count = 0
        self.order = b""
        self.order_hash = 0
        if len(self.keys):
            self.keys = vec[i64]()
        if len(self.properties):
            self.properties = vec[i64]()

    def next_span(self) -> MessageSpan:
        """Returns the span of the message behind those that were counted, without any part."""
        number = self.count
        assert number < self.messages_max
        if number == len(self.spans):
            self.spans.append(MessageSpan())
        span = self.spans[number]
        span.clear(len(self.keys), len(self.properties))
        return span

    def add(
        self, span: MessageSpan, queue_id: i64, is_half: bool, group: bytes, message_group: bytes,
        is_compressed: bool,
    ) -> bool:  # fmt: skip
        """Counts a message whose parts were taken; returns whether it is like those before it."""
        assert span.body_size > 0, "a message has a body"
        if not self.count:
            self.queue_id, self.is_half, self.group = queue_id, is_half, group
            self.message_group, self.is_compressed = message_group, is_compressed
            if len(message_group):
                self.order = _ORDER + message_group + _END
                self.order_hash = text_hash(message_group, 0, len(message_group), 0)
            if self.order_hash < 0 or (len(group) and not is_half):
                return False
        elif (
            queue_id != self.queue_id
            or is_half != self.is_half
            or is_compressed != self.is_compressed
            or group != self.group
            or message_group != self.message_group
        ):
            return False
        if not span.identity:
            self.unnamed_count += 1
        self.count += 1
        counts = PROPERTY_WIDTH * len(self.keys) + KEY_WIDTH * len(self.properties)
        return counts <= KEY_WIDTH * PROPERTY_WIDTH * FIELDS_MAX

    def take_topic(self, topic: bytes) -> bool:
        """Takes the topic, which is that of all messages."""
        if not self.count:
            self.topic = topic
            return True
        return topic == self.topic

    def take_body(self, span: MessageSpan, begin: i64, size: i64) -> None:
        """Takes the body."""
        span.body_begin, span.body_size = begin, size
        self.bodies_size += size

    def take_id(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes an id; returns whether it is plain, as all that follow."""
        if size > TEXT_SIZE_MAX:
            return False
        span.id_hash = text_hash(self.raw, begin, begin + size, 0)
        span.identity = self.raw[begin : begin + size]
        return span.id_hash >= 0

    def take_key(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes one key more."""
        if size > TEXT_SIZE_MAX:
            return False
        hashed = text_hash(self.raw, begin, begin + size, 0)
        self.keys = append(append(append(self.keys, begin), size), hashed)
        span.key_count += 1
        span.texts_size += size
        return hashed >= 0

    def take_tag(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Takes the tag."""
        if size > TEXT_SIZE_MAX:
            return False
        span.tag_begin, span.tag_size = begin, size
        span.tag_hash = text_hash(self.raw, begin, begin + size, _BAR)
        return span.tag_hash >= 0

    def take_property(
        self, span: MessageSpan, name: i64, name_size: i64, value: i64, value_size: i64
    ) -> bool:
        """Takes a property by where its name and its value begin."""
        raw, name_end = self.raw, name + name_size
        if text_hash(raw, name, name_end, 0) < 0:
            return False
        if not is_printable(raw, value, value + value_size):
            return False
        text = raw[name:name_end]
        if text in _RESERVED or text.startswith(_TIMER) or self._has_property(span, text):
            return False
        if span.property_count == PROPERTIES_MAX:
            return False
        spans = append(append(self.properties, name), name_size)
        self.properties = append(append(spans, value), value_size)
        span.property_count += 1
        span.texts_size += name_size + value_size
        return True

    def _has_property(self, span: MessageSpan, name: bytes) -> bool:
        place, end = span.first_property, i64(len(self.properties))
        while place < end:
            begin, size = self.properties[place], self.properties[place + 1]
            if size == len(name) and self.raw[begin : begin + size] == name:
                return True
            place += PROPERTY_WIDTH
        return False


def take_host(span: MessageSpan, text: bytes) -> bool:
    """Takes the address that a message was born at; returns whether it is one."""
    try:
        span.host = host_from_text(text.decode())
    except ValueError:
        return False
    return True
