"""Stored messages in a reply: as objects of protobuf, or written straight from their records.

What the generated classes make of a plain record takes 25 µs; `encode_plain` about 5. Records of
rarer forms (compressed body, IPv6 host, negative number, text that is not UTF-8) are left to them,
and so is every mistake: it returns None for what it does not take.
"""

from struct import Struct
from typing import Final

from broker.format.addresses import text_from_host
from broker.format.content import NAME_SEPARATOR, PAIR_SEPARATOR, PROPERTIES_SIZE_MAX
from broker.format.record import HOSTS_V6_MASK, MAGIC_V1, RECORD_HEAD, message_fields
from broker.model.errors import UnsupportedFeature
from broker.model.message import (
    DELAY,
    DELIVER_AT,
    FLAG_COMPRESSED,
    KEYS,
    SHARDING_KEY,
    TAGS,
    UNIQUE_KEY,
    StoredMessage,
)
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.v1.send_reply import PAIR_BITS, varint, wide_varint, wider_varint

REPLY_BODY_SIZE_MAX: Final = 15 * 1024 * 1024
"""A reply of 16 MiB holds a body of this size and everything else of its message."""
_FIELDS: Final = pb.StoredMessage.DESCRIPTOR.fields_by_name
_NAME: Final = NAME_SEPARATOR.encode()
_PAIR: Final = PAIR_SEPARATOR.encode()
_PLACE: Final = Struct(">q").pack
_HEAD: Final = RECORD_HEAD.struct.unpack_from
_KNOWN_PAIRS_MAX: Final = 4_096
_KNOWN_PAIR_SIZE_MAX: Final = 128
_SHAPE_SIZE_MAX: Final = 512
"""What is remembered, together some MiB."""
_LENGTHS: Final = [varint(length) for length in range(PROPERTIES_SIZE_MAX + 64)]
"""Of every text a record can hold, names and lengths around it included."""


def proto_message(message: StoredMessage) -> pb.StoredMessage:
    """Return a stored message as it is sent to clients.

    Errors   UnsupportedFeature for a body that unfolds to more than a reply can hold
    """
    size_bytes = len(message.body)
    if size_bytes > REPLY_BODY_SIZE_MAX:
        feature = f"a body that unfolds to {size_bytes} bytes here; pull it with shape RECORDS"
        raise UnsupportedFeature(feature=feature)
    return pb.StoredMessage(**message_fields(message))


def _tag(name: str, wire_type: int) -> bytes:
    """Return what stands before a field: its number and wire type, 0 for numbers, 2 for bytes."""
    return varint(_FIELDS[name].number << 3 | wire_type)


_TOPIC, _MESSAGE_ID, _OFFSET_ID = (_tag(n, 2) for n in ("topic", "message_id", "offset_message_id"))
_TAG, _KEYS, _GROUP = (_tag(name, 2) for name in ("tag", "keys", "message_group"))
_PROPERTIES, _BODY = _tag("properties", 2), _tag("body", 2)
_BORN_HOST, _STORE_HOST = _tag("born_host", 2), _tag("store_host", 2)
_QUEUE_ID, _QUEUE_OFFSET = _tag("queue_id", 0), _tag("queue_offset", 0)
_PLACE_TAG, _SIZE = _tag("physical_offset", 0), _tag("store_size", 0)
_CRC, _SYSTEM_FLAG, _FLAG = (_tag(name, 0) for name in ("body_crc", "system_flag", "flag"))
_RECONSUME, _PREPARED = _tag("reconsume_times", 0), _tag("prepared_transaction_offset", 0)
_BORN_MS, _STORE_MS = _tag("born_timestamp_ms", 0), _tag("store_timestamp_ms", 0)
_UNIQUE_KEY_NAME, _TAGS_NAME, _KEYS_NAME, _GROUP_NAME = (
    name.encode() for name in (UNIQUE_KEY, TAGS, KEYS, SHARDING_KEY)
)
_UNIQUE_KEY_BEGIN: Final = _UNIQUE_KEY_NAME + _NAME
_KEYS_BEGIN: Final = _KEYS_NAME + _NAME
_LATER_NAMES: Final = frozenset({DELAY.encode(), DELIVER_AT.encode()})
_OWN: Final = {
    name: b"\x0a" + varint(len(name)) + name + b"\x12"
    for name in (_UNIQUE_KEY_NAME, _TAGS_NAME, _KEYS_NAME, _GROUP_NAME)
}
"""What begins the map entry of a property that is different in each message."""
_OFFSET_ID_OF_16: Final = _OFFSET_ID + varint(32)

_known_pairs: dict[bytes, bytes] = {}
"""Pairs that come with every message, as map entries; those of one message alone never enter."""


