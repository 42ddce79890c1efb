"""Encodes records of the log as messages of a reply (StoredMessage of pocketmq.v1), in one loop.

    adjacent records ──► 2A size message │ 2A size message │ …

Plain records are encoded directly from their bytes, all others by the generated protobuf classes. A
record is not plain if it has a compressed body, a body above BODY_SIZE_MAX, a topic above 127
bytes, an IPv6 host, a negative number, text that is not UTF-8, or a delay.
"""

from typing import Final, final

from pocketmq.format.addresses import text_from_host
from pocketmq.format.plain_text import is_text
from pocketmq.format.properties import NAME_END, PAIR_END, PropertyCursor
from pocketmq.format.record import HOSTS_V6_MASK, MAGIC_V1, RECORD_HEAD, RECORD_SIZE_MIN
from pocketmq.model.message import (
    DELAY,
    DELIVER_AT,
    FLAG_COMPRESSED,
    KEYS,
    SHARDING_KEY,
    TAGS,
    UNIQUE_KEY,
)
from pocketmq.native.machine import BytesWriter, i64, read_i32_be, read_i64_be
from pocketmq.rpc.codec.protobuf_write import write_entry, write_number, write_text

KNOWN_MAX: Final = 4_096
"""Upper limit of entries of each cache of a `MessageWriter`; its caches occupy some MiB."""
ROOM_KEPT_MAX: Final = 1024 * 1024
KNOWN_SHAPE_SIZE_MAX: Final = 512
BODY_SIZE_MAX: Final[i64] = 15 * 1024 * 1024
"""Upper limit of bytes of a plain record's body; with all other fields it fits a 16 MiB reply."""
_PAIR_BYTE: Final = ord(PAIR_END)
_UNIQUE_KEY: Final = UNIQUE_KEY.encode()
_KEYS: Final = KEYS.encode()
_TAGS: Final = TAGS.encode()
_GROUP: Final = SHARDING_KEY.encode()
_UNIQUE_KEY_BEGIN: Final = _UNIQUE_KEY + NAME_END
_KEYS_BEGIN: Final = _KEYS + NAME_END
_LATER_NAMES: Final = frozenset({DELAY.encode(), DELIVER_AT.encode()})
_OWN_NAMES: Final = frozenset({_UNIQUE_KEY, _KEYS, _TAGS, _GROUP})
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_RARE_FLAGS: Final = FLAG_COMPRESSED | HOSTS_V6_MASK
_HEAD_SIZE: Final[i64] = RECORD_HEAD.size
_SIZE_MIN: Final[i64] = RECORD_SIZE_MIN
_BEGIN: Final = b"\x2a\x80\x80\x80\x00"
"""Tag of field 5 of PullMessageResponse, and its size as four bytes, filled in by `_close`."""
_BEGIN_SIZE: Final[i64] = 5

_TOPIC: Final = 1
_QUEUE_ID: Final = 2
_QUEUE_OFFSET: Final = 3
_PLACE: Final = 4
_SIZE: Final = 5
_ID: Final = 6
_OFFSET_ID: Final = 7
_TAG: Final = 8
_KEY: Final = 9
_MESSAGE_GROUP: Final = 10
_PROPERTY: Final = 11
_BODY: Final = 12
_CRC: Final = 13
_SYSTEM_FLAG: Final = 14
_FLAG: Final = 15
_RECONSUME: Final = 16
_BORN_TIME: Final = 17
_BORN_HOST: Final = 18
_STORE_TIME: Final = 19
_STORE_HOST: Final = 20
_PREPARED: Final = 21


