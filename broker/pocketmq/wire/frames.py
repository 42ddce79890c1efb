"""Constants of HTTP/2 (RFC 9113, sections 4, 6 and 7), and functions that write frames."""

from typing import Final

from pocketmq.native.machine import (
    BytesWriter,
    i16,
    i32,
    i64,
    u8,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD_SIZE: Final[i64] = 9
FRAME_SIZE_MIN: Final[i64] = 16_384
"""Largest payload that every peer must accept; larger ones are neither accepted nor sent."""
FRAME_SIZE_MAX: Final[i64] = 16_777_215
WINDOW_MAX: Final[i64] = 0x7FFFFFFF
WINDOW_DEFAULT: Final[i64] = 65_535
STREAM_ID_MAX: Final[i64] = 0x7FFFFFFF
TABLE_SIZE_DEFAULT: Final[i64] = 4_096

# Kinds of frames.
DATA: Final[i64] = 0
HEADERS: Final[i64] = 1
PRIORITY: Final[i64] = 2
RST_STREAM: Final[i64] = 3
SETTINGS: Final[i64] = 4
PUSH_PROMISE: Final[i64] = 5
PING: Final[i64] = 6
GOAWAY: Final[i64] = 7
WINDOW_UPDATE: Final[i64] = 8
CONTINUATION: Final[i64] = 9

# Flags.
ACK: Final[i64] = 1
END_STREAM: Final[i64] = 1
END_HEADERS: Final[i64] = 4
PADDED: Final[i64] = 8
PRIORITIZED: Final[i64] = 32

# Identifiers in SETTINGS.
HEADER_TABLE_SIZE: Final[i64] = 1
ENABLE_PUSH: Final[i64] = 2
MAX_CONCURRENT_STREAMS: Final[i64] = 3
INITIAL_WINDOW_SIZE: Final[i64] = 4
MAX_FRAME_SIZE: Final[i64] = 5
MAX_HEADER_LIST_SIZE: Final[i64] = 6

# Error codes.
NO_ERROR: Final[i64] = 0
PROTOCOL_ERROR: Final[i64] = 1
INTERNAL_ERROR: Final[i64] = 2
FLOW_CONTROL_ERROR: Final[i64] = 3
STREAM_CLOSED: Final[i64] = 5
FRAME_SIZE_ERROR: Final[i64] = 6
REFUSED_STREAM: Final[i64] = 7
CANCEL: Final[i64] = 8
COMPRESSION_ERROR: Final[i64] = 9
ENHANCE_YOUR_CALM: Final[i64] = 11
HTTP_1_1_REQUIRED: Final[i64] = 13


class ConnectionFault(Exception):  # never leaves the package: `Connection` sends a GOAWAY
    """Connection error caused by the peer; the GOAWAY contains `code` and `why`."""

    def __init__(self, code: i64, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class StreamFault(Exception):
    """Stream error caused by the peer; the RST_STREAM contains `code`."""

    def __init__(self, code: i64, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def write_frame_head(out: BytesWriter, size: i64, kind: i64, flags: i64, stream_id: i64) -> None:
    """Writes the nine bytes of a frame header."""
    write_i64_be(out, size << 40 | kind << 32 | flags << 24 | stream_id >> 8)
    out.append(u8(stream_id & 255))


def write_settings(out: BytesWriter, settings: list[tuple[int, int]]) -> None:
    """Writes SETTINGS of (identifier, value) pairs."""
    write_frame_head(out, 6 * len(settings), SETTINGS, 0, 0)
    for identifier, value in settings:
        write_i16_be(out, i16(identifier))
        write_i32_be(out, i32(value))


def write_window_update(out: BytesWriter, stream_id: i64, size: i64) -> None:
    """Writes WINDOW_UPDATE; stream id 0 means the connection."""
    write_frame_head(out, 4, WINDOW_UPDATE, 0, stream_id)
    write_i32_be(out, i32(size))


def write_reset(out: BytesWriter, stream_id: i64, code: i64) -> None:
    """Writes RST_STREAM."""
    write_frame_head(out, 4, RST_STREAM, 0, stream_id)
    write_i32_be(out, i32(code))


def write_goaway(out: BytesWriter, last_id: i64, code: i64, why: str) -> None:
    """Writes GOAWAY: streams with ids above `last_id` are ignored."""
    debug = why.encode()
    write_frame_head(out, 8 + len(debug), GOAWAY, 0, 0)
    write_i32_be(out, i32(last_id))
    write_i32_be(out, i32(code))
    out.write(debug)


def write_ping(out: BytesWriter, flags: i64, payload: bytes) -> None:
    """Writes PING, or with flag ACK an answer; the payload has 8 bytes."""
    assert len(payload) == 8, "the payload of a ping has not 8 bytes"
    write_frame_head(out, 8, PING, flags, 0)
    out.write(payload)


def write_block(out: BytesWriter, stream_id: i64, block: bytes, flags: i64) -> None:
    """Writes a header block as HEADERS and CONTINUATION frames.

    flags   END_STREAM or 0
    """
    size: i64 = len(block)
    if size <= FRAME_SIZE_MIN:
        write_frame_head(out, size, HEADERS, flags | END_HEADERS, stream_id)
        out.write(block)
        return
    write_frame_head(out, FRAME_SIZE_MIN, HEADERS, flags, stream_id)
    out.write(block[:FRAME_SIZE_MIN])
    p: i64 = FRAME_SIZE_MIN
    while p < size:
        n = size - p
        if n > FRAME_SIZE_MIN:
            n = FRAME_SIZE_MIN
        write_frame_head(out, n, CONTINUATION, END_HEADERS if p + n == size else 0, stream_id)
        out.write(block[p : p + n])
        p += n
