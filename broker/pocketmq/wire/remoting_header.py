"""Parses the usual frames of remoting requests in place, without a JSON parser.

    u32 size · u8 serialization · u24 size │ {"code":310,"extFields":{"a":"p"},"flag":0, …} │ body

A JSON header is usual if it has no white space, only the members that clients write, each once,
numbers of at most nine digits, and names without escapes. Its texts are printable ASCII, in which
only quotes, slashes, backslashes and control characters (as \\u00XX) are escaped. A binary header
is usual if its code is not negative, its remark is empty and its fields are ASCII. No field may be
repeated. `remoting.py` parses all other frames.
"""

from abc import ABC, abstractmethod
from typing import Final, final

from pocketmq.native.four_bytes import (
    BACKSLASHES,
    FROM_SPACE,
    HIGH_BITS,
    NONZERO,
    ONES,
    QUOTES,
    STEP,
    WORD,
)
from pocketmq.native.machine import (
    BytesWriter,
    i64,
    read_i16_be,
    read_i32_be,
    u8,
    write_i32_be,
)
from pocketmq.wire.remoting import FIELDS_MAX, FRAME_SIZE_MAX, HEAD_SIZE, HEADER_SIZE_MAX

MEMBERS_MAX: Final = 16
_BINARY_HEAD_SIZE: Final = 17
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D
_COLON: Final = 0x3A
_COMMA: Final = 0x2C
_DIGITS_MAX: Final = 9
_SERIALIZATION: Final = b"serializeTypeCurrentRPC"
_UNKNOWN: Final = 0
_CODE: Final = 1
_FLAG: Final = 2
_OPAQUE: Final = 4
_VERSION: Final = 8
_FIELDS: Final = 16
_IGNORED: Final = 32
"""Members of a header: a bit each, those with ignored texts from _IGNORED on."""


