"""A half message that PocketMQ stored, parsed in place: the fields that a decision needs.

This parser accepts only plain half messages, as PocketMQ stores them: `read` and `_take`
contain the conditions. `half_message.py` parses all others.
"""

from typing import Final, final

from pocketmq.format.plain_text import text_hash
from pocketmq.format.properties import PropertyCursor, find_byte
from pocketmq.format.record import MAGIC_V1, topic_field
from pocketmq.model.decimal import number_in
from pocketmq.model.message import FLAG_BORN_HOST_V6, FLAG_STORE_HOST_V6, INT32_MAX
from pocketmq.model.topic import HALF_TOPIC
from pocketmq.native.machine import BytesWriter, append, i64, read_i32_be, read_i64_be, vec

TEXT_SIZE_MAX: Final = 255
SIZE_MIN: Final = 48 + 8 + 8 + 8 + 16
"""Size of a head with IPv4 hosts, bytes."""
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_TOPIC: Final = topic_field(HALF_TOPIC)
_WIDER: Final = 12
_GROUP: Final = b"PGROUP"
_REAL_TOPIC: Final = b"REAL_TOPIC"
_REAL_QUEUE: Final = b"REAL_QID"
_UNIQUE_KEY: Final = b"UNIQ_KEY"
_KEYS: Final = b"KEYS"
_TAGS: Final = b"TAGS"
_FIRST: Final = b"TRAN_PREPARED_QUEUE_OFFSET"
_CRC: Final = b"__CRC32#"
_DELAYING: Final = frozenset({b"DELAY", b"TIMER_DELIVER_MS", b"TIMER_DELAY_MS", b"TIMER_DELAY_SEC"})


@final
class HalfRecord:
    """One half message.

    store_host_at, body_begin, body_end   positions in `raw`; the body's size precedes body_begin
    block          property block of the committed message
    real_topic     target topic; empty if the half message names none
    real_queue_id  target queue
    key_hashes     unsigned String.hashCode and size of the unique key, then of each key
    tag_hash, tag_size   unsigned String.hashCode and size of the tag; 0 without a tag
    """

    __slots__ = (
        "_block", "block", "body_begin", "body_end", "group", "is_odd", "key", "key_hashes", "raw",
        "real_queue_id", "real_topic", "store_host_at", "store_ms", "system_flag", "tag_hash",
        "tag_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self._block = BytesWriter()
        self.raw = b""
        self._clear()

    def _clear(self) -> None:
        self.block = self.group = self.key = self.real_topic = b""
        self.real_queue_id: i64 = -1
        self.key_hashes: vec[i64] = vec[i64]()
        self.tag_hash: i64 = 0
        self.tag_size: i64 = 0
        self.is_odd = False

    def read(self, raw: bytes, at: i64, place: i64) -> bool:
        """Parses a record; returns whether it is a plain half message at this position.

        at      queue offset that the record must have
        place   physical offset that the record must have
        Cost    about 1.5 µs when compiled
        """
        self._clear()
        self.raw = raw
        end: i64 = len(raw)
        if end < SIZE_MIN or i64(read_i32_be(raw, 0)) != end or read_i32_be(raw, 4) != _MAGIC:
            return False
        if read_i64_be(raw, 20) != at or read_i64_be(raw, 28) != place:
            return False
        self.system_flag: i64 = i64(read_i32_be(raw, 36))
        self.store_host_at: i64 = 48 + 8 + 8
        if self.system_flag & FLAG_BORN_HOST_V6:
            self.store_host_at += _WIDER
        position = self.store_host_at + 8
        if self.system_flag & FLAG_STORE_HOST_V6:
            position += _WIDER
        position += 4 + 8 + 4
        if position > end:
            return False
        self.store_ms: i64 = read_i64_be(raw, self.store_host_at - 8)
        body_size: i64 = i64(read_i32_be(raw, position - 4))
        if body_size < 0 or body_size > end - position:
            return False
        self.body_begin: i64 = position
        self.body_end: i64 = position + body_size
        position = self.body_end
        field_end = position + len(_TOPIC)
        if end - field_end < 2 or raw[position:field_end] != _TOPIC:
            return False
        size: i64 = raw[field_end] << 8 | raw[field_end + 1]
        return end - field_end - 2 == size and self._read_block(field_end + 2, end)

    def _read_block(self, position: i64, end: i64) -> bool:
        raw, out = self.raw, self._block
        out.truncate(0)
        pairs = PropertyCursor(raw, position, end)
        kept_from = position
        while pairs.step() and pairs.is_whole:
            if not self._take(pairs):
                if self.is_odd:
                    return False
                if kept_from < pairs.name_begin:
                    out.write(raw[kept_from : pairs.name_begin])
                kept_from = pairs.value_end + 1
        if not pairs.is_whole:
            return False
        if kept_from < end:
            out.write(raw[kept_from:end])
        self.block = out.getvalue()
        assert len(self.block) <= end
        return True

    def _take(self, pair: PropertyCursor) -> bool:
        """Parses a property; returns whether the committed message has it.

        Effects  sets `is_odd` if the property is unusual
        """
        raw = self.raw
        name = pair.name()
        size: i64 = len(name)
        begin: i64 = pair.name_end + 1
        end = pair.value_end
        if size == 4 and name == _TAGS:
            self.is_odd = self.tag_size > 0 or end - begin > TEXT_SIZE_MAX
            self.tag_hash, self.tag_size = text_hash(raw, begin, end, 0), end - begin
            self.is_odd = self.is_odd or self.tag_hash < 0
        elif size == 4 and name == _KEYS:
            self.is_odd = len(self.key_hashes) != 2 or not self._take_keys(begin, end)
        elif size == 6 and name == _GROUP:
            self.is_odd = len(self.group) > 0
            self.group = pair.value()
        elif size == 8 and name == _UNIQUE_KEY:
            self.is_odd = len(self.key_hashes) > 0 or not self._take_keys(begin, end)
            self.is_odd = self.is_odd or len(self.key_hashes) != 2
            self.key = pair.value()
        elif size == 8 and name == _REAL_QUEUE:
            self.is_odd = self.real_queue_id >= 0
            queue_id = number_in(raw, begin, end)
            self.real_queue_id = queue_id if queue_id <= INT32_MAX else -1
            return False
        elif size == 10 and name == _REAL_TOPIC:
            self.is_odd = len(self.real_topic) > 0
            self.real_topic = pair.value()
            return False
        elif name in (_FIRST, _CRC):
            return False
        elif name in _DELAYING:
            self.is_odd = True
        return not self.is_odd

    def _take_keys(self, position: i64, end: i64) -> bool:
        """Hashes keys separated by single spaces; returns whether they are plain."""
        raw = self.raw
        while position <= end:
            key_end = find_byte(raw, 0x20, position, end)
            hashed = text_hash(raw, position, key_end, 0)
            if key_end == position or key_end - position > TEXT_SIZE_MAX or hashed < 0:
                return False
            self.key_hashes = append(append(self.key_hashes, hashed), key_end - position)
            position = key_end + 1
        return True
