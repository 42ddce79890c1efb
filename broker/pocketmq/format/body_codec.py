"""The body of a record, which may be compressed.

Bit 0 of the system flag is set for a compressed body; bits 8-10 name the codec: 1 LZ4, 2 ZSTD,
3 ZLIB, and 0 is ZLIB.
Source: MessageDecoder, CompressionType.
"""

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from pocketmq.model.message import FLAG_COMPRESSED

PLAIN_SIZE_MAX: Final = 64 * 1024 * 1024
"""A body that unfolds to more is left as it is: no producer within the size limits made it."""
SHOWN_SIZE_MAX: Final = 15 * 1024 * 1024
"""Decompressed bytes of one body, and of all bodies of one reply, which is 16 MiB at most."""
COMPRESSION_SHIFT: Final = 8
COMPRESSION_MASK: Final = 0x7
LZ4: Final = 1
ZSTD: Final = 2
CODECS: Final = {LZ4: "lz4", ZSTD: "zstd"}
"""Names of codecs; all others are zlib."""
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_STEP: Final = 1024
"""Bytes decompressed in one go; at a block of 128 KiB for every four they become 32 MiB at most."""

_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
"""RocketMQ's clients of version 4 send the one, those of version 5 the other."""


def plain_body(body: bytes, system_flag: int) -> bytes:
    """Returns the decompressed body, or the body itself when it is not (or falsely) flagged.

    A body that decompresses to more than `PLAIN_SIZE_MAX` stays as it is.
    """
    if not system_flag & FLAG_COMPRESSED or not body:
        return body
    try:
        plain = _UNFOLDERS.get(codec_of(system_flag), _unfold_zlib)(body, PLAIN_SIZE_MAX)
    except _TooLarge:
        return body
    return body if plain is None else plain


def codec_of(system_flag: int) -> int:
    """Returns the number of a compressed body's codec; of 0 and unknown ones it is zlib or gzip."""
    return system_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK


def is_gzip(body: bytes, system_flag: int) -> bool:
    """Returns whether a body is compressed in the one form that clients of version 5 decompress."""
    if not system_flag & FLAG_COMPRESSED or codec_of(system_flag) in _UNFOLDERS:
        return False
    return body.startswith(GZIP_MAGIC)


class PlainBody(NamedTuple):
    """A body as a caller gets it.

    codec   "" for a decompressed one; else how `content` is compressed, as it is too large
    """

    content: bytes
    codec: str = ""


class BodyBudget:
    """Bounds the decompressed bytes of one call, those that are thrown away included.

    The body with which the budget would be exceeded belongs to the next call. A body that is too
    large for any call is given as it is stored, with its codec: it never blocks later ones.
    """

    __slots__ = ("_body_max", "left_bytes")

    def __init__(self, bytes_max: int = SHOWN_SIZE_MAX, *, body_max: int = SHOWN_SIZE_MAX) -> None:
        """Begins a call's budget; `body_max`: bytes of the largest body that is decompressed."""
        assert bytes_max >= body_max, "a whole budget holds any body that is decompressed"
        self.left_bytes = bytes_max
        self._body_max = body_max

    def plain(self, body: bytes, system_flag: int) -> PlainBody | None:
        """Returns a body for a caller, None where the budget is spent.

        Cost     about 2 ns a decompressed byte
        """
        if not system_flag & FLAG_COMPRESSED or not body:
            return PlainBody(body)
        codec = codec_of(system_flag)
        limit = min(self._body_max, self.left_bytes)
        if not limit:
            return None
        try:
            found = _UNFOLDERS.get(codec, _unfold_zlib)(body, limit)
        except _TooLarge:
            is_first = limit == self._body_max
            self.left_bytes -= limit
            return PlainBody(body, CODECS.get(codec, "zlib")) if is_first else None
        if found is None:
            return PlainBody(body)
        self.left_bytes -= len(found)
        assert self.left_bytes >= 0, "a body is decompressed up to the limit"
        return PlainBody(found)

    def plain_or_stored(self, body: bytes, system_flag: int) -> PlainBody:
        """Returns a body for a caller, as it is stored where the budget is spent."""
        found = self.plain(body, system_flag)
        return found or PlainBody(body, CODECS.get(codec_of(system_flag), "zlib"))


class _TooLarge(Exception):
    """A body decompresses to more than the limit."""


def _unfold_zlib(body: bytes, size_max: int) -> bytes | None:
    decompressor = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        plain = decompressor.decompress(body, size_max + 1)
    except zlib.error:
        return None
    if len(plain) > size_max:
        raise _TooLarge
    return plain if decompressor.eof else None


def _unfold_lz4(body: bytes, size_max: int) -> bytes | None:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = decompressor.decompress(body, size_max + 1)
    except RuntimeError:
        return None
    if len(plain) > size_max:
        raise _TooLarge
    return plain if decompressor.eof else None


def _unfold_zstd(body: bytes, size_max: int) -> bytes | None:
    import zstandard

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    plain = bytearray()
    try:
        for begin in range(0, len(body), ZSTD_STEP):
            plain += decompressor.decompress(body[begin : begin + ZSTD_STEP])
            if len(plain) > size_max:
                raise _TooLarge
            if decompressor.eof:
                break
    except zstandard.ZstdError:
        return None
    return bytes(plain) if decompressor.eof else None


_UNFOLDERS: dict[int, Callable[[bytes, int], bytes | None]] = {
    LZ4: _unfold_lz4, ZSTD: _unfold_zstd,
}  # fmt: skip
