"""Single fields of a stored record, properties above all, found without decoding the others.

    block = property_block(record)          b"\\x02KEYS\\x01k\\x02TAGS\\x01TagA\\x02"
    property_text(block, property_key("TAGS"))                                  "TagA"

The separator in front puts every name between two separators, so that one search finds it.
The rules are those of `content.decode_properties`: a pair with an empty value is none, of
duplicates the last one wins, bytes that are not UTF-8 become replacement characters.
Source: MessageDecoder.decodeProperties.
"""

from struct import Struct
from typing import Final

from pocketmq.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.format.record import HEADS, HOSTS_V6_MASK, MAGIC_V2, RECORD_HEAD
from pocketmq.model.message import FLAG_BORN_HOST_V6

_MAGIC_AND_SYSTEM_FLAG: Final = Struct(">4xI28xi")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_SEPARATOR: Final = b"\x02"
_NAME_END: Final = b"\x01"
_STORE_TIME_PLACES: Final = (
    RECORD_HEAD.positions["store_timestamp"],
    RECORD_HEAD.positions["store_timestamp"] + IPV6_HOST_SIZE - IPV4_HOST_SIZE,
)
_LENGTH_PLACES: Final = {kind: head.size - _I32.size for kind, head in HEADS.items()}
"""Position of the body's length, by the kinds of the record's hosts."""


def property_block(record: bytes) -> bytes:
    """Returns the properties of a sound record, a separator in front.

    Cost     0.4 µs and one copy of the properties
    """
    magic, system_flag = _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)
    place = _LENGTH_PLACES[system_flag & HOSTS_V6_MASK]
    topic = place + _I32.size + _I32.unpack_from(record, place)[0]
    if magic == MAGIC_V2:
        begin = topic + 2 + _I16.unpack_from(record, topic)[0]
    else:
        begin = topic + 1 + record[topic]
    return _SEPARATOR + record[begin + _I16.size :]


def properties_size(record: bytes) -> int:
    """Returns how many bytes the properties of a record take at most; its topic counts."""
    _, system_flag = _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)
    place = _LENGTH_PLACES[system_flag & HOSTS_V6_MASK]
    (body_size,) = _I32.unpack_from(record, place)
    return len(record) - place - int(body_size)


def store_time_of(record: bytes) -> int:
    """Returns when a record was stored, in ms since 1970; its first 80 bytes will do."""
    born_host = FLAG_BORN_HOST_V6 & _MAGIC_AND_SYSTEM_FLAG.unpack_from(record)[1]
    place = _STORE_TIME_PLACES[bool(born_host)]
    return int.from_bytes(record[place : place + 8])


def led_by_separator(properties: bytes) -> bytes:
    """Returns properties as they are stored in the form that `property_text` searches."""
    return _SEPARATOR + properties


def property_key(name: str) -> bytes:
    """Returns the bytes before the value of a property; made once, used for many records."""
    return _SEPARATOR + name.encode() + _NAME_END


def property_text(block: bytes, key: bytes) -> str | None:
    """Returns the value of a property, None where there is none.

    block    as `property_block` returns it
    Cost     0.25 µs and one search of the block
    """
    place = block.rfind(key)
    while place >= 0:
        begin = place + len(key)
        end = block.find(_SEPARATOR, begin)
        if end < 0:
            end = len(block)
        if begin < end:
            return block[begin:end].decode("utf-8", "replace")
        place = block.rfind(key, 0, begin - 1)  # An empty value is none: an earlier one counts.
    return None
