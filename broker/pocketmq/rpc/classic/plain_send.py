"""Parses plain sends of classic clients in place: 310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE.

A request is a plain send if `FrameHeader` can parse its header, its fields all have the short names
a to n of SEND_MESSAGE_V2, and its system flag is 0. Each message must have a body, a unique key,
and only printable ASCII in its properties. No property may request a delay, a priority or a
transaction, or be one that only the broker sets. `ClassicSend` serves all other sends.
"""

from typing import Final, final

from pocketmq.format.plain_text import has_backslash, is_printable, text_hash
from pocketmq.format.send_request import TEXT_SIZE_MAX, MessageSpan, SendRequest
from pocketmq.model import message as names
from pocketmq.model.decimal import number_in
from pocketmq.native.four_bytes import FROM_THREE, HIGH_BITS, STEP, WORD
from pocketmq.native.machine import append, i64, read_i16_be, read_i32_be
from pocketmq.rpc.classic.message_text import SET_BY_BROKER
from pocketmq.wire.remoting_header import FrameHeader

SEND_V2: Final = 310
SEND_BATCH: Final = 320
BLOCK_SIZE_MAX: Final = 32 * 1024
_ROW_SIZE: Final = 20
_INT32_MAX: Final = 0x7FFF_FFFF
_BAR: Final = 0x7C
_OTHERS: Final = frozenset(
    name.encode()
    for name in SET_BY_BROKER
    | {
        names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS, names.DELIVER_AT,
        names.PRIORITY, names.IS_TRANSACTIONAL, names.PRODUCER_GROUP, names.CHECK_IMMUNITY_SECONDS,
    }
)  # fmt: skip
_OWN_KEY: Final = f"\x02{names.UNIQUE_KEY}\x01".encode()
_LETTER_A: Final = 0x61
_LETTERS: Final = 14
"""Number of the short names, from a to n."""
_GROUP: Final = 0
_TOPIC: Final = 1
_QUEUE_COUNT: Final = 3
_QUEUE_ID: Final = 4
_SYSTEM_FLAG: Final = 5
_BORN_MS: Final = 6
_FLAG: Final = 7
_BLOCK: Final = 8
_IS_BATCH: Final = 12
"""Numbers of the letters, from a on, that are the names of needed fields."""
_TRUE: Final = b"true"
_OTHER: Final = 0
_UNIQUE_KEY: Final = 1
_KEYS: Final = 2
_TAGS: Final = 3
_WAIT: Final = 4
"""Kinds of properties."""
assert (names.UNIQUE_KEY, names.KEYS, names.TAGS, names.WAIT) == (
    "UNIQ_KEY",
    "KEYS",
    "TAGS",
    "WAIT",
)


