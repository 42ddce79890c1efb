"""Positions of the parts of a plain SendMessageRequest in its bytes.

Nearly all requests are plain. The texts of a plain request are printable ASCII that
`model/names.py` accepts. All its messages have the same topic, the same queue or none, and the same
message group or none. Either all or none are half messages, and either all or none are compressed.
The codecs of v1, v2 and classic clients parse plain requests into this form. Other parsers read all
other requests, including those that are refused.
"""

from typing import Final, final

from pocketmq.format.addresses import host_from_text
from pocketmq.format.plain_text import is_printable, text_hash
from pocketmq.model.message import RESERVED_PROPERTIES, SHARDING_KEY
from pocketmq.native.machine import append, i64, vec

MESSAGES_MAX: Final = 1_024
"""Upper limit of messages in one request; if it is not plain, they take 10 ms of the event loop."""
FIELDS_MAX: Final = 32_768
"""Upper limit of keys and properties in a plain request, and of fields in any other request."""
TEXT_SIZE_MAX: Final = 255
"""Longest plain key, tag or id, in bytes: RocketMQ's limit of an id."""
PROPERTIES_MAX: Final = 32
"""Upper limit of a plain message's properties: each name is compared with all earlier names."""
WAIT: Final = b"\x02WAIT\x01true\x02"
NO_WAIT: Final = b"\x02WAIT\x01false\x02"
ABSENT: Final = -1
KEY_WIDTH: Final = 3
"""Numbers stored for a key: its position, size and hash."""
PROPERTY_WIDTH: Final = 4
"""Numbers stored for a property: position and size of its name, position and size of its value."""
_RESERVED: Final = frozenset(name.encode() for name in RESERVED_PROPERTIES)
_TIMER: Final = b"TIMER_"

_ORDER: Final = f"{SHARDING_KEY}\x01".encode()
_END: Final = b"\x02"
_BAR: Final = 0x7C


@final
class MessageSpan:
    """Positions of the parts of one message in its request; absent parts have size 0.

    first_key        index of the message's first number in the request's `keys`
    first_property   index of the message's first number in the request's `properties`
    tag_hash, id_hash   String.hashCode, unsigned
    texts_size       bytes of all keys, property names and property values
    host             packed born host; empty: the sender's address
    identity         the message id, given by the producer or made by the broker
    note             bytes of the property block that follow the user's properties
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
        """Clears all fields, and sets where the message's keys and properties begin."""
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
    """The messages of a request; `begin` starts the next request.

    messages_max    upper limit of messages in a plain request
    count           number of messages
    waits           whether the reply waits until the flush mode's guarantee holds
    has_blocks      whether the note of each span is the whole property block but for the broker's
                    properties; keys, tags and ids are then only indexed
    id_end          bytes that follow the id in each property block
    queue_id        queue of all messages; ABSENT: the request names no queue
    bodies_size     bytes of all bodies
    unnamed_count   number of messages without an id
    is_half         whether all messages are half messages; False: no message is one
    group           producer group of half messages; empty: the topic serves as the group
    message_group   message group of all messages; empty if they have none
    order           the message group as a property of each block
    order_hash      String.hashCode of the message group, unsigned
    is_compressed   whether the producer compressed all bodies; False: it compressed no body
    keys            KEY_WIDTH numbers for each key of all messages
    properties      PROPERTY_WIDTH numbers for each property of all messages
    """

    __slots__ = (
        "bodies_size", "count", "group", "has_blocks", "id_end", "is_compressed", "is_half", "keys",
        "message_group", "messages_max", "order", "order_hash", "properties", "queue_id", "raw",
        "spans", "topic", "unnamed_count", "waits",
    )  # fmt: skip

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        assert 0 < messages_max <= MESSAGES_MAX
        self.messages_max: i64 = messages_max
        self.raw = b""
        self.topic = b""
        self.waits = True
        self.has_blocks = False
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
        """Starts a request, which has no message yet."""
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
        """Returns the cleared span of the next message."""
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
        """Counts a message whose parts were set; returns whether the request is still plain.

        It is not plain if the message differs from earlier messages, or if there are more than
        FIELDS_MAX keys and properties.
        """
        assert span.body_size > 0, "message without a body"
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
        """Sets the topic; returns whether it equals the topic of the earlier messages."""
        if not self.count:
            self.topic = topic
            return True
        return topic == self.topic

    def take_body(self, span: MessageSpan, begin: i64, size: i64) -> None:
        """Sets the position and size of the body."""
        span.body_begin, span.body_size = begin, size
        self.bodies_size += size

    def take_id(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Sets the id; returns whether it is plain."""
        if size > TEXT_SIZE_MAX:
            return False
        span.id_hash = text_hash(self.raw, begin, begin + size, 0)
        span.identity = self.raw[begin : begin + size]
        return span.id_hash >= 0

    def take_key(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Adds a key; returns whether it is plain."""
        if size > TEXT_SIZE_MAX:
            return False
        hashed = text_hash(self.raw, begin, begin + size, 0)
        self.keys = append(append(append(self.keys, begin), size), hashed)
        span.key_count += 1
        span.texts_size += size
        return hashed >= 0

    def take_tag(self, span: MessageSpan, begin: i64, size: i64) -> bool:
        """Sets the tag; returns whether it is plain."""
        if size > TEXT_SIZE_MAX:
            return False
        span.tag_begin, span.tag_size = begin, size
        span.tag_hash = text_hash(self.raw, begin, begin + size, _BAR)
        return span.tag_hash >= 0

    def take_property(
        self, span: MessageSpan, name: i64, name_size: i64, value: i64, value_size: i64
    ) -> bool:
        """Adds a property, given the positions of its name and value; returns whether it is plain.

        A name is not plain if it is repeated, reserved, or begins with TIMER_. At most
        PROPERTIES_MAX properties are plain.
        """
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
    """Sets a message's born host; returns whether the text is a valid address."""
    try:
        span.host = host_from_text(text.decode())
    except ValueError:
        return False
    return True
