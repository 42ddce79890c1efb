"""What clients fill of a record: the property block, and the body, which may be compressed.

Properties: name, 0x01, value, 0x02, one pair behind the other
    K E Y S 01 k 1   k 2 02 T A G S 01 T a g A 02
There is no escaping: a name or value with one of the separators cannot be stored. The last
separator may be missing (4.9.1 to 5.1.4 wrote none). A pair with an empty name or an empty value
is dropped by every reader; of duplicates the last one wins.

Body: bit 0 of the system flag says compressed; bits 8-10 how: 1 LZ4, 2 ZSTD, 3 ZLIB, 0 ZLIB too.
Source: MessageDecoder.messageProperties2String, string2messageProperties; CompressionType.
"""

import zlib
from collections.abc import Callable
from typing import Final

from broker.format.layout import Buffer
from broker.model.message import FLAG_COMPRESSED

NAME_SEPARATOR: Final = "\x01"
PAIR_SEPARATOR: Final = "\x02"
PROPERTIES_SIZE_MAX: Final = 32_767
"""The length field is a signed i16."""
PLAIN_SIZE_MAX: Final = 64 * 1024 * 1024
"""A body that unfolds to more is left as it is: no producer within the size limits made it."""
COMPRESSION_SHIFT: Final = 8
COMPRESSION_MASK: Final = 0x7
LZ4: Final = 1
ZSTD: Final = 2
ZSTD_STEP: Final = 1024
"""Bytes unfolded in one go; at a block of 128 KiB for every four they become 32 MiB at most."""

_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
"""RocketMQ's clients of version 4 send the one, those of version 5 the other."""


def encode_properties(properties: dict[str, str]) -> bytes:
    """Return the block of the pairs in the order given, with a separator behind the last one."""
    return "".join(
        f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}" for name, value in properties.items()
    ).encode()


def decode_properties(block: Buffer) -> dict[str, str]:
    """Return the pairs of a block; bytes that are not UTF-8 become replacement characters."""
    properties: dict[str, str] = {}
    for pair in bytes(block).decode("utf-8", "replace").split(PAIR_SEPARATOR):
        name, _, value = pair.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def plain_body(body: bytes, system_flag: int) -> bytes:
    """Return the decompressed body, or the body itself when it is not (or falsely) flagged."""
    if not system_flag & FLAG_COMPRESSED or not body:
        return body
    kind = system_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK
    unfold = _UNFOLDERS.get(kind, _unfold_zlib)
    plain = unfold(body)
    return body if plain is None else plain


def _unfold_zlib(body: bytes) -> bytes | None:
    unfolder = zlib.decompressobj(_ZLIB_OR_GZIP)
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
