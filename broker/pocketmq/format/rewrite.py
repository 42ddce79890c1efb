"""Makes a new message of a record, for another topic and with changed properties.

Unchanged parts are neither decompressed nor decoded, not even invalid UTF-8. Properties have the
order of Java's hash table of 128 slots, as in all messages that RocketMQ reads and writes again. If
RocketMQ copies properties, the table begins with 16 slots. No reader depends on the order.
Source: MessageDecoder.string2messageProperties, HashMap.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from pocketmq.format.addresses import offset_message_id
from pocketmq.format.java_hash import java_hash
from pocketmq.format.layout import Buffer
from pocketmq.format.properties import (
    NAME_END,
    PAIR_END,
    PROPERTIES_SIZE_MAX,
    decode_properties,
    property_pairs,
)
from pocketmq.format.record import HOSTS_V6_MASK, PROPERTY_CRC_SIZE, split_record
from pocketmq.model.batch import Batch, Destination, Run
from pocketmq.model.errors import PropertiesTooLarge
from pocketmq.model.message import (
    INT32_MAX,
    KEYS,
    PROPERTY_CRC,
    REAL_QUEUE,
    REAL_TOPIC,
    TAGS,
    TIMER_OUT,
    UNIQUE_KEY,
)

_DECODED_SLOTS: Final = 128
_NEW_SLOTS: Final = 16
_TAGS: Final = TAGS.encode()
_NEEDED: Final = frozenset({REAL_QUEUE, REAL_TOPIC, TIMER_OUT})
"""Properties without which a parked message could not be restored."""
_BLOCK_SIZE_MAX: Final = PROPERTIES_SIZE_MAX - PROPERTY_CRC_SIZE
"""Largest block that leaves room for a property CRC."""
_KEPT_NAME_MAX: Final = 64


def put_again(
    record: Buffer,
    *,
    topic: str,
    queue_id: int,
    store_host: bytes,
    changed: Mapping[str, str],
    dropped: Collection[str] = (),
    reconsume_times: int | None = None,
    born_host: bytes | None = None,
    is_copied: bool = False,
) -> Run:
    """Returns a record as a run of one message.

    record           all bytes of one valid record
    store_host       packed address of this broker
    changed          properties to set; an empty value removes the property
    dropped          names of properties to remove
    reconsume_times, born_host   None keeps the record's value
    is_copied        whether to order properties as RocketMQ does after copying them
    Effects          if the block has no room, leaves out changed properties that the message can be
                     restored without
    Errors           BadRecord; PropertiesTooLarge: no room even for the properties that are needed
                     to restore the message
    Cost             about 10 µs
    """
    head, body_begin, _, _, block_begin, block_end = split_record(record, 0)
    pairs = dict(property_pairs(bytes(record[block_begin:block_end])))
    for name in (PROPERTY_CRC, *dropped):
        pairs.pop(name.encode(), None)
    for name, value in changed.items():
        pairs[name.encode()] = value.encode()
    if _block_size(pairs) > _BLOCK_SIZE_MAX:
        _make_room(pairs, changed)
    names = _copied(pairs) if is_copied else in_decoded_order(pairs)
    block = b"".join(name + NAME_END + pairs[name] + PAIR_END for name in names if pairs[name])
    batch = Batch(
        bodies=[bytes(record[body_begin : body_begin + head[14]])],
        property_blocks=[block],
        unique_keys=[_text(pairs, UNIQUE_KEY)],
        keys=[_text(pairs, KEYS)],
        tags=[_text(pairs, TAGS)],
        born_ms=[head[8]],
        born_hosts=[head[9] if born_host is None else born_host],
        flags=[head[4]],
        reconsume_times=[min(head[12] if reconsume_times is None else reconsume_times, INT32_MAX)],
    )
    return Destination(topic, queue_id, store_host, head[7] & ~HOSTS_V6_MASK), batch


def facts_of(record: Buffer) -> tuple[int, dict[str, str], str]:
    """Returns a record's (reconsume times, properties, offset message id).

    Errors   BadRecord
    """
    head, _, _, _, block_begin, block_end = split_record(record, 0)
    properties = decode_properties(record[block_begin:block_end])
    return head[12], properties, offset_message_id(head[11], head[6])


def _block_size(pairs: Mapping[bytes, bytes]) -> int:
    return sum(len(name) + len(value) + len(NAME_END + PAIR_END) for name, value in pairs.items())


def _make_room(pairs: dict[bytes, bytes], changed: Collection[str]) -> None:
    """Removes unneeded changed properties: a message that could not be put again would be stuck.

    Errors   PropertiesTooLarge
    """
    for name in changed:
        if name not in _NEEDED:
            pairs.pop(name.encode(), None)
    size = _block_size(pairs)
    if size > _BLOCK_SIZE_MAX and _NEEDED.intersection(changed):
        raise PropertiesTooLarge(size_bytes=size, limit_bytes=_BLOCK_SIZE_MAX)


def in_decoded_order(names: Iterable[bytes]) -> list[bytes]:
    """Returns property names in RocketMQ's order after decoding."""
    return _ordered(names, _DECODED_SLOTS)


def _ordered(names: Iterable[bytes], slots: int) -> list[bytes]:
    return sorted(names, key=lambda name: _known_spread(name) & (slots - 1))


def _copied(pairs: Mapping[bytes, bytes]) -> list[bytes]:
    slots = _NEW_SLOTS
    while len(pairs) * 4 > slots * 3:
        slots *= 2
    return _ordered(sorted(pairs, key=lambda name: name != _TAGS), slots)


def _known_spread(name: bytes) -> int:
    return _kept_spread(name) if len(name) <= _KEPT_NAME_MAX else _spread(name)


def _spread(name: bytes) -> int:
    value = java_hash(name.decode("utf-8", "replace")) & 0xFFFFFFFF
    return value ^ value >> 16


_kept_spread: Final = lru_cache(maxsize=4096)(_spread)


def _text(pairs: Mapping[bytes, bytes], name: str) -> str:
    return pairs.get(name.encode(), b"").decode("utf-8", "replace")
