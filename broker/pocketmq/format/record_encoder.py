"""From the places of a plain request (send_request.py) to bytes: records, units, entries.

    SendRequest ─┬─► records          one behind the other, as they go into the log
                 ├─► units, entries   what queues and index get (Written)
                 └─► reply            send_reply.py

All bytes are those that encode_records and index_entries make of the same messages.
"""

from typing import Final, final

from pocketmq.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE, offset_message_id
from pocketmq.format.java_hash import WRAP, java_hash
from pocketmq.format.layout import CRC_MASK, crc32
from pocketmq.format.record import MAGIC_V1, RECORD_HEAD, TOPIC_LENGTH_MAX_V1, topic_field
from pocketmq.format.send_request import (
    KEY_WIDTH,
    PROPERTY_WIDTH,
    TEXT_SIZE_MAX,
    MessageSpan,
    SendRequest,
)
from pocketmq.model.batch import Destination
from pocketmq.model.message import FLAG_BORN_HOST_V6, FLAG_STORE_HOST_V6, QueueKey
from pocketmq.native.machine import BytesWriter, i32, i64, u8, vec, write_i32_be, write_i64_be

MADE_ID_SIZE: Final = 32
"""Characters of an id that the broker makes: a stamp, and COUNTER_DIGITS."""
COUNTER_DIGITS: Final = 4
PLACE_DIGITS: Final = 16
"""Hexadecimal digits of a physical offset at the end of an offset message id."""
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_HEAD_SIZE: Final = RECORD_HEAD.size - 2 * IPV4_HOST_SIZE
_ID: Final = b"UNIQ_KEY\x01"
_KEYS: Final = b"KEYS\x01"
_TAGS: Final = b"TAGS\x01"
_NOTHING_YET: Final = bytes(4) + bytes(8)
"""Reconsume times and prepared offset."""
_WORD: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


@final
class TopicFrame:
    """Data shared by all records and replies of one topic, and its recent send count.

    destinations, queues   one for each queue, and its name in tables
    before_id              what the block of a half message has before its id, empty for others;
                           before_queue: between that and the queue it is for
    digits_max             of the number of that queue
    flags                  the system flag of each record, but for the sender's address
    """

    __slots__ = (
        "before_id", "before_queue", "destinations", "digits_max", "field", "flags", "is_tagged",
        "key_prefix", "powers", "queues", "reply_head", "reply_host", "store_flags", "store_host",
        "tag_prefix", "tail", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        queue_count: int,
        *,
        store_host: bytes,
        tail: bytes,
        is_tagged: bool,
        real: QueueKey | None = None,
        group: str = "",
        system_flag: int = 0,
    ) -> None:
        """Takes what is the same for all.

        real    of half messages: the topic they are for, and how many queues it has
        group   of their producers
        system_flag   of its messages, as views get them
        """
        assert topic.isascii()
        assert len(topic) <= TOPIC_LENGTH_MAX_V1
        assert (real is not None) == bool(group)
        asked = topic if real is None else real[0]
        self.reply_head = b"\x0a" + _sized(asked.encode()) + b"\x12"
        self.before_id = self.before_queue = b""
        self.digits_max: i64 = 0
        if real is not None:
            said = f"PGROUP\x01{group}\x02TRAN_MSG\x01true\x02__transactionId__\x01"
            self.before_id = said.encode()
            self.before_queue = f"\x02REAL_TOPIC\x01{asked}\x02REAL_QID\x01".encode()
            self.digits_max = len(str(real[1] - 1))
            tail = b"\x02" + tail
        self.topic = topic
        self.destinations = [
            Destination(topic, n, store_host, system_flag) for n in range(queue_count)
        ]
        self.queues: list[QueueKey] = [(topic, n) for n in range(queue_count)]
        self.store_host = store_host
        self.store_flags: i64 = FLAG_STORE_HOST_V6 if len(store_host) == IPV6_HOST_SIZE else 0
        self.flags: i64 = self.store_flags | system_flag
        self.field = topic_field(topic) + bytes(2)
        self.tail = tail
        self.is_tagged = is_tagged
        self.key_prefix: i64 = java_hash(f"{topic}#") & WRAP
        self.tag_prefix: i64 = java_hash(f"{topic}#T#") & WRAP
        self.powers = vec[i64]([pow(31, size, 1 << 32) for size in range(TEXT_SIZE_MAX + 1)])
        offset_id = offset_message_id(store_host, 0).encode()
        self.reply_host = b"\x1a" + bytes((len(offset_id),)) + offset_id[:-PLACE_DIGITS]


def _sized(text: bytes) -> bytes:
    assert len(text) < 0x80
    return bytes((len(text),)) + text


