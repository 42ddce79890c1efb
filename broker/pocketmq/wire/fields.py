"""Fields of a header block: a name, a value, and the kind of field.

A field is validated once, when it is created.
"""

from typing import Final, final

from pocketmq.native.machine import i64, mypyc_attr, read_i64_be

ENTRY_OVERHEAD: Final[i64] = 32
"""Overhead of a field in a table or a list (RFC 7541, section 4.1)."""

METADATA: Final[i64] = 0  # custom metadata, and other fields that only handlers read
METHOD: Final[i64] = 1
SCHEME: Final[i64] = 2
PATH: Final[i64] = 3
AUTHORITY: Final[i64] = 4
CONTENT_TYPE: Final[i64] = 5
TIMEOUT: Final[i64] = 6
ENCODING: Final[i64] = 7
CONTENT_LENGTH: Final[i64] = 8
TRANSPORT: Final[i64] = 9  # ignored: te, grpc-accept-encoding
ILLEGAL: Final[i64] = 10  # the name or the value is illegal in HTTP/2 requests
PSEUDO_MAX: Final[i64] = AUTHORITY

_LOW_HALVES: Final[i64] = 0x0F0F0F0F0F0F0F0F
_CARRIES: Final[i64] = 0x1010101010101010

_KINDS: Final[dict[bytes, int]] = {
    b":method": METHOD,
    b":scheme": SCHEME,
    b":path": PATH,
    b":authority": AUTHORITY,
    b"content-type": CONTENT_TYPE,
    b"grpc-timeout": TIMEOUT,
    b"grpc-encoding": ENCODING,
    b"content-length": CONTENT_LENGTH,
    b"grpc-accept-encoding": TRANSPORT,
    b"te": TRANSPORT,
    b"connection": ILLEGAL,
    b"keep-alive": ILLEGAL,
    b"proxy-connection": ILLEGAL,
    b"transfer-encoding": ILLEGAL,
    b"upgrade": ILLEGAL,
}


@mypyc_attr(acyclic=True)
@final
class HeaderField:
    """One field of a header block; immutable, shared by all blocks that refer to it."""

    def __init__(self, name: bytes, value: bytes, name_kind: i64) -> None:
        self.name = name
        self.value = value
        self.name_kind: i64 = name_kind
        self.kind: i64 = name_kind
        self.size: i64 = len(name) + len(value) + ENTRY_OVERHEAD
        if not _is_value(value) or (name_kind == TRANSPORT and not _is_transport(name, value)):
            self.kind = ILLEGAL


def kind_of(name: bytes) -> i64:
    """Returns the kind of the fields with a name; ILLEGAL for a name forbidden in requests."""
    kind = _KINDS.get(name)
    if kind is not None:
        return kind
    return METADATA if _is_name(name) else ILLEGAL


def _is_transport(name: bytes, value: bytes) -> bool:
    return name != b"te" or value == b"trailers"


def _is_name(name: bytes) -> bool:
    """Accepts the names of regular fields (RFC 9113, section 8.2.1)."""
    end: i64 = len(name)
    p: i64 = 0
    while p < end:
        byte: i64 = name[p]
        if byte <= 32 or byte >= 127 or byte == 58 or (65 <= byte <= 90):
            return False
        p += 1
    return end > 0


def _is_value(value: bytes) -> bool:
    """Refuses NUL, CR and LF anywhere, and a space or tab at either end."""
    end: i64 = len(value)
    if end == 0:
        return True
    first: i64 = value[0]
    last: i64 = value[end - 1]
    if first == 32 or first == 9 or last == 32 or last == 9:
        return False
    p: i64 = 0
    while end - p >= 8:
        # Eight bytes at once: no byte is below 16 if no upper half is 0.
        halves = (read_i64_be(value, p) >> 4 & _LOW_HALVES) + _LOW_HALVES
        if halves & _CARRIES != _CARRIES:
            break
        p += 8
    while p < end:
        byte: i64 = value[p]
        if byte < 14 and (byte == 0 or byte == 10 or byte == 13):
            return False
        p += 1
    return True
