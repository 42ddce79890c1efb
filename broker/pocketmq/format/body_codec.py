"""The body of a record, which may be compressed.

Bit 0 of the system flag is set for a compressed body; bits 8-10 name the codec: 1 LZ4, 2 ZSTD,
3 ZLIB; 0 means ZLIB.
Source: MessageDecoder, CompressionType.
"""

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from pocketmq.model.message import FLAG_COMPRESSED

PLAIN_SIZE_MAX: Final = 64 * 1024 * 1024
"""Largest decompressed body; a larger body stays compressed, as no producer may send it."""
SHOWN_SIZE_MAX: Final = 15 * 1024 * 1024
"""Upper limit of decompressed bytes in one reply and in each body; a reply has at most 16 MiB."""
COMPRESSION_SHIFT: Final = 8
COMPRESSION_MASK: Final = 0x7
LZ4: Final = 1
ZSTD: Final = 2
CODECS: Final = {LZ4: "lz4", ZSTD: "zstd"}
"""Names of codecs; all other codecs are zlib."""
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_STEP: Final = 1024
"""Compressed bytes per step: as a block of 128 KiB takes four bytes, at most 32 MiB of output."""

_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
"""Accepts zlib, sent by RocketMQ clients of version 4, and gzip, sent by those of version 5."""


def plain_body(body: bytes, system_flag: int) -> bytes:
    """Returns the decompressed body; unchanged if it is invalid or above `PLAIN_SIZE_MAX`."""
    if not system_flag & FLAG_COMPRESSED or not body:
        return body
    try:
        plain = _UNFOLDERS.get(codec_of(system_flag), _unfold_zlib)(body, PLAIN_SIZE_MAX)
    except _TooLarge:
        return body
    return body if plain is None else plain


def codec_of(system_flag: int) -> int:
    """Returns the codec number of a compressed body; 0 and unknown numbers mean zlib or gzip."""
    return system_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK


def is_gzip(body: bytes, system_flag: int) -> bool:
    """Returns whether a body is gzip: the one compression that version 5 clients decompress."""
    if not system_flag & FLAG_COMPRESSED or codec_of(system_flag) in _UNFOLDERS:
        return False
    return body.startswith(GZIP_MAGIC)


class PlainBody(NamedTuple):
    """A body as a caller gets it.

    codec   name of the compression if the body is too large to be decompressed, else ""
    """

    content: bytes
    codec: str = ""


class BodyBudget:
    """Limits the decompressed bytes of one call, including discarded ones.

    A body that exceeds the rest of the budget is left for the next call. A body that is too large
    for any call is returned as stored, with the codec's name, so that it never blocks later bodies.
    """

    __slots__ = ("_body_max", "left_bytes")

    def __init__(self, bytes_max: int = SHOWN_SIZE_MAX, *, body_max: int = SHOWN_SIZE_MAX) -> None:
        assert bytes_max >= body_max, "one body may exceed the whole budget"
        self.left_bytes = bytes_max
        self._body_max = body_max

    def plain(self, body: bytes, system_flag: int) -> PlainBody | None:
        """Returns a body for a caller; None if it exceeds the rest of the budget.

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
        assert self.left_bytes >= 0, "budget is overdrawn"
        return PlainBody(found)

    def plain_or_stored(self, body: bytes, system_flag: int) -> PlainBody:
        """Returns a body for a caller: as stored if it exceeds the rest of the budget."""
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
