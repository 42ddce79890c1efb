"""Encodes a plain request (send_request.py): records, consume units, index entries.

The bytes equal those that encode_records and index_entries make of the same messages.
"""

from typing import Final, final

from pocketmq.format.addresses import IPV6_HOST_SIZE
from pocketmq.format.layout import crc32
from pocketmq.format.put_records import (
    HEAD_SIZE,
    PlainRecords,
    hash_on,
    write_block_size,
    write_entry,
    write_head,
)
from pocketmq.format.send_request import (
    KEY_WIDTH,
    PROPERTY_WIDTH,
    MessageSpan,
    SendRequest,
)
from pocketmq.format.topic_frame import TopicFrame
from pocketmq.model.message import FLAG_BORN_HOST_V6, QueueKey
from pocketmq.native.machine import BytesWriter, i32, i64, u8, write_i32_be

MADE_ID_SIZE: Final = 32
"""Characters of an id that the broker makes: a stamp, and COUNTER_DIGITS digits."""
COUNTER_DIGITS: Final = 4
_ID: Final = b"UNIQ_KEY\x01"
_KEYS: Final = b"KEYS\x01"
_TAGS: Final = b"TAGS\x01"
_NOTHING_YET: Final = bytes(4) + bytes(8)


@final
class SendRecords(PlainRecords):
    """Encodes the messages of one plain request after another, each for one queue.

    frame           frame of the topic
    sizes, places   size and physical offset of each record
    target_queue_id   target queue of the messages; half messages are stored in another queue
    """

    __slots__ = (
        "_digits",
        "_queue_id",
        "frame",
        "places",
        "queue_offset",
        "request",
        "sizes",
        "target_queue_id",
        "time_ms",
    )  # fmt: skip

    def __init__(self, request: SendRequest) -> None:
        super().__init__()
        self.request = request
        self.frame: TopicFrame | None = None
        self.sizes: list[int] = []
        self.places: list[int] = []
        self._queue_id: i64 = 0
        self.target_queue_id: i64 = 0
        self._digits = b""
        self.queue_offset: i64 = 0
        self.time_ms: i64 = 0

    def fit(self, frame: TopicFrame, peer_host: bytes, now_ms: i64, block_size_max: i64) -> bool:
        """Prepares the parsed request; returns whether all property blocks are small enough.

        peer_host   packed address of the sender, for messages without a born host
        now_ms      born time of messages without a born time
        """
        request = self.request
        self.frame = frame
        around: i64 = len(_ID) + len(request.id_end) + len(frame.tail)
        around += len(frame.before_id) + len(frame.before_queue) + frame.digits_max
        around += len(request.order)
        is_half = len(frame.before_id) > 0
        fixed: i64 = HEAD_SIZE + len(frame.store_host) + len(frame.field)
        size_sum: i64 = 0
        sizes: list[int] = []
        number: i64 = 0
        while number < request.count:
            span = request.spans[number]
            number += 1
            if request.has_blocks:
                block: i64 = len(span.note) + len(frame.tail)
            else:
                block = around + _texts_size(span, is_half)
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
        self.written = []
        return True

    def aim(self, queue_id: i64) -> None:
        """Sets the target queue of the messages; `fit` must have returned True."""
        frame = self.frame
        assert frame is not None
        self.target_queue_id = self._queue_id = queue_id
        if not len(frame.before_id):
            return
        self._queue_id = 0
        self._digits = b"%d" % queue_id
        missing: i64 = frame.digits_max - len(self._digits)
        assert missing >= 0, "queue id exceeds the topic's queues"
        if missing:
            self.sizes = [size - missing for size in self.sizes]
            self.size_sum -= missing * len(self.sizes)

    def name(self, stamp: bytes, counter: i64) -> None:
        """Gives ids to messages without an id: the stamp and an increasing counter."""
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

    def _write_all(
        self, next_offsets: dict[QueueKey, int], place: i64, now_ms: i64, time_ms: i64
    ) -> None:
        """Writes the request's records; `fit` returned True, and every message has an id.

        Cost     about 0.6 µs a record and the CRC of its body when compiled
        Source   MessageExtEncoder.encode, DefaultAppendMessageCallback.doAppend
        """
        request, frame = self.request, self.frame
        assert frame is not None
        self.time_ms = time_ms
        first_offset: i64 = next_offsets.get(frame.queues[self._queue_id], 0)
        out, entries = self._records, self._entries
        self._begin_run(self.sizes)
        number: i64 = 0
        while number < request.count:
            span = request.spans[number]
            size: i64 = self.sizes[number]
            self.queue_offset = first_offset + number
            self._write_head(out, span, size, place)
            field_end: i64 = len(out)
            self._write_block(out, span)
            write_block_size(out, field_end)
            self._join_run(place, size, span.tag_hash)
            self._write_entries(entries, span, place)
            number += 1
            place += size
        self.queue_offset = first_offset
        self.places = self._places
        self._end_run(frame, self._queue_id, first_offset, time_ms)

    def advance(self, next_offsets: dict[QueueKey, int]) -> None:
        """Sets the queue's next offset, see `PutRecords.advance`; this run needs no `taken`."""
        frame = self.frame
        assert frame is not None
        next_offset: i64 = self.queue_offset + len(self.places)
        next_offsets[frame.queues[self._queue_id]] = next_offset

    def _write_head(self, out: BytesWriter, span: MessageSpan, size: i64, place: i64) -> None:
        frame = self.frame
        assert frame is not None
        host = span.host
        flags = frame.flags | (FLAG_BORN_HOST_V6 if len(host) == IPV6_HOST_SIZE else 0)
        begin = span.body_begin
        body = self.request.raw[begin : begin + span.body_size]
        write_head(
            out, size, i64(crc32(body)), self._queue_id, span.flag, self.queue_offset, place, flags,
            span.born_ms, host, self.time_ms, frame.store_host,
        )  # fmt: skip
        out.write(_NOTHING_YET)
        write_i32_be(out, i32(span.body_size))
        out.write(body)
        out.write(frame.field)

    def _write_block(self, out: BytesWriter, span: MessageSpan) -> None:
        request, frame = self.request, self.frame
        assert frame is not None
        if request.has_blocks:
            out.write(span.note)
            out.write(frame.tail)
            return
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


def _texts_size(span: MessageSpan, is_half: bool) -> i64:
    """Returns the bytes of a property block that depend on its message."""
    size = span.texts_size + 2 * span.property_count + len(span.note)
    id_size: i64 = len(span.identity) if span.identity else MADE_ID_SIZE
    size += 2 * id_size if is_half else id_size
    if span.key_count:
        size += len(_KEYS) + span.key_count
    if span.tag_size:
        size += len(_TAGS) + span.tag_size + 1
    return size
