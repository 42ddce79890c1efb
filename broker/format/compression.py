"""Bodies that producers compressed, as their consumers want them.

Bit 0 of the system flag says compressed; bits 8-10 say how: 1 LZ4, 2 ZSTD, 3 ZLIB, 0 ZLIB too.
Source: CompressionType, MessageDecoder.
"""

import zlib
from collections.abc import Callable
from typing import Final

from broker.model.message import FLAG_COMPRESSED

PLAIN_SIZE_MAX: Final = 64 * 1024 * 1024
"""A body that unfolds to more is left as it is: no producer within the size limits made it."""
COMPRESSION_SHIFT: Final = 8
COMPRESSION_MASK: Final = 0x7
LZ4: Final = 1
ZSTD: Final = 2
ZSTD_STEP: Final = 1024
"""Bytes unfolded in one go; at a block of 128 KiB for every four they become 32 MiB at most."""


def plain_body(body: bytes, system_flag: int) -> bytes:
    """Return the decompressed body, or the body itself when it is not (or falsely) flagged."""
    if not system_flag & FLAG_COMPRESSED or not body:
        return body
    kind = system_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK
    unfold = _UNFOLDERS.get(kind, _unfold_zlib)
    plain = unfold(body)
    return body if plain is None else plain


def _unfold_zlib(body: bytes) -> bytes | None:
    unfolder = zlib.decompressobj()
    try:
        plain = unfolder.decompress(body, PLAIN_SIZE_MAX)
    except zlib.error:
        return None
    return plain if unfolder.eof else None


def _unfold_lz4(body: bytes) -> bytes | None:
    import lz4.frame

    unfolder = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = unfolder.decompress(body, PLAIN_SIZE_MAX)
    except RuntimeError:
        return None
    return plain if unfolder.eof else None


def _unfold_zstd(body: bytes) -> bytes | None:
    import zstandard

    unfolder = zstandard.ZstdDecompressor().decompressobj()
    plain = bytearray()
    try:
        for begin in range(0, len(body), ZSTD_STEP):
            plain += unfolder.decompress(body[begin : begin + ZSTD_STEP])
            if unfolder.eof or len(plain) > PLAIN_SIZE_MAX:
                break
    except zstandard.ZstdError:
        return None
    return bytes(plain) if unfolder.eof and len(plain) <= PLAIN_SIZE_MAX else None


_UNFOLDERS: dict[int, Callable[[bytes], bytes | None]] = {LZ4: _unfold_lz4, ZSTD: _unfold_zstd}
