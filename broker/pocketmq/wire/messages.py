"""gRPC's message framing (a flag, a length of four bytes, a message) and decompression.

Uses zlib-ng (extra `speed`) if installed, which inflates a decompression bomb 20 times faster.
"""

import zlib
from typing import Any, Final

from pocketmq.native.machine import i64

try:
    from zlib_ng import zlib_ng

    _inflate: Any = zlib_ng
except ImportError:
    _inflate = zlib


# gRPC's status codes that the transport itself sends.
OK: Final[i64] = 0
DEADLINE_EXCEEDED: Final[i64] = 4
RESOURCE_EXHAUSTED: Final[i64] = 8
UNIMPLEMENTED: Final[i64] = 12
INTERNAL: Final[i64] = 13

GRPC: Final = b"application/grpc"
IDENTITY: Final = b"identity"
GZIP: Final = b"gzip"
PREFIX_SIZE: Final[i64] = 5
_GZIP_BITS: Final = 31  # zlib's window bits for a gzip header and any window
_NO_GZIP: Final[tuple[type[Exception], ...]] = (zlib.error, _inflate.error)


class MessageFault(Exception):
    """Fault of a message; its call ends with this gRPC status and text."""

    def __init__(self, status: i64, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def check_prefix(flag: i64, length: i64, encoding: bytes, size_max: i64) -> None:
    """Checks the prefix of a message, before the message is read.

    Errors   MessageFault: the message exceeds the limit, has an unknown flag, or is compressed in a
             call without gzip encoding
    """
    if length > size_max:
        why = f"a message of {length} bytes, the limit is {size_max}"
        raise MessageFault(RESOURCE_EXHAUSTED, why)
    if flag > 1 or (flag == 1 and encoding != GZIP):
        raise MessageFault(
            INTERNAL, "a message is compressed, but its call has no known grpc-encoding"
        )


def opened(packed: bytes, size_max: i64) -> bytes:
    """Decompresses a gzip-compressed message.

    Errors   MessageFault: invalid gzip, or more than `size_max` bytes
    Cost     at most `size_max` + 1 bytes are inflated
    """
    stream = _inflate.decompressobj(_GZIP_BITS)
    try:
        message: bytes = stream.decompress(packed, size_max + 1)
    except _NO_GZIP:
        raise MessageFault(INTERNAL, "a compressed message is not valid gzip") from None
    if len(message) > size_max:
        why = f"a message of more than {size_max} bytes when decompressed"
        raise MessageFault(RESOURCE_EXHAUSTED, why)
    if not stream.eof or stream.unused_data:
        raise MessageFault(INTERNAL, "a compressed message is not exactly one complete gzip")
    return message
