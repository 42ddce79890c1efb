"""Forms of a message's body: text, JSON, protobuf fields, hexadecimal.

Protobuf fields are shown by their numbers, as `protoc --decode_raw` does, without a descriptor.
"""

import json
from typing import Final, NamedTuple

SHOWN_MAX: Final = 64 * 1024
"""Bytes of a body that a page shows; the whole body can be saved."""
HEX_MAX: Final = 8 * 1024
ROW: Final = 16
DEPTH_MAX: Final = 8
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Body(NamedTuple):
    """A body in one form.

    form    text, json, protobuf, hex
    forms   forms that this body has
    is_cut  whether the page shows only its begin
    """

    text: str
    form: str
    forms: tuple[str, ...]
    is_cut: bool


def body_of(content: bytes, wanted: str) -> Body:
    """Returns a body in the wanted form, else in the first that it has."""
    made: dict[str, str] = {}
    begin = content[:SHOWN_MAX]
    as_json = _json(content) if len(content) <= 16 * SHOWN_MAX else None
    text = _text(begin, is_whole=len(content) == len(begin))
    if as_json is not None:
        made["json"] = as_json
    if text is not None:
        made["text"] = text
    elif (fields := _protobuf(content)) is not None:
        made["protobuf"] = fields
    made["hex"] = hex_of(content[:HEX_MAX])
    form = wanted if wanted in made else next(iter(made))
    shown, names = made[form], tuple(made)
    if form == "hex":
        return Body(shown, form, names, len(content) > HEX_MAX)
    # An indented document may be longer than the body.
    return Body(shown[:SHOWN_MAX], form, names, max(len(content), len(shown)) > SHOWN_MAX)


def _text(begin: bytes, *, is_whole: bool) -> str | None:
    try:
        return begin.decode()
    except UnicodeDecodeError as error:
        # The cut may be inside a character.
        return (
            begin[: error.start].decode() if not is_whole and error.start > len(begin) - 4 else None
        )


def _json(content: bytes) -> str | None:
    if content[:1] not in (b"{", b"["):
        return None
    try:
        return json.dumps(json.loads(content), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def hex_of(content: bytes) -> str:
    """Returns a hexadecimal dump with positions and printable characters."""
    lines = []
    for at in range(0, len(content), ROW):
        row = content[at : at + ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{3 * ROW - 1}}  {letters}")
    return "\n".join(lines)


def _protobuf(content: bytes) -> str | None:
    lines = _fields(content[:SHOWN_MAX], 0) if len(content) <= SHOWN_MAX else None
    return "\n".join(lines) if lines else None


def _fields(content: bytes, depth: int) -> list[str] | None:
    """Returns the lines of a message's fields; None if the bytes are no message."""
    lines: list[str] = []
    at, indent = 0, "  " * depth
    while at < len(content):
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if at < 0 or not number:
            return None
        if kind == VARINT:
            value, at = _varint(content, at)
            if at < 0:
                return None
            lines.append(f"{indent}{number}: {value}")
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            part, at = content[at : at + size], at + size
            lines.append(f"{indent}{number}: 0x{part[::-1].hex()}")
        elif kind == BYTES:
            size, at = _varint(content, at)
            part, at = content[at : at + size], at + size if at >= 0 else at
            lines += _nested(number, part, depth)
        else:
            return None
        if not 0 <= at <= len(content):
            return None
    return lines


def _nested(number: int, part: bytes, depth: int) -> list[str]:
    indent = "  " * depth
    inner = _fields(part, depth + 1) if part and depth < DEPTH_MAX else None
    text = _text(part, is_whole=True)
    if text is not None and text.isprintable():
        return [f"{indent}{number}: {json.dumps(text, ensure_ascii=False)}"]
    if inner:
        return [f"{indent}{number} {{", *inner, f"{indent}}}"]
    return [f"{indent}{number}: {part.hex()}"]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Returns a number and the position after it; a negative position if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if not 0 <= at < len(content):
            return 0, -1
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    return 0, -1
