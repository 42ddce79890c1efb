"""Reads single fields of a stored record without decoding its other fields.

Source: MessageDecoder.decodeProperties.
"""

from struct import Struct
from typing import Final

from pocketmq.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.format.properties import led_by_separator, property_key, property_text, property_value
from pocketmq.format.record import HEADS, HOSTS_V6_MASK, MAGIC_V2, RECORD_HEAD
from pocketmq.model.decimal import SUMMABLE_MAX, number_of_bytes
from pocketmq.model.message import FLAG_BORN_HOST_V6

__all__ = [
    "properties_size", "property_block", "property_key", "property_number", "property_text",
    "store_time_of",
]  # fmt: skip

_MAGIC_AND_SYSTEM_FLAG: Final = Struct(">4xI28xi")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_STORE_TIME_PLACES: Final = (
    RECORD_HEAD.positions["store_timestamp"],
    RECORD_HEAD.positions["store_timestamp"] + IPV6_HOST_SIZE - IPV4_HOST_SIZE,
)
_LENGTH_PLACES: Final = {kind: head.size - _I32.size for kind, head in HEADS.items()}


def property_block(record: bytes) -> bytes:
    """Returns the properties of a valid record, with a leading separator.

    Cost     0.4 µs and one copy of the properties
    """
    magic, system_flag = _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)
    place = _LENGTH_PLACES[system_flag & HOSTS_V6_MASK]
    topic = place + _I32.size + _I32.unpack_from(record, place)[0]
    if magic == MAGIC_V2:
        begin = topic + 2 + _I16.unpack_from(record, topic)[0]
    else:
        begin = topic + 1 + record[topic]
    return led_by_separator(record[begin + _I16.size :])


def properties_size(record: bytes) -> int:
    """Returns an upper bound of the size of a record's properties: it includes the topic."""
    _, system_flag = _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)
    place = _LENGTH_PLACES[system_flag & HOSTS_V6_MASK]
    (body_size,) = _I32.unpack_from(record, place)
    return len(record) - place - int(body_size)


def store_time_of(record: bytes) -> int:
    """Returns a record's store time, in ms since 1970; needs only its first 80 bytes."""
    born_host = FLAG_BORN_HOST_V6 & _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)[1]
    place = _STORE_TIME_PLACES[bool(born_host)]
    return int.from_bytes(record[place : place + 8])


def property_number(block: bytes, key: bytes, largest: int = SUMMABLE_MAX) -> int:
    """Returns the number in a block's property; -1 if it is no number from 0 to `largest`."""
    return number_of_bytes(property_value(block, key, 0, len(block)) or b"", largest)