@final
class RecordEncoder:
    """Makes the bytes of one request after another; those of the one before are gone then.

    sizes, places, codes   bytes, physical offset and tags code of each record
    units, entries         as in `Written`
    told_queue_id          the queue that the messages are for
    """

    __slots__ = (
        "_digits", "_entries", "_records", "_units", "codes", "frame", "places", "queue_id",
        "queue_offset", "request", "size_sum", "sizes", "time_ms", "told_queue_id",
    )  # fmt: skip

    def __init__(self, request: SendRequest) -> None:
        self.request = request
        self.frame: TopicFrame | None = None
        self._records = BytesWriter()
        self._units = BytesWriter()
        self._entries = BytesWriter()
        self.sizes: list[int] = []
        self.places: list[int] = []
        self.codes: list[int] = []
        self.size_sum: i64 = 0
        self.queue_id: i64 = 0
        self.told_queue_id: i64 = 0
        self._digits = b""
        self.queue_offset: i64 = 0
        self.time_ms: i64 = 0

    @property
    def units(self) -> bytes:
        """The consume units of all records."""
        return self._units.getvalue()

    @property
    def entries(self) -> bytes:
        """The index entries of all records."""
        return self._entries.getvalue()

    def fit(self, frame: TopicFrame, peer_host: bytes, now_ms: i64, block_size_max: i64) -> bool:
        """Takes the request that was read; returns whether all property blocks are small enough.

        peer_host   packed address of the sender, for messages that name none
        now_ms      the time of messages that name none
        """
        request = self.request
        self.frame = frame
        around: i64 = len(_ID) + len(request.id_end) + len(frame.tail)
        around += len(frame.before_id) + len(frame.before_queue) + frame.digits_max
        around += len(request.order)
        is_half = len(frame.before_id) > 0
        fixed: i64 = _HEAD_SIZE + len(frame.store_host) + len(frame.field)
        size_sum: i64 = 0
        sizes: list[int] = []
        number: i64 = 0
        while number < request.count:
            span = request.spans[number]
            number += 1
            block = around + span.texts_size + 2 * span.property_count + len(span.note)
            id_size: i64 = len(span.identity) if span.identity else MADE_ID_SIZE
            block += 2 * id_size if is_half else id_size
            if span.key_count:
                block += len(_KEYS) + span.key_count
            if span.tag_size:
                block += len(_TAGS) + span.tag_size + 1
            if block > block_size_max:
                return False
            if not span.host:
                span.host = peer_host
            if not span.born_ms:
                span.born_ms = now_ms
            size = fixed + len(span.host) + span.body_size + block
            size_sum += size
            sizes.append(size)
        self.sizes = sizes
        self.size_sum = size_sum
        return True

    def aim(self, queue_id: i64) -> None:
        """Aims the messages, which fit, at a queue of their topic."""
        frame = self.frame
        assert frame is not None
        self.told_queue_id = queue_id
        if not len(frame.before_id):
            return
        self._digits = b"%d" % queue_id
        missing: i64 = frame.digits_max - len(self._digits)
        assert missing >= 0, "the topic has this queue"
        if missing:
            self.sizes = [size - missing for size in self.sizes]
            self.size_sum -= missing * len(self.sizes)

    def name(self, stamp: bytes, counter: i64) -> None:
        """Gives ids to messages without one: the stamp, and the counter, which goes on."""
        assert len(stamp) == MADE_ID_SIZE - COUNTER_DIGITS
        hashed = hash_on(0, stamp)
        request = self.request
        number: i64 = 0
        while number < request.count:
            span = request.spans[number]
            number += 1
            if not span.identity:
                counter = (counter + 1) & 0xFFFF
                digits = b"%04X" % counter
                span.identity = stamp + digits
                span.id_hash = hash_on(hashed, digits)

    def encode(self, queue_id: i64, queue_offset: i64, place: i64, time_ms: i64) -> bytes:
        """Returns the records of the request, the first of which goes to `place`.

        Shape    `fit` returned True, and every message has an id
        Effects  places, codes, units and entries are theirs from now on
        Cost     about 0.6 µs a record and the CRC of its body when compiled
        Source   MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend
        """
        request, frame = self.request, self.frame
        assert frame is not None
        self.queue_id, self.queue_offset, self.time_ms = queue_id, queue_offset, time_ms
        out, units, entries = self._records, self._units, self._entries
        out.truncate(0)
        units.truncate(0)
        entries.truncate(0)
        places: list[int] = []
        codes: list[int] = []
        number: i64 = 0
        while number < request.count:
            span = request.spans[number]
            size: i64 = self.sizes[number]
            places.append(place)
            self._write_head(out, span, size, place)
            field_end: i64 = len(out)
            self._write_block(out, span)
            block: i64 = len(out) - field_end
            out[field_end - 2] = u8(block >> 8)
            out[field_end - 1] = u8(block & 0xFF)
            code: i64 = span.tag_hash
            if code & _HALF:
                code -= _WORD + 1
            codes.append(code)
            write_i64_be(units, place)
            write_i32_be(units, i32(size))
            write_i64_be(units, code)
            self._write_entries(entries, span, place)
            number += 1
            self.queue_offset += 1
            place += size
        self.queue_offset = queue_offset
        self.places, self.codes = places, codes
        assert len(out) == self.size_sum
        return out.getvalue()

    def _write_head(self, out: BytesWriter, span: MessageSpan, size: i64, place: i64) -> None:
        """Writes the bytes before the property block; its size is zero yet."""
        frame = self.frame
        assert frame is not None
        host = span.host
        flags = frame.flags | (FLAG_BORN_HOST_V6 if len(host) == IPV6_HOST_SIZE else 0)
        begin = span.body_begin
        body = self.request.raw[begin : begin + span.body_size]
        crc: i64 = crc32(body)
        write_i32_be(out, i32(size))
        write_i32_be(out, _MAGIC)
        write_i32_be(out, i32(crc & CRC_MASK))
        write_i32_be(out, i32(self.queue_id))
        write_i32_be(out, i32(span.flag))
        write_i64_be(out, self.queue_offset)
        write_i64_be(out, place)
        write_i32_be(out, i32(flags))
        write_i64_be(out, span.born_ms)
        out.write(host)
        write_i64_be(out, self.time_ms)
        out.write(frame.store_host)
        out.write(_NOTHING_YET)
        write_i32_be(out, i32(span.body_size))
        out.write(body)
        out.write(frame.field)

    def _write_block(self, out: BytesWriter, span: MessageSpan) -> None:
        request, frame = self.request, self.frame
        assert frame is not None
        raw = request.raw
        out.write(_ID)
        out.write(span.identity)
        out.write(request.id_end)
        if span.key_count:
            out.write(_KEYS)
            place: i64 = span.first_key
            end = place + span.key_count * KEY_WIDTH
            while place < end:
                begin = request.keys[place]
                out.write(raw[begin : begin + request.keys[place + 1]])
                place += KEY_WIDTH
                out.append(u8(0x20 if place < end else 2))
        if span.tag_size:
            out.write(_TAGS)
            out.write(raw[span.tag_begin : span.tag_begin + span.tag_size])
            out.append(2)
        out.write(request.order)
        place = span.first_property
        end = place + span.property_count * PROPERTY_WIDTH
        while place < end:
            begin = request.properties[place]
            out.write(raw[begin : begin + request.properties[place + 1]])
            out.append(1)
            begin = request.properties[place + 2]
            out.write(raw[begin : begin + request.properties[place + 3]])
            out.append(2)
            place += PROPERTY_WIDTH
        out.write(span.note)
        if len(frame.before_id):
            out.write(frame.before_id)
            out.write(span.identity)
            out.write(frame.before_queue)
            out.write(self._digits)
        out.write(frame.tail)

    def _write_entries(self, entries: BytesWriter, span: MessageSpan, place: i64) -> None:
        """Writes what the record is indexed under: its id, its keys, in the 5.5 style its tag."""
        frame, keys = self.frame, self.request.keys
        assert frame is not None
        powers, prefix = frame.powers, frame.key_prefix
        hashed = span.id_hash + prefix * powers[len(span.identity)]
        write_entry(entries, hashed, place, self.time_ms)
        key = span.first_key
        end = key + span.key_count * KEY_WIDTH
        while key < end:
            hashed = keys[key + 2] + prefix * powers[keys[key + 1]]
            write_entry(entries, hashed, place, self.time_ms)
            key += KEY_WIDTH
        if span.tag_size and frame.is_tagged:
            hashed = span.tag_hash + frame.tag_prefix * powers[span.tag_size]
            write_entry(entries, hashed, place, self.time_ms)


def write_entry(entries: BytesWriter, hashed: i64, place: i64, time_ms: i64) -> None:
    """Writes an index entry; the hash is any number of which the low 32 bits count."""
    hashed &= _WORD
    if hashed > _HALF:
        hashed = _WORD + 1 - hashed
    elif hashed == _HALF:
        hashed = 0
    write_i32_be(entries, i32(hashed))
    write_i64_be(entries, place)
    write_i64_be(entries, time_ms)


def hash_on(value: i64, text: bytes) -> i64:
    """Returns the unsigned hash of a text behind one of this hash."""
    place: i64 = 0
    while place < len(text):
        byte: i64 = text[place]
        value = (31 * value + byte) & _WORD
        place += 1
    return value
