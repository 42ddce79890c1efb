"""Encodes records as ReceiveMessageResponses of RocketMQ's protocol, directly from their bytes.

    record ──► 12 size message: 0A topic │ 12 property … │ 1A size │ system properties │ 22 body
                  0A tag │ 12 key … │ 1A id │ 22 MD5 │ 28 encoding │ 30 type │ 3A born time
                  42 born host │ 4A store time │ 52 store host │ 62 handle │ 68 queue
                  70 queue offset │ 80 01 attempt │ 8A 01 group │ 92 01 trace context

A record is not plain if it is a dead letter, or a delayed or transactional message, or if it has a
priority, a body that must be decompressed, a topic above 127 bytes, an IPv6 host, a number out of
range, or text that is not UTF-8. The generated classes encode such records. They would encode a
plain record to the same message.
Source: GrpcConverter.buildMessage.
"""

from hashlib import md5
from typing import Final, final

from pocketmq.format.addresses import text_from_host
from pocketmq.format.body_codec import is_gzip
from pocketmq.format.plain_text import is_text
from pocketmq.format.properties import PropertyCursor
from pocketmq.format.record import HOSTS_V6_MASK, MAGIC_V1, RECORD_HEAD, RECORD_SIZE_MIN
from pocketmq.model.message import (
    BORN_HOST,
    DELAY,
    DELIVER_AT,
    FLAG_COMPRESSED,
    IS_TRANSACTIONAL,
    KEYS,
    PRIORITY,
    RESERVED_PROPERTIES,
    SHARDING_KEY,
    TAGS,
    TRACE_CONTEXT,
    UNIQUE_KEY,
)
from pocketmq.model.topic import DLQ_PREFIX
from pocketmq.native.machine import BytesWriter, i64, read_i32_be, read_i64_be
from pocketmq.rpc.codec import v2_fields as field
from pocketmq.rpc.codec.protobuf_write import (
    number_size,
    text_size,
    write_entry,
    write_head,
    write_number,
    write_text,
)

_TIME_MAX_MS: Final[i64] = 253_402_300_799_999
"""Largest Timestamp: the end of the year 9999."""
HOSTS_MAX: Final = 4_096
"""Upper limit of hosts whose text is cached."""
ROOM_KEPT_MAX: Final = 1024 * 1024
TIMER_PREFIX: Final = "TIMER_"
"""Prefix of the timer's internal properties."""
OWN_NAMES: Final = RESERVED_PROPERTIES | {BORN_HOST, TRACE_CONTEXT}
"""Properties that are not user properties."""

_OWN_NAMES: Final = frozenset(name.encode() for name in OWN_NAMES)
_TIMER: Final = TIMER_PREFIX.encode()
_UNIQUE_KEY: Final = UNIQUE_KEY.encode()
_KEYS: Final = KEYS.encode()
_TAGS: Final = TAGS.encode()
_GROUP: Final = SHARDING_KEY.encode()
_BORN_HOST: Final = BORN_HOST.encode()
_TRACE: Final = TRACE_CONTEXT.encode()
_RARE_NAMES: Final = frozenset(
    {IS_TRANSACTIONAL.encode(), DELIVER_AT.encode(), DELAY.encode(), PRIORITY.encode()}
)
_DLQ: Final = DLQ_PREFIX.encode()
_MAGIC: Final = MAGIC_V1 - (1 << 32)
_HEAD_SIZE: Final[i64] = RECORD_HEAD.size
_SIZE_MIN: Final[i64] = RECORD_SIZE_MIN
_MD5: Final = b"\x22\x24\x08\x02\x12\x20"
"""Start of a Digest of type MD5; 32 hexadecimal digits follow."""
_MESSAGE: Final = 2
"""Field of ReceiveMessageResponse."""
_NORMAL: Final = 1
_FIFO: Final = 2
_IDENTITY: Final = 1
_GZIP: Final = 2