def encode_plain(record: bytes) -> bytes | None:
    """Hot: return a record as an encoded StoredMessage, None where it is not plain.

    Shape    the record is sound (store/reading/reader.py)
    Cost     about 5 µs with seven properties
    """
    (
        size, magic, crc, queue_id, flag, queue_offset, place, system_flag, born_ms, born_host,
        store_ms, store_host, reconsume_times, prepared, body_size,
    ) = _HEAD(record)  # fmt: skip
    body_begin = RECORD_HEAD.size
    body_end = body_begin + body_size
    is_rare = system_flag & (FLAG_COMPRESSED | HOSTS_V6_MASK) or magic != MAGIC_V1
    if is_rare or body_size > REPLY_BODY_SIZE_MAX or born_ms < 0:
        return None
    topic_end = body_end + 1 + record[body_end]
    block = record[topic_end + 2 :]
    address = (
        record[body_end:topic_end], queue_id, flag, system_flag, reconsume_times, prepared,
        born_host, store_host,
    )  # fmt: skip
    shared = _shared.get(address) or _remember_shared(address)
    if shared is None or not (block.isascii() or _is_text(block)):
        return None
    offset_id = (store_host + _PLACE(place)).hex().upper().encode()
    times = _times.get((born_ms, store_ms)) or _remember_times(born_ms, store_ms)
    sizes = _sizes.get((size, body_size)) or _remember_sizes(size, body_size)
    parts = [
        shared, times,
        _QUEUE_OFFSET, number(queue_offset), _PLACE_TAG, number(place), _CRC, number(crc),
        _OFFSET_ID_OF_16, offset_id, sizes, record[body_begin:body_end],
    ]  # fmt: skip
    if not _has_unique_key(block):
        parts += (_MESSAGE_ID, _LENGTHS[len(offset_id)], offset_id)
    return b"".join(parts) if _add_texts(parts, block) else None


def _has_unique_key(block: bytes) -> bool:
    """Return whether a property block begins with a unique key, or has one behind its first pairs.

    One that is told later takes the place of the id that is told without it.
    """
    begin = 0 if block.startswith(_UNIQUE_KEY_BEGIN) else block.find(_PAIR + _UNIQUE_KEY_BEGIN) + 1
    end = begin + len(_UNIQUE_KEY_BEGIN)
    return block.startswith(_UNIQUE_KEY_BEGIN, begin) and block[end : end + 1] not in _PAIR


Address = tuple[bytes, int, int, int, int, int, bytes, bytes]
"""Topic behind its length, queue id, flag, system flag, reconsume times, prepared offset, hosts."""

_shared: dict[Address, bytes] = {}
"""The fields that all messages of a queue from one producer have in common."""


def _remember_shared(address: Address) -> bytes | None:
    topic, queue_id, flag, system_flag, reconsume_times, prepared, born_host, store_host = address
    if min(address[1:6]) < 0 or not _is_text(topic[1:]):
        return None
    shared = b"".join((
        _TOPIC, topic, _QUEUE_ID, number(queue_id),
        _SYSTEM_FLAG, number(system_flag), _FLAG, number(flag),
        _RECONSUME, number(reconsume_times), _PREPARED, number(prepared),
        _BORN_HOST, _lengthed(text_from_host(born_host).encode()),
        _STORE_HOST, _lengthed(text_from_host(store_host).encode()),
    ))  # fmt: skip
    if len(_shared) >= _KNOWN_PAIRS_MAX:
        _shared.clear()
    _shared[address] = shared
    return shared


_times: dict[tuple[int, int], bytes] = {}
"""The fields of born and store time: messages of one batch share them."""
_sizes: dict[tuple[int, int], bytes] = {}
"""The field of the stored size, and what stands before a body of a length."""


def _remember_times(born_ms: int, store_ms: int) -> bytes:
    fields = _BORN_MS + number(born_ms) + _STORE_MS + number(store_ms)
    if len(_times) >= _KNOWN_PAIRS_MAX:
        _times.clear()
    _times[born_ms, store_ms] = fields
    return fields


def _remember_sizes(size: int, body_size: int) -> bytes:
    fields = _SIZE + number(size) + _BODY + number(body_size)
    if len(_sizes) >= _KNOWN_PAIRS_MAX:
        _sizes.clear()
    _sizes[size, body_size] = fields
    return fields


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def number(value: int) -> bytes:
    """Return a varint, of fixed width where it is large: any reader takes it."""
    if value < 1 << PAIR_BITS:  # Most are, or have four bytes and more.
        return _LENGTHS[value]
    if value < 1 << 35:
        return wide_varint(value)
    # Three pairs and a rest of seven bits: times in ms until far beyond any record.
    return wider_varint(value) if value < 1 << 49 else varint(value)