class FrameHeader(ABC):
    """Header of a request's frame; each `read` replaces the previous header.

    body_begin   position of the body, which ends with the frame
    """

    __slots__ = (
        "_position", "_unescaped", "body_begin", "code", "flag", "is_binary", "opaque",
    )  # fmt: skip

    def __init__(self) -> None:
        self._unescaped = BytesWriter()
        self._position: i64 = 0
        self.code: i64 = 0
        self.opaque: i64 = 0
        self.flag: i64 = 0
        self.body_begin: i64 = 0
        self.is_binary = False

    @abstractmethod
    def _clear_fields(self) -> None:
        """Forgets the fields of the previous header."""

    @abstractmethod
    def _take_field(
        self, raw: bytes, name: i64, name_end: i64, text: bytes, begin: i64, end: i64
    ) -> bool:
        """Takes a field with the name raw[name:name_end] and the value text[begin:end].

        Shape    both are ASCII; in a JSON header, the name is printable and has no escape
        Returns  whether the header is still usual: no field may be repeated
        """

    def read(self, raw: bytes) -> bool:
        """Parses a whole frame; returns whether it is usual.

        Cost     about 1 µs for a header of 14 fields when compiled
        """
        size: i64 = len(raw)
        if size <= HEAD_SIZE:
            return False
        mark = i64(read_i32_be(raw, 4))
        self.is_binary = mark >> 24 == 1
        header_size = mark & 0xFFFFFF
        if mark >> 24 not in (0, 1) or header_size > HEADER_SIZE_MAX:
            return False
        end: i64 = HEAD_SIZE + header_size
        if end > size or size > FRAME_SIZE_MAX + 4 or i64(read_i32_be(raw, 0)) != size - 4:
            return False
        assert end >= HEAD_SIZE, "a header ends before it begins"
        self.body_begin = end
        self.code = self.opaque = self.flag = 0
        self._clear_fields()
        self._position = HEAD_SIZE
        return self._read_binary(raw, end) if self.is_binary else self._read_json(raw, end)

    # -- JSON

    def _read_json(self, raw: bytes, end: i64) -> bool:
        if raw[end - 1] != _CLOSE or raw[HEAD_SIZE] != _OPEN:
            return False
        self._position += 1
        seen: i64 = 0
        count: i64 = 0
        while count < MEMBERS_MAX:
            name = self._position + 1
            name_end = _plain_end(raw, name, end)
            if name_end + 1 >= end or raw[name - 1] != _QUOTE:
                return False
            if raw[name_end] != _QUOTE or raw[name_end + 1] != _COLON:
                return False
            member = _member(raw, name, name_end)
            self._position = name_end + 2
            if seen & member or not self._take_member(raw, end, member):
                return False
            seen |= member
            count += 1
            if self._position >= end:
                return False
            byte: i64 = raw[self._position]
            self._position += 1
            if byte == _CLOSE:
                return self._position == end and seen & _CODE != 0
            if byte != _COMMA:
                return False
        return False

    def _take_member(self, raw: bytes, end: i64, member: i64) -> bool:
        """Reads a member's value; returns False for an unknown member."""
        if member == _FIELDS:
            return self._take_fields(raw, end)
        if member >= _IGNORED:
            return self._skip_text(raw, end)
        if member == _UNKNOWN:
            return False
        number = self._number(raw, end)
        if member == _CODE:
            self.code = number
        elif member == _OPAQUE:
            self.opaque = number
        elif member == _FLAG:
            self.flag = number
        return number >= 0

    def _take_fields(self, raw: bytes, end: i64) -> bool:
        position = self._position
        if position >= end or raw[position] != _OPEN:
            return False
        position += 1
        count: i64 = 0
        while count < FIELDS_MAX:
            name = position + 1
            name_end = _plain_end(raw, name, end)
            if name_end + 2 >= end or raw[position] != _QUOTE or raw[name_end] != _QUOTE:
                return False
            if raw[name_end + 1] != _COLON or raw[name_end + 2] != _QUOTE:
                return False
            begin = name_end + 3
            position = _plain_end(raw, begin, end)
            if position >= end:
                return False
            if raw[position] == _QUOTE:
                if not self._take_field(raw, name, name_end, raw, begin, position):
                    return False
                position += 1
            else:
                position = self._unescape(raw, begin, position, end)
                if position < 0 or position >= end:
                    return False
                text = self._unescaped.getvalue()
                if not self._take_field(raw, name, name_end, text, 0, len(text)):
                    return False
            count += 1
            if position >= end:
                return False
            byte: i64 = raw[position]
            position += 1
            if byte == _CLOSE:
                self._position = position
                return True
            if byte != _COMMA:
                return False
        return False

    def _skip_text(self, raw: bytes, end: i64) -> bool:
        """Reads a quoted text that is not needed."""
        begin = self._position + 1
        if begin > end or raw[begin - 1] != _QUOTE:
            return False
        position = _plain_end(raw, begin, end)
        if position < end and raw[position] == _QUOTE:
            self._position = position + 1
            return True
        position = self._unescape(raw, begin, position, end)
        self._position = position
        return position >= 0

    def _unescape(self, raw: bytes, begin: i64, position: i64, end: i64) -> i64:
        """Writes the rest of a text to `_unescaped`; returns the position after its end, or -1.

        begin      of the text
        position   of its first byte that is not plain
        """
        out = self._unescaped
        out.truncate(0)
        out.write(raw[begin:position])
        while position < end:
            while end - position >= STEP and _are_plain(i64(read_i32_be(raw, position)) & WORD):
                write_i32_be(out, read_i32_be(raw, position))
                position += STEP
            if position >= end:
                return -1
            byte: i64 = raw[position]
            position += 1
            if byte == _QUOTE:
                return position
            if byte == _BACKSLASH:
                if position >= end:
                    return -1
                byte = raw[position]
                position += 1
                if byte == 0x75:
                    byte = _control(raw, position, end)
                    position += 4
                elif byte not in (_QUOTE, _BACKSLASH, 0x2F):
                    return -1
            elif byte < 0x20 or byte > 0x7E:
                return -1
            if byte < 0:
                return -1
            out.append(u8(byte))
        return -1

    def _number(self, raw: bytes, end: i64) -> i64:
        """Reads a number of at most nine digits; returns -1 if there is none."""
        begin = position = self._position
        value: i64 = 0
        while position < end and position - begin <= _DIGITS_MAX:
            digit: i64 = raw[position] - 0x30
            if digit < 0 or digit > 9:
                break
            value = 10 * value + digit
            position += 1
        size = position - begin
        if size == 0 or size > _DIGITS_MAX or (size > 1 and raw[begin] == 0x30):
            return -1
        self._position = position
        return value

    # -- binary

    def _read_binary(self, raw: bytes, end: i64) -> bool:
        position = self._position
        if end - position < _BINARY_HEAD_SIZE + 4:
            return False
        self.code = i64(read_i16_be(raw, position))
        self.opaque = i64(read_i32_be(raw, position + 5))
        self.flag = i64(read_i32_be(raw, position + 9))
        remark_size = i64(read_i32_be(raw, position + 13))
        fields_size = i64(read_i32_be(raw, position + _BINARY_HEAD_SIZE))
        position += _BINARY_HEAD_SIZE + 4
        if self.code < 0 or remark_size or fields_size != end - position:
            return False
        count: i64 = 0
        while position < end:
            if end - position < 2 or count == FIELDS_MAX:
                return False
            size = i64(read_i16_be(raw, position))
            position += 2
            if size < 0 or end - position < size + 4:
                return False
            name, name_end = position, position + size
            size = i64(read_i32_be(raw, name_end))
            begin = name_end + 4
            if size < 0 or end - begin < size:
                return False
            position = begin + size
            if not _is_ascii(raw, name, name_end) or not _is_ascii(raw, begin, position):
                return False
            if not self._take_field(raw, name, name_end, raw, begin, position):
                return False
            count += 1
        return True