@final
class _Texts:
    """System properties of a property block; empty if absent."""

    __slots__ = ("group", "host", "keys", "tag", "trace", "unique_key")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empties all fields."""
        self.unique_key = b""
        self.keys = b""
        self.tag = b""
        self.group = b""
        self.host = b""
        self.trace = b""

    def take(self, name: bytes, value: bytes) -> None:
        """Stores a property, if there is a field for it."""
        assert value, "a property is empty"
        if name == _UNIQUE_KEY:
            self.unique_key = value
        elif name == _KEYS:
            self.keys = value
        elif name == _TAGS:
            self.tag = value
        elif name == _BORN_HOST:
            self.host = value
        elif name == _GROUP:
            self.group = value
        elif name == _TRACE:
            self.trace = value


@final
class V2Messages:
    """Encodes the messages of one receive after another."""

    __slots__ = ("_hosts", "_out", "_system", "_texts", "_users")

    def __init__(self) -> None:
        self._out = BytesWriter()
        self._users = BytesWriter()
        self._system = BytesWriter()
        self._texts = _Texts()
        self._hosts: dict[bytes, bytes] = {}

    def answers(
        self, pieces: list[bytes], handles: list[str], attempts: list[int], topic: bytes
    ) -> list[bytes]:
        """Returns an encoded ReceiveMessageResponse for each record; b"" for one that is not plain.

        pieces    one or more adjacent records each; all records are valid
        handles   receipt handle of each record; empty without leases
        attempts  delivery attempt of each record
        topic     the requested topic as an encoded Resource
        Cost      about 3 µs a record when compiled, plus the MD5 of the body
        """
        found: list[bytes] = []
        number: i64 = 0
        for piece in pieces:
            position: i64 = 0
            end: i64 = len(piece)
            while position < end:
                assert end - position >= _SIZE_MIN, "a record is cut off"
                size = i64(read_i32_be(piece, position))
                assert size >= _SIZE_MIN, "a record's size is too small"
                assert size <= end - position, "a record's size exceeds its piece"
                handle = handles[number].encode() if handles else b""
                found.append(self._answer(piece, position, size, handle, attempts[number], topic))
                position += size
                number += 1
        assert number == len(attempts), "records and attempts differ in number"
        if len(self._out) > ROOM_KEPT_MAX:
            self._out = BytesWriter()
        return found

    def _answer(
        self, record: bytes, at: i64, size: i64, handle: bytes, attempt: i64, topic: bytes
    ) -> bytes:
        flags = i64(read_i32_be(record, at + 36))
        body_size = i64(read_i32_be(record, at + 84))
        magic: int = read_i32_be(record, at + 4)
        if magic != _MAGIC or flags & HOSTS_V6_MASK or attempt < 1:
            return b""
        if body_size < 0 or body_size > size - _SIZE_MIN:
            return b""
        if i64(read_i32_be(record, at + 12)) < 0 or read_i64_be(record, at + 20) < 0:
            return b""  # No checksum covers queue id and queue offset.
        body_end = at + _HEAD_SIZE + body_size
        block = body_end + 3 + record[body_end]
        if block > at + size or record.startswith(_DLQ, body_end + 1):
            return b""
        body = record[at + _HEAD_SIZE : body_end]
        encoding = _IDENTITY
        if flags & FLAG_COMPRESSED:
            if not is_gzip(body, int(flags)):
                return b""
            encoding = _GZIP
        users, system, out = self._users, self._system, self._out
        users.truncate(0)
        system.truncate(0)
        if not self._take_block(record[block : at + size]):
            return b""
        if not self._write_system(record, at, body, encoding):
            return b""
        self._write_lease(record, at, handle, attempt)
        user_block = users.getvalue()
        system_block = system.getvalue()
        out.truncate(0)
        size = (
            text_size(len(topic))
            + len(user_block)
            + text_size(len(system_block))
            + text_size(body_size)
        )
        write_head(out, _MESSAGE, size)
        write_text(out, field.TOPIC, topic)
        out.write(user_block)
        write_text(out, field.SYSTEM, system_block)
        write_text(out, field.BODY, body)
        return out.getvalue()

    def _take_block(self, block: bytes) -> bool:
        """Writes user properties, stores system properties; returns False if one is not plain."""
        if not (block.isascii() or is_text(block)):
            return False
        texts = self._texts
        texts.clear()
        pairs = PropertyCursor(block, 0, len(block))
        while pairs.step():
            name = pairs.name()
            value = pairs.value()
            if name in _RARE_NAMES:
                return False
            if name in _OWN_NAMES:
                texts.take(name, value)
            elif not name.startswith(_TIMER):
                write_entry(self._users, field.PROPERTY, name, value)
        return True

    def _write_system(self, record: bytes, at: i64, body: bytes, encoding: i64) -> bool:
        """Writes tag, keys, id, digest, type, hosts and times; False: the record is not plain."""
        texts, system = self._texts, self._system
        born_ms: i64 = read_i64_be(record, at + 40)
        store_ms: i64 = read_i64_be(record, at + 56)
        if not 0 <= born_ms <= _TIME_MAX_MS or not 0 <= store_ms <= _TIME_MAX_MS:
            return False
        if texts.tag:
            write_text(system, field.TAG, texts.tag)
        for key in texts.keys.split(b" "):
            if key:
                write_text(system, field.KEY, key)
        if texts.unique_key:
            write_text(system, field.ID, texts.unique_key)
        system.write(_MD5)
        system.write(md5(body, usedforsecurity=False).hexdigest().upper().encode())
        write_number(system, field.ENCODING, encoding)
        write_number(system, field.TYPE, _FIFO if texts.group else _NORMAL)
        _write_time(system, field.BORN_TIME, born_ms)
        write_text(system, field.BORN_HOST, texts.host or self._host(record[at + 48 : at + 56]))
        _write_time(system, field.STORE_TIME, store_ms)
        write_text(system, field.STORE_HOST, self._host(record[at + 64 : at + 72]))
        return True

    def _write_lease(self, record: bytes, at: i64, handle: bytes, attempt: i64) -> None:
        texts, system = self._texts, self._system
        queue_id = i64(read_i32_be(record, at + 12))
        if handle:
            write_text(system, field.HANDLE, handle)
        if queue_id:
            write_number(system, field.QUEUE_ID, queue_id)
        write_number(system, field.QUEUE_OFFSET, read_i64_be(record, at + 20))
        write_number(system, field.ATTEMPT, attempt)
        if texts.group:
            write_text(system, field.GROUP, texts.group)
        if texts.trace:
            write_text(system, field.TRACE, texts.trace)

    def _host(self, host: bytes) -> bytes:
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= HOSTS_MAX:
                self._hosts.clear()
            known = self._hosts[host] = text_from_host(host).encode()
        return known


def _write_time(out: BytesWriter, number: i64, time_ms: i64) -> None:
    seconds = time_ms // 1_000
    nanos = time_ms % 1_000 * 1_000_000
    size: i64 = 0
    if seconds:
        size += number_size(seconds)
    if nanos:
        size += number_size(nanos)
    write_head(out, number, size)
    if seconds:
        write_number(out, field.SECONDS, seconds)
    if nanos:
        write_number(out, field.NANOS, nanos)