def _add_texts(parts: list[bytes], block: bytes) -> bool:
    """Add the fields that a property block fills; False where a property needs more care.

    What is left of a block without its unique key and keys is the same in many messages.
    """
    rest, unique_key, keys = block, b"", b""
    if block.startswith(_UNIQUE_KEY_BEGIN):
        end = block.find(_PAIR)
        unique_key, rest = block[len(_UNIQUE_KEY_BEGIN) : end], block[end + 1 :]
        begin = rest.find(_KEYS_BEGIN)
        if begin == 0 or (begin > 0 and rest[begin - 1] == _PAIR[0]):
            end = rest.find(_PAIR, begin)
            keys, rest = rest[begin + len(_KEYS_BEGIN) : end], rest[:begin] + rest[end + 1 :]
        if end < 0:
            rest, unique_key, keys = block, b"", b""
    shape = _shapes.get(rest)
    if shape is None:
        shape = _remember_shape(rest)
    if not shape:
        return _add_pairs(parts, block)
    lengths = _LENGTHS
    parts.append(shape)
    if unique_key:
        size = lengths[len(unique_key)]
        begin_entry = _OWN[_UNIQUE_KEY_NAME]
        entry_size = len(begin_entry) + len(size) + len(unique_key)
        parts += (_PROPERTIES, lengths[entry_size], begin_entry, size, unique_key)
        parts += (_MESSAGE_ID, size, unique_key)
    if keys:
        size = lengths[len(keys)]
        begin_entry = _OWN[_KEYS_NAME]
        entry_size = len(begin_entry) + len(size) + len(keys)
        parts += (_PROPERTIES, lengths[entry_size], begin_entry, size, keys)
        for key in keys.split(b" "):
            if key:
                parts += (_KEYS, lengths[len(key)], key)
    return True


_shapes: dict[bytes, bytes] = {}
"""The fields of blocks without unique key and keys; empty where these need to be seen in place."""


def _remember_shape(rest: bytes) -> bytes:
    parts: list[bytes] = []
    is_plain = _UNIQUE_KEY_BEGIN not in rest and _KEYS_BEGIN not in rest and _add_pairs(parts, rest)
    shape = b"".join(parts) if is_plain else b""
    if len(rest) <= _SHAPE_SIZE_MAX:
        if len(_shapes) >= _KNOWN_PAIRS_MAX:
            _shapes.clear()
        _shapes[rest] = shape
        assert len(_shapes) <= _KNOWN_PAIRS_MAX
    return shape


def _add_pairs(parts: list[bytes], block: bytes) -> bool:
    """Do the same pair by pair."""
    known, lengths, own = _known_pairs, _LENGTHS, _OWN
    tag: bytes | None = None
    keys: bytes | None = None
    group: bytes | None = None
    unique_key: bytes | None = None
    for pair in block.split(_PAIR):
        entry = known.get(pair)
        if entry is not None:
            parts.append(entry)
            continue
        name, _, value = pair.partition(_NAME)
        if not name or not value:
            continue
        if name not in own:
            if name in _LATER_NAMES:
                return False
            parts.append(_remember_pair(pair, name, value))
            continue
        begin, size = own[name], len(value)
        width = 1 if size < 0x80 else len(lengths[size])  # A block is shorter than 32 KiB,
        content_size = len(begin) + width + size  # so its values' lengths are in the table.
        parts += (_PROPERTIES, lengths[content_size], begin, lengths[size], value)
        if name == _UNIQUE_KEY_NAME:
            unique_key = value
        elif name == _KEYS_NAME:
            keys = value
        elif name == _TAGS_NAME:
            tag = value
        else:
            group = value
    if unique_key is not None:
        parts += (_MESSAGE_ID, lengths[len(unique_key)], unique_key)
    if keys is not None:
        for key in keys.split(b" "):
            if key:
                parts += (_KEYS, lengths[len(key)], key)
    if tag is not None:
        parts += (_TAG, lengths[len(tag)], tag)
    if group is not None:
        parts += (_GROUP, lengths[len(group)], group)
    return True


def _remember_pair(pair: bytes, name: bytes, value: bytes) -> bytes:
    """Return a pair as an entry of the map field; one of few bytes is remembered."""
    content = b"\x0a" + _lengthed(name) + b"\x12" + _lengthed(value)
    entry = _PROPERTIES + _lengthed(content)
    if len(pair) <= _KNOWN_PAIR_SIZE_MAX:
        if len(_known_pairs) >= _KNOWN_PAIRS_MAX:
            _known_pairs.clear()
        _known_pairs[pair] = entry
    return entry


def _lengthed(content: bytes) -> bytes:
    return _LENGTHS[len(content)] + content
