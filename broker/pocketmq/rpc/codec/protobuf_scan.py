"""Steps through the fields of protobuf messages in place; all compiled parsers use this scan.

    scan = FieldScan(texts=bits(1, 2), numbers=bits(3), required=bits(1))
    scan.enter(begin, end)
    while (number := scan.step(raw)) > 0:      the field's number; scan has its bytes or its value
        …
    number == END, or NOT_PLAIN                the generated classes parse the message

A message is plain if it has all required fields, and only fields that the scan names, in ascending
order. Only repeated fields may occur more than once, and only fields of `empty` may be empty texts.
Sizes are compared with the remaining bytes before they are added to a position. A varint with the
sign bit set is not plain: as a length it would move the position backwards.
"""

from typing import Final, final

from pocketmq.native.machine import i64

END: Final = 0
NOT_PLAIN: Final = -1
FIELD_NUMBER_MAX: Final = 31
VARINT: Final = 0
BYTES: Final = 2
GROUPS: Final = (3, 4)
"""Wire types: VARINT, BYTES (length-delimited), and GROUPS (start and end of a group)."""
_FIXED64: Final = 1
_FIXED32: Final = 5
_VARINT_BITS: Final = 70
_VALUE_BITS: Final = 56
_ONE_BYTE: Final = 0x7F
SIZE_BITS: Final = 28
"""Bits of a text's size: a varint of four bytes."""
NUMBER_BITS: Final = 63
_NAME: Final = 1
_VALUE: Final = 2


def bits(*numbers: int) -> int:
    """Returns a set of field numbers as bits."""
    table = 0
    for number in numbers:
        assert 0 < number <= FIELD_NUMBER_MAX
        table |= 1 << number
    return table


@final
class FieldScan:
    """Steps through the fields of messages of one type, one message after another.

    texts        length-delimited fields: strings, bytes, messages
    numbers      varint fields from 0 to 2**63 - 1
    repeated     fields that may occur more than once
    required     fields that must occur
    empty        texts that may be empty
    begin, size  position and size of the current text
    end          position of the next field
    value        value of the current number
    """

    __slots__ = (
        "_empty", "_limit", "_missing", "_number", "_numbers", "_repeated", "_required", "_texts",
        "begin", "end", "size", "value",
    )  # fmt: skip

    def __init__(
        self, texts: i64, numbers: i64 = 0, repeated: i64 = 0, required: i64 = 0, empty: i64 = 0
    ) -> None:
        assert texts & numbers == 0
        self._texts: i64 = texts
        self._numbers: i64 = numbers
        self._repeated: i64 = repeated
        self._required: i64 = required
        self._empty: i64 = empty
        self._limit: i64 = 0
        self._missing: i64 = 0
        self._number: i64 = 0
        self.begin: i64 = 0
        self.size: i64 = 0
        self.end: i64 = 0
        self.value: i64 = 0

    def enter(self, begin: i64, end: i64) -> None:
        """Begins a message; the next `step` reads its first field."""
        self.end = begin
        self._limit = end
        self._number = 0
        self._missing = self._required

    def step(self, raw: bytes) -> i64:
        """Reads the next field; returns its number, END or NOT_PLAIN.

        Cost     about 5 ns when compiled
        """
        position, end = self.end, self._limit
        if position == end:
            if self._missing:
                return NOT_PLAIN
            return END
        tag: i64 = raw[position]
        position += 1
        if tag > _ONE_BYTE:
            if position == end or raw[position] != 1:  # Field numbers above 15 have two tag bytes.
                return NOT_PLAIN
            position += 1
        number = tag >> 3
        if number <= self._number and not (number == self._number and self._repeated >> number & 1):
            return NOT_PLAIN
        self._number = number
        self._missing &= ~(1 << number)
        if position == end:
            return NOT_PLAIN
        value: i64 = raw[position]
        position += 1
        kind = tag & 7
        if kind == BYTES and self._texts >> number & 1:
            if value > _ONE_BYTE:
                value, position = varint_at(raw, position - 1, end, SIZE_BITS)
            if value <= 0 and (value < 0 or not self._empty >> number & 1):
                return NOT_PLAIN
            if value > end - position:
                return NOT_PLAIN
            self.begin = position
            self.size = value
            self.end = position + value
            return number
        if kind == VARINT and self._numbers >> number & 1:
            if value > _ONE_BYTE:
                value, position = varint_at(raw, position - 1, end, NUMBER_BITS)
            if value < 0:
                return NOT_PLAIN
            self.value = value
            self.end = position
            return number
        return NOT_PLAIN


@final
class MapEntry:
    """Positions and sizes of the name and the value of a map entry; both are non-empty."""

    __slots__ = ("_scan", "name", "name_size", "value", "value_size")

    def __init__(self) -> None:
        self._scan = FieldScan(bits(_NAME, _VALUE), required=bits(_NAME, _VALUE))
        self.name: i64 = 0
        self.name_size: i64 = 0
        self.value: i64 = 0
        self.value_size: i64 = 0

    def read(self, raw: bytes, begin: i64, end: i64) -> bool:
        """Reads an entry; returns whether it is plain."""
        assert begin <= end
        scan = self._scan
        scan.enter(begin, end)
        if scan.step(raw) != _NAME:
            return False
        self.name, self.name_size = scan.begin, scan.size
        if scan.step(raw) != _VALUE:
            return False
        self.value, self.value_size = scan.begin, scan.size
        return scan.end == end


def varint_at(raw: bytes, position: i64, end: i64, bit_count: i64) -> tuple[i64, i64]:
    """Returns a varint's value and end; the value is -1 for an invalid varint.

    bit_count   upper limit of the value's bits, a multiple of 7
    """
    value: i64 = 0
    shift: i64 = 0
    while position < end and shift < bit_count:
        byte: i64 = raw[position]
        position += 1
        if byte <= _ONE_BYTE:
            return value | byte << shift, position
        value |= (byte & _ONE_BYTE) << shift
        shift += 7
    return -1, end


def next_field(raw: bytes, position: i64, end: i64) -> tuple[i64, i64, i64, i64]:
    """Returns a field's number, its wire type, and the begin and end of its value.

    The number is -1 if there is no valid field before `end`. A group's start and end are separate
    fields; the fields of the group are returned between them.
    """
    tag, begin = _any_varint(raw, position, end)
    kind = tag & 7
    value_end = begin
    if kind == BYTES:
        size, begin = _any_varint(raw, begin, end)
        value_end = begin + size if 0 <= size <= end - begin else -1
    elif kind == VARINT:
        _, value_end = _any_varint(raw, begin, end)
    elif kind == _FIXED64:
        value_end += 8
    elif kind == _FIXED32:
        value_end += 4
    elif kind != GROUPS[0] and kind != GROUPS[1]:
        value_end = -1
    if tag < 8 or begin < 0 or not 0 <= value_end <= end:
        return -1, kind, end, end
    return tag >> 3, kind, begin, value_end


def _any_varint(raw: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """Returns a varint's (value, or -1 if it is too large; end, or -1 if it is invalid)."""
    value: i64 = 0
    shift: i64 = 0
    while 0 <= position < end and shift < _VARINT_BITS:
        byte: i64 = raw[position]
        position += 1
        if shift < _VALUE_BITS and value >= 0:
            value |= (byte & _ONE_BYTE) << shift
        elif byte & _ONE_BYTE:
            value = -1
        if byte <= _ONE_BYTE:
            return value, position
        shift += 7
    return -1, -1