@final
class MessageWriter:
    """Writes one reply after another; caches the encoded parts that many messages share.

    out     the messages written since `begin`
    count   number of these messages
    """

    __slots__ = (
        "_born_host", "_born_ms", "_flags", "_host_digits", "_prepared", "_queue",
        "_reconsume", "_shapes", "_shared", "_shared_by", "_store_host", "_store_ms", "_times",
        "_topic", "count", "out",
    )  # fmt: skip

    def __init__(self) -> None:
        self.out = BytesWriter()
        self.count = 0
        self._shapes: dict[bytes, bytes] = {}
        """Property block without unique key and keys -> encoded fields; empty: not plain."""
        self._shared_by: dict[tuple[int, int, int, int, int, int, bytes], tuple[bytes, bytes]] = {}
        """Record fields -> their encoding, which messages share, and the store host in hex."""
        self._shared = b""
        self._host_digits = b""
        self._topic = b""
        self._queue: i64 = 0
        self._flags: i64 = 0
        self._born_host: i64 = 0
        self._store_host: i64 = 0
        self._reconsume: i64 = 0
        self._prepared: i64 = 0
        self._times = b""
        self._born_ms: i64 = -1
        self._store_ms: i64 = -1

    def begin(self) -> None:
        """Begins a reply; frees the buffer of a large one."""
        if len(self.out) > ROOM_KEPT_MAX:
            self.out = BytesWriter()
        self.out.truncate(0)
        self.count = 0

    def add(self, records: bytes, position: i64, size_max: i64) -> i64:
        """Hot: writes adjacent records from a position on; returns where it stopped.

        Shape    the records are valid (store/read/record_check.py)
        Returns  the end of `records`, or the position of a record that is not plain or would make
                 `out` longer than `size_max`; the first record of a reply is never too long
        Cost     about 1.5 µs a record with seven properties when compiled, 8 µs otherwise
        """
        end: i64 = len(records)
        out = self.out
        while end - position >= _SIZE_MIN:
            size: int = read_i32_be(records, position)
            if size < _SIZE_MIN or size > end - position:
                break
            before: i64 = len(out)
            if not self._write(records, position, size):
                out.truncate(before)
                break
            if len(out) > size_max and self.count > 0:
                out.truncate(before)
                break
            self._close(before)
            position += size
        return position

    def add_encoded(self, message: bytes, size_max: i64) -> bool:
        """Adds a message that the generated classes encoded; returns False if it does not fit."""
        before: i64 = len(self.out)
        if before + _BEGIN_SIZE + len(message) > size_max and self.count > 0:
            return False
        self.out.write(_BEGIN)
        self.out.write(message)
        self._close(before)
        return True

    def _close(self, before: i64) -> None:
        out = self.out
        size: int = len(out) - before - _BEGIN_SIZE
        assert size < 1 << 28
        out[before + 1] = size & 0x7F | 0x80
        out[before + 2] = size >> 7 & 0x7F | 0x80
        out[before + 3] = size >> 14 & 0x7F | 0x80
        out[before + 4] = size >> 21
        self.count += 1

    def _write(self, record: bytes, at: i64, size: i64) -> bool:
        """Writes the record at `at` as a message; returns False if it is not plain."""
        system: int = read_i32_be(record, at + 36)
        body_size: int = read_i32_be(record, at + 84)
        queue_offset: i64 = read_i64_be(record, at + 20)
        place: i64 = read_i64_be(record, at + 28)
        crc: int = read_i32_be(record, at + 8)
        if read_i32_be(record, at + 4) != _MAGIC or system & _RARE_FLAGS != 0:
            return False
        if body_size < 0 or body_size > BODY_SIZE_MAX or body_size > size - _SIZE_MIN:
            return False
        if queue_offset < 0 or place < 0 or crc < 0:
            return False
        topic: i64 = at + _HEAD_SIZE + body_size
        block: i64 = topic + 3 + record[topic]
        end: i64 = at + size
        if block > end:
            return False
        out = self.out
        out.write(_BEGIN)
        if not self._write_shared(record, at, system, record[topic : block - 2]):
            return False
        if not self._write_times(read_i64_be(record, at + 40), read_i64_be(record, at + 56)):
            return False
        write_number(out, _QUEUE_OFFSET, queue_offset)
        write_number(out, _PLACE, place)
        write_number(out, _SIZE, size)
        write_number(out, _CRC, crc)
        digits = self._host_digits + record[at + 28 : at + 36].hex().upper().encode()
        write_text(out, _OFFSET_ID, digits)
        write_text(out, _BODY, record[at + _HEAD_SIZE : topic])
        return self._write_texts(record[block:end], digits)

    def _write_shared(self, record: bytes, at: i64, system: i64, topic: bytes) -> bool:
        queue: i64 = read_i64_be(record, at + 12)
        born_host: i64 = read_i64_be(record, at + 48)
        store_host: i64 = read_i64_be(record, at + 64)
        reconsume: int = read_i32_be(record, at + 72)
        prepared: i64 = read_i64_be(record, at + 76)
        if (
            queue != self._queue
            or system != self._flags
            or born_host != self._born_host
            or store_host != self._store_host
            or reconsume != self._reconsume
            or prepared != self._prepared
            or topic != self._topic
        ):
            key = (queue, system, born_host, store_host, reconsume, prepared, topic)
            made = self._shared_by.get(key)
            if made is None:
                made = _shared_fields(record, at, topic)
                if made is None:
                    return False
                if len(self._shared_by) >= KNOWN_MAX:
                    self._shared_by.clear()
                self._shared_by[key] = made
            self._shared, self._host_digits = made
            self._queue, self._flags, self._topic = queue, system, topic
            self._born_host, self._store_host = born_host, store_host
            self._reconsume, self._prepared = reconsume, prepared
        self.out.write(self._shared)
        return True

    def _write_times(self, born_ms: i64, store_ms: i64) -> bool:
        if born_ms < 0 or store_ms < 0:
            return False
        if born_ms != self._born_ms or store_ms != self._store_ms:
            made = BytesWriter()
            write_number(made, _BORN_TIME, born_ms)
            write_number(made, _STORE_TIME, store_ms)
            self._times = made.getvalue()
            self._born_ms, self._store_ms = born_ms, store_ms
        self.out.write(self._times)
        return True

    def _write_texts(self, block: bytes, digits: bytes) -> bool:
        """Writes the fields of a property block; returns False if a property is not plain.

        Blocks without unique key and keys repeat, so their encodings are cached.

        digits   message id, if there is no unique key
        """
        if not (block.isascii() or is_text(block)):
            return False
        rest, unique_key, keys = block, b"", b""
        end = block.find(PAIR_END) if block.startswith(_UNIQUE_KEY_BEGIN) else -1
        if end >= 0:
            unique_key, rest = block[len(_UNIQUE_KEY_BEGIN) : end], block[end + 1 :]
            begin = rest.find(_KEYS_BEGIN)
            if begin == 0 or (begin > 0 and rest[begin - 1] == _PAIR_BYTE):
                end = rest.find(PAIR_END, begin)
                if end >= 0:
                    keys = rest[begin + len(_KEYS_BEGIN) : end]
                    rest = rest[:begin] + rest[end + 1 :]
        shape = self._shapes.get(rest)
        if shape is None:
            shape = self._shape_of(rest)
        out = self.out
        if not shape:
            return self._write_pairs(out, block, digits)
        out.write(shape)
        write_text(out, _ID, unique_key or digits)
        if unique_key:
            write_entry(out, _PROPERTY, _UNIQUE_KEY, unique_key)
        if keys:
            write_entry(out, _PROPERTY, _KEYS, keys)
            _write_keys(out, keys)
        return True

    def _shape_of(self, rest: bytes) -> bytes:
        made = BytesWriter()
        is_plain = (
            _UNIQUE_KEY_BEGIN not in rest
            and _KEYS_BEGIN not in rest
            and self._write_pairs(made, rest, b"")
        )
        shape = made.getvalue() if is_plain else b""
        if len(rest) <= KNOWN_SHAPE_SIZE_MAX:
            if len(self._shapes) >= KNOWN_MAX:
                self._shapes.clear()
            self._shapes[rest] = shape
            assert len(self._shapes) <= KNOWN_MAX
        return shape

    def _write_pairs(self, out: BytesWriter, block: bytes, digits: bytes) -> bool:
        """Writes a block property by property; writes no message id if `digits` is empty."""
        unique_key, keys, tag, group = b"", b"", b"", b""
        pairs = PropertyCursor(block, 0, len(block))
        while pairs.step():
            name = pairs.name()
            value = pairs.value()
            if name in _LATER_NAMES:
                return False
            write_entry(out, _PROPERTY, name, value)
            if name not in _OWN_NAMES:
                continue
            if name == _UNIQUE_KEY:
                unique_key = value
            elif name == _KEYS:
                keys = value
            elif name == _TAGS:
                tag = value
            else:
                group = value
        if digits:
            write_text(out, _ID, unique_key or digits)
        _write_keys(out, keys)
        if tag:
            write_text(out, _TAG, tag)
        if group:
            write_text(out, _MESSAGE_GROUP, group)
        return True


