"""Encodes and parses the property block of a record.

Properties: name, 0x01, value, 0x02 for each pair
    K E Y S 01 k 1   k 2 02 T A G S 01 T a g A 02
There is no escaping: a name or value with a separator cannot be stored. The last separator may be
missing (4.9.1 to 5.1.4 left it out). Readers drop pairs with an empty name or value; of duplicate
names the last one wins. Bytes that are not UTF-8 become replacement characters in a text.

Source: MessageDecoder.messageProperties2String, string2messageProperties.
"""

from typing import Final, final

from pocketmq.format.layout import Buffer
from pocketmq.native import is_compiled
from pocketmq.native.machine import i64

NAME_SEPARATOR: Final = "\x01"
PAIR_SEPARATOR: Final = "\x02"
NAME_END: Final = b"\x01"
PAIR_END: Final = b"\x02"
PROPERTIES_SIZE_MAX: Final = 32_767
"""Limit of the block's length field, a signed i16."""
_IS_COMPILED: Final = is_compiled()


def encode_properties(properties: dict[str, str]) -> bytes:
    """Returns the block of the pairs in the given order; each ends with a separator."""
    return "".join(
        [f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}" for name, value in properties.items()]
    ).encode()


def decode_properties(block: Buffer) -> dict[str, str]:
    """Parses a block into texts."""
    properties: dict[str, str] = {}
    for pair in bytes(block).decode("utf-8", "replace").split(PAIR_SEPARATOR):
        name, _, value = pair.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def property_pairs(block: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the pairs of a block in their order, duplicates included."""
    found: list[tuple[bytes, bytes]] = []
    for pair in block.split(PAIR_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            found.append((name, value))
    return found


def find_byte(raw: bytes, wanted: i64, begin: i64, end: i64) -> i64:
    """Returns the position of a byte in [begin, end); `end` if it does not occur."""
    if not _IS_COMPILED:  # The loop is faster only when compiled, where it saves a call.
        found = raw.find(wanted, begin, end)
        return end if found < 0 else found
    position = begin
    while position < end:
        byte: i64 = raw[position]
        if byte == wanted:
            return position
        position += 1
    return end


@final
class PropertyCursor:
    """Walks the pairs of a block in place, for compiled callers.

    name_begin, name_end, value_end   bounds of the current pair; its value begins after name_end
    is_whole                          whether all pairs so far had name, value and last separator
    """

    __slots__ = ("_end", "_next", "_raw", "is_whole", "name_begin", "name_end", "value_end")

    def __init__(self, raw: bytes, begin: i64, end: i64) -> None:
        self._raw = raw
        self._next: i64 = begin
        self._end: i64 = end
        self.name_begin: i64 = begin
        self.name_end: i64 = begin
        self.value_end: i64 = begin
        self.is_whole = True

    def step(self) -> bool:
        """Moves to the next pair; returns whether a next pair exists."""
        raw = self._raw
        end = self._end
        while self._next < end:
            begin = self._next
            pair_end = find_byte(raw, 2, begin, end)
            name_end = find_byte(raw, 1, begin, pair_end)
            self._next = pair_end + 1
            is_pair = name_end > begin and pair_end - name_end > 1
            if pair_end == end or not is_pair:
                self.is_whole = False
            if is_pair:
                self.name_begin = begin
                self.name_end = name_end
                self.value_end = pair_end
                assert pair_end <= end
                return True
        return False

    def name(self) -> bytes:
        """Returns the name of the current pair."""
        return self._raw[self.name_begin : self.name_end]

    def value(self) -> bytes:
        """Returns the value of the current pair."""
        return self._raw[self.name_end + 1 : self.value_end]


def led_by_separator(properties: bytes) -> bytes:
    """Returns a block with the leading separator that `property_text` relies on."""
    return PAIR_END + properties


def property_key(name: str) -> bytes:
    """Returns the bytes before a property's value; a caller uses them for many records."""
    return PAIR_END + name.encode() + NAME_END


def property_value(raw: bytes, key: bytes, begin: int, end: int) -> bytes | None:
    """Returns a property's value from the block at [begin, end); None if the property is absent.

    key    result of `property_key`; the block may begin with or without a separator
    Cost   0.25 µs and one search of the block
    """
    upper = end
    place = raw.rfind(key, begin, upper)
    while place >= 0:
        value_begin = place + len(key)
        value_end = raw.find(PAIR_END, value_begin, end)
        if value_end < 0:
            value_end = end
        if value_begin < value_end:
            return raw[value_begin:value_end]
        upper = value_begin - 1  # An empty value does not count; an earlier value may.
        place = raw.rfind(key, begin, upper)
    if begin >= end or raw[begin] != key[1] or not raw.startswith(key[1:], begin, end):
        return None
    value_begin = begin + len(key) - 1
    value_end = raw.find(PAIR_END, value_begin, end)
    if value_end < 0:
        value_end = end
    return raw[value_begin:value_end] or None


def property_text(block: bytes, key: bytes) -> str | None:
    """Returns a property's value from a block with a leading separator; None if it is absent.

    Cost   0.3 µs and one search of the block
    """
    value = property_value(block, key, 0, len(block))
    return None if value is None else value.decode("utf-8", "replace")