@final
class SendHeader(FrameHeader):
    """Header of a send; -1 stands for a number that is missing or damaged.

    block     property block of the message, or of the batch as a whole
    given     bits of the given fields: bit 0 for a
    is_plain  whether system flag and `is_batch` are usual
    """

    __slots__ = (
        "block", "born_ms", "given", "is_batch", "is_plain", "message_flag", "queue_count",
        "queue_id", "topic",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.given: i64 = 0
        self.topic = b""
        self.block = b""
        self.queue_id: i64 = -1
        self.born_ms: i64 = -1
        self.message_flag: i64 = 0
        self.queue_count: i64 = 0
        self.is_batch = False
        self.is_plain = True

    def _clear_fields(self) -> None:
        self.given = self.message_flag = self.queue_count = 0
        self.queue_id = self.born_ms = -1
        self.topic = self.block = b""
        self.is_batch, self.is_plain = False, True

    def has(self, field: i64) -> bool:
        """Returns whether a field was given."""
        return self.given >> field & 1 != 0

    def _take_field(
        self, raw: bytes, name: i64, name_end: i64, text: bytes, begin: i64, end: i64
    ) -> bool:
        assert begin <= end, "a field ends before it begins"
        if name_end - name != 1:
            return False
        field: i64 = raw[name] - _LETTER_A
        if field < 0 or field >= _LETTERS or self.has(field):
            return False
        self.given |= 1 << field
        if field == _TOPIC:
            self.topic = text[begin:end]
        elif field == _BLOCK:
            self.block = text if end - begin == len(text) else text[begin:end]
        elif field == _QUEUE_ID:
            self.queue_id = number_in(text, begin, end)
        elif field == _BORN_MS:
            self.born_ms = number_in(text, begin, end)
        elif field == _FLAG:
            self.message_flag = number_in(text, begin, end)
        elif field == _QUEUE_COUNT:
            self.queue_count = number_in(text, begin, end)
        elif field == _SYSTEM_FLAG:
            if end - begin != 1 or text[begin] != 0x30:
                self.is_plain = False
        elif field == _IS_BATCH:
            given = text[begin:end]
            self.is_batch = given == _TRUE
            if not self.is_batch and given != b"false":
                self.is_plain = False
        return True


@final
class ClassicSendRequest:
    """Parses one request after another into `request` and `header`.

    is_batch   whether the body contains several messages with their properties
    identity   unique key of the message, or of the batch as a whole; empty: the batch has none
    """

    __slots__ = ("_has_keys", "_has_wait", "_keys_end", "header", "identity", "is_batch", "request")

    def __init__(self, request: SendRequest) -> None:
        self.request = request
        request.has_blocks = True
        self.header = SendHeader()
        self.is_batch = False
        self.identity = b""
        self._has_keys = False
        self._has_wait = False

    def read(self, raw: bytes) -> bool:
        """Parses a frame; returns whether it is a plain send.

        Cost     about 2 µs for one message of four properties when compiled
        """
        header, request = self.header, self.request
        if not header.read(raw) or header.flag or header.code not in (SEND_V2, SEND_BATCH):
            return False
        self.is_batch = header.is_batch or header.code == SEND_BATCH
        request.begin(raw)
        topic, flag, queue_count = header.topic, header.message_flag, header.queue_count
        queue_id, born_ms = header.queue_id, header.born_ms
        if queue_id < 0 or queue_id > _INT32_MAX or born_ms < 0 or not header.has(_GROUP):
            return False
        if not header.is_plain or not header.has(_SYSTEM_FLAG):
            return False
        if not len(topic) or not is_printable(topic, 0, len(topic)):
            return False
        if flag < 0 or flag > _INT32_MAX or queue_count < 0 or queue_count > _INT32_MAX:
            return False
        request.take_topic(topic)
        block = header.block
        if self.is_batch:
            return self._take_own(block) and self._read_rows(raw, queue_id, born_ms)
        body_begin = header.body_begin
        body_size = len(raw) - body_begin
        if not self._read_message(block, body_begin, body_size, flag, queue_id, born_ms):
            return False
        self.identity = request.spans[0].identity
        return True

    def _take_own(self, block: bytes) -> bool:
        """Reads a batch's own properties; returns whether they are plain."""
        found = b"\x02" + block + b"\x02"
        waits = found.count(b"\x02WAIT\x01")
        if waits > 1 or (waits and b"\x02WAIT\x01true\x02" not in found):
            return False
        self.identity = b""
        begin: i64 = found.find(_OWN_KEY)
        if begin < 0:
            return True
        begin += len(_OWN_KEY)
        end: i64 = found.find(b"\x02", begin)
        if found.count(_OWN_KEY) > 1 or end <= begin:
            return False
        self.identity = found[begin:end]
        return text_hash(found, begin, end, 0x22) >= 0 and not has_backslash(found, begin, end)

    def _read_rows(self, raw: bytes, queue_id: i64, born_ms: i64) -> bool:
        request = self.request
        position: i64 = self.header.body_begin
        end: i64 = len(raw)
        while position < end:
            if end - position < _ROW_SIZE + 2 or request.count == request.messages_max:
                return False
            size = i64(read_i32_be(raw, position))
            flag = i64(read_i32_be(raw, position + 12))
            body_size = i64(read_i32_be(raw, position + 16))
            begin = position + _ROW_SIZE
            if size > end - position or body_size < 0 or body_size > end - begin - 2 or flag < 0:
                return False
            text_size = i64(read_i16_be(raw, begin + body_size))
            text = begin + body_size + 2
            position += size
            if text_size < 0 or text + text_size != position:
                return False
            block = raw[text:position]
            if not self._read_message(block, begin, body_size, flag, queue_id, born_ms):
                return False
        return request.count > 0

    def _read_message(
        self, block: bytes, begin: i64, size: i64, flag: i64, queue_id: i64, born_ms: i64
    ) -> bool:
        request = self.request
        if size <= 0 or len(block) > BLOCK_SIZE_MAX:
            return False
        assert begin >= self.header.body_begin, "a body begins inside the header"
        span = request.next_span()
        request.take_body(span, begin, size)
        span.flag = flag
        span.born_ms = born_ms
        if not self._read_block(span, block):
            return False
        span.note = block if block[len(block) - 1] == 2 else block + b"\x02"
        return request.add(span, queue_id, False, b"", b"", False)

    def _read_block(self, span: MessageSpan, block: bytes) -> bool:
        """Finds keys, unique key and tag in a block; returns whether all properties are plain."""
        self._has_keys = self._has_wait = False
        begin: i64 = 0
        end: i64 = len(block)
        while begin < end:
            name_end = _mark_after(block, begin, end)
            value_end = _mark_after(block, name_end + 1, end)
            if name_end == begin or value_end <= name_end + 1 or value_end > end:
                return False
            if block[name_end] != 1 or (value_end < end and block[value_end] != 2):
                return False
            if not self._take_property(span, block, begin, name_end, value_end):
                return False
            begin = value_end + 1
        return len(span.identity) > 0

    def _take_property(
        self, span: MessageSpan, block: bytes, begin: i64, name_end: i64, end: i64
    ) -> bool:
        value = name_end + 1
        kind = _kind(block, begin, name_end)
        if kind == _UNIQUE_KEY:
            return self._take_id(span, block, value, end)
        if kind == _TAGS:
            if span.tag_size or end - value > TEXT_SIZE_MAX:
                return False
            span.tag_size = end - value
            span.tag_hash = text_hash(block, value, end, _BAR)
            return span.tag_hash >= 0
        if kind == _KEYS:
            return self._take_keys(span, block, value, end)
        if kind == _WAIT:
            if self._has_wait:
                return False
            self._has_wait = True
            waits = block[value:end] == _TRUE
            if not self.is_batch:
                self.request.waits = waits
        elif block[begin:name_end] in _OTHERS:
            return False
        return is_printable(block, begin, name_end) and is_printable(block, value, end)

    def _take_id(self, span: MessageSpan, block: bytes, begin: i64, end: i64) -> bool:
        if len(span.identity) or end - begin > TEXT_SIZE_MAX:
            return False
        span.id_hash = text_hash(block, begin, end, 0x22)
        span.identity = block[begin:end]
        return span.id_hash >= 0 and not has_backslash(block, begin, end)

    def _take_keys(self, span: MessageSpan, block: bytes, begin: i64, end: i64) -> bool:
        request = self.request
        if self._has_keys:
            return False
        self._has_keys = True
        while begin < end:
            key_end = begin
            while key_end < end and block[key_end] != 0x20:
                key_end += 1
            size = key_end - begin
            hashed = text_hash(block, begin, key_end, 0)
            if size == 0 or size > TEXT_SIZE_MAX or hashed < 0 or key_end == end - 1:
                return False
            request.keys = append(append(append(request.keys, begin), size), hashed)
            span.key_count += 1
            begin = key_end + 1
        return True


def _kind(block: bytes, begin: i64, end: i64) -> i64:
    """Returns the kind of the property with the name [begin, end)."""
    size = end - begin
    if size == 4:
        name = i64(read_i32_be(block, begin))
        if name == 0x4B455953:  # KEYS
            return _KEYS
        if name == 0x54414753:  # TAGS
            return _TAGS
        return _WAIT if name == 0x57414954 else _OTHER  # WAIT
    if size == 8 and i64(read_i32_be(block, begin)) == 0x554E4951:  # UNIQ
        return _UNIQUE_KEY if i64(read_i32_be(block, begin + 4)) == 0x5F4B4559 else _OTHER  # _KEY
    return _OTHER


def _mark_after(block: bytes, position: i64, end: i64) -> i64:
    """Returns the position of the first byte from 0 to 2, `end` or more for none."""
    while end - position >= STEP:
        four = i64(read_i32_be(block, position)) & WORD
        if four & HIGH_BITS or four + FROM_THREE & HIGH_BITS != HIGH_BITS:
            break
        position += STEP
    while position < end and block[position] > 2:
        position += 1
    return position