def _shared_fields(record: bytes, at: i64, topic: bytes) -> tuple[bytes, bytes] | None:
    """Returns the shared fields and the store host in hex; None: the record is not plain."""
    numbers: list[int] = [read_i32_be(record, at + place) for place in (12, 36, 16, 72)]
    numbers.append(read_i64_be(record, at + 76))
    if min(numbers) < 0 or len(topic) < 2 or topic[0] > 0x7F or not is_text(topic[1:]):
        return None
    made = BytesWriter()
    write_text(made, _TOPIC, topic[1:])
    queue_id, flags, flag, reconsume, prepared = numbers
    for number, value in (
        (_QUEUE_ID, queue_id),
        (_SYSTEM_FLAG, flags),
        (_FLAG, flag),
        (_RECONSUME, reconsume),
        (_PREPARED, prepared),
    ):
        write_number(made, number, value)
    store_host = record[at + 64 : at + 72]
    for number, host in ((_BORN_HOST, record[at + 48 : at + 56]), (_STORE_HOST, store_host)):
        write_text(made, number, text_from_host(host).encode())
    return made.getvalue(), store_host.hex().upper().encode()


def _write_keys(out: BytesWriter, keys: bytes) -> None:
    if b" " not in keys:
        if keys:
            write_text(out, _KEY, keys)
        return
    for key in keys.split(b" "):
        if key:
            write_text(out, _KEY, key)