@final
class UsualHeader(FrameHeader):
    """A header whose fields are needed by their names.

    fields   extFields
    """

    __slots__ = ("fields",)

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[bytes, bytes] = {}

    def _clear_fields(self) -> None:
        self.fields = {}

    def _take_field(
        self, raw: bytes, name: i64, name_end: i64, text: bytes, begin: i64, end: i64
    ) -> bool:
        assert begin <= end, "a field ends before it begins"
        key = raw[name:name_end]
        if key in self.fields:
            return False
        self.fields[key] = text[begin:end]
        return True


def _plain_end(raw: bytes, position: i64, end: i64) -> i64:
    """Returns the position of the first quote, backslash or unprintable byte, `end` for none."""
    while position < end:
        byte: i64 = raw[position]
        if byte in (_QUOTE, _BACKSLASH) or byte < 0x20 or byte > 0x7E:
            return position
        position += 1
    return end


def _are_plain(four: i64) -> bool:
    """Returns whether four bytes are printable, and neither quotes nor backslashes."""
    legal = ((four ^ QUOTES) + NONZERO) & ((four ^ BACKSLASHES) + NONZERO)
    legal &= four + FROM_SPACE
    return legal & HIGH_BITS == HIGH_BITS and not (four | four + ONES) & HIGH_BITS


def _is_ascii(raw: bytes, position: i64, end: i64) -> bool:
    while end - position >= STEP:
        if i64(read_i32_be(raw, position)) & HIGH_BITS:
            return False
        position += STEP
    while position < end:
        if raw[position] > 0x7F:
            return False
        position += 1
    return True


def _member(raw: bytes, name: i64, end: i64) -> i64:
    """Returns the bit of a member, _UNKNOWN for another name."""
    size = end - name
    if size < STEP:
        return _UNKNOWN
    first, last = i64(read_i32_be(raw, name)), i64(read_i32_be(raw, end - STEP))
    if size == 4:
        if first == 0x636F6465:  # code
            return _CODE
        return _FLAG if first == 0x666C6167 else _UNKNOWN  # flag
    if size == 6 and first == 0x6F706171 and last == 0x61717565:  # opaq aque
        return _OPAQUE
    if size == 7 and first == 0x76657273 and last == 0x73696F6E:  # vers sion
        return _VERSION
    if size == 8 and first == 0x6C616E67 and last == 0x75616765:  # lang uage
        return _IGNORED
    text = raw[name:end]
    if text == b"extFields":
        return _FIELDS
    if text == _SERIALIZATION:
        return 2 * _IGNORED
    return 4 * _IGNORED if text == b"remark" else _UNKNOWN


def _control(raw: bytes, position: i64, end: i64) -> i64:
    r"""Returns the control character that four digits after \u encode; -1: another character."""
    if end - position < 4:
        return -1
    if raw[position] != 0x30 or raw[position + 1] != 0x30 or raw[position + 2] not in (0x30, 0x31):
        return -1
    digit: i64 = raw[position + 3]
    high: i64 = (raw[position + 2] - 0x30) << 4
    if 0x30 <= digit <= 0x39:
        return high + digit - 0x30
    if 0x41 <= digit <= 0x46:
        return high + digit - 0x37
    return high + digit - 0x57 if 0x61 <= digit <= 0x66 else -1
