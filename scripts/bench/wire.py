"""CPU cost of HTTP/2 per call in PocketMQ's transport, without sockets: bytes in, bytes out."""

import struct
from collections.abc import Sequence
from time import process_time, thread_time

from harness.figures import Extent, Figure
from pocketmq.native import why_not_compiled
from pocketmq.native.machine import BytesWriter
from pocketmq.wire.connection import Connection
from pocketmq.wire.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    write_frame_head,
    write_settings,
    write_window_update,
)
from pocketmq.wire.hpack import Decoder
from pocketmq.wire.huffman import LENGTHS
from pocketmq.wire.metadata import write_literal

CALLS = 20_000
REQUEST = bytes(1_024)
ANSWER = bytes(60)
# Headers that RocketMQ's Java client sends with each call.
FIELDS = [
    *((b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"127.0.0.1:8081")),
    *((b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"), (b"te", b"trailers")),
    *((b"content-type", b"application/grpc"), (b"user-agent", b"grpc-java-netty/1.53.0")),
    *((b"x-mq-language", b"JAVA"), (b"x-mq-protocol", b"v2"), (b"x-mq-client-version", b"5.0.7")),
    *((b"x-mq-request-id", b"6d1f3c0e-8d5f-4a3b-9c66-0a4e5d1b2c3d"), (b"x-mq-namespace", b"")),
    *((b"x-mq-client-id", b"host@12345@0@abcdefgh"), (b"x-mq-date-time", b"20261122T120000Z")),
    (b"authorization", b"MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=01"),
    *((b"grpc-accept-encoding", b"gzip"), (b"grpc-timeout", b"2999886u")),
]  # fmt: skip


def wire_figures(extent: Extent) -> list[Figure]:
    """Microseconds of processor time of a unary call of 1 KiB, and of a block of 17 literals."""
    form = "the sources" if why_not_compiled() else "compiled"
    figures = []
    for label, changing in (("the same headers", False), ("two that differ each time", True)):
        for per_read in (1, 64):
            reads = _reads(per_read, changing=changing)
            rounds = [_calls_us(reads) for _ in range(extent.rounds)]
            what = f"a unary call of 1 KiB, {label}, {per_read} in a read ({form})"
            figures.append(Figure.of("wire", what, rounds, "µs"))
    for label, block in (("plain", _literals()), ("Huffman-coded", _coded_literals())):
        rounds = [_block_us(block) for _ in range(extent.rounds)]
        figures.append(Figure.of("wire", f"17 literal fields, {label} ({form})", rounds, "µs"))
    return figures


def _reads(per_read: int, *, changing: bool) -> list[bytes]:
    """Returns a client's reads; headers sent before are HPACK-indexed."""
    names = BytesWriter()
    for name, value in FIELDS[:-1]:
        _write_indexed(names, name, value)
    reads, known = [], bytes(range(0xBE + len(FIELDS) - 2, 0xBD, -1))
    for first in range(0, CALLS, per_read):
        out = BytesWriter()
        for number in range(first, first + per_read):
            block = BytesWriter()
            block.write(known if number else names.getvalue())
            if changing:
                write_literal(block, b"grpc-timeout", b"%du" % (1_000_000 + number))
                write_literal(block, b"x-call", b"%032x" % number)
            _write_call(out, 2 * number + 1, block.getvalue())
        reads.append(out.getvalue())
    return reads


def _write_indexed(out: BytesWriter, name: bytes, value: bytes) -> None:
    field = BytesWriter()
    write_literal(field, name, value)
    out.write(b"\x40" + field.getvalue()[1:])


def _write_call(out: BytesWriter, stream_id: int, block: bytes) -> None:
    write_frame_head(out, len(block), HEADERS, END_HEADERS, stream_id)
    out.write(block)
    write_frame_head(out, len(REQUEST) + 5, DATA, END_STREAM, stream_id)
    out.write(struct.pack(">BI", 0, len(REQUEST)) + REQUEST)


def _calls_us(reads: Sequence[bytes]) -> float:
    connection = Connection()
    begin = BytesWriter()
    begin.write(PREFACE)
    write_settings(begin, [])
    write_window_update(begin, 0, 2**31 - 1 - 65_535)
    connection.receive(begin.getvalue())
    connection.take()
    begun = process_time()
    for read in reads:
        for stream in connection.receive(read):
            connection.respond(stream, ANSWER)
        connection.take()
    spent = process_time() - begun
    assert not connection.closing
    assert connection.open_count == 0
    return spent / CALLS * 1e6


def _literals() -> bytes:
    out = BytesWriter()
    for name, value in FIELDS:
        write_literal(out, name, value)
    return out.getvalue()


def _coded_literals() -> bytes:
    """Returns the block of literals with Huffman-coded strings."""
    codes: dict[int, str] = {}
    code = last = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(LENGTHS)):
        code <<= length - last
        codes[symbol] = format(code, f"0{length}b")
        code, last = code + 1, length
    out = b""
    for field in FIELDS:
        out += b"\0"
        for text in field:
            bits = "".join(codes[byte] for byte in text)
            bits += "1" * (-len(bits) % 8)
            coded = int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:]
            out += bytes((128 | len(coded),)) + coded
    return out


def _block_us(block: bytes) -> float:
    decoder = Decoder(1 << 16)
    assert [(field.name, field.value) for field in decoder.decode(block)] == FIELDS
    begun = process_time()
    for _ in range(CALLS):
        decoder.decode(block)
    return (process_time() - begun) / CALLS * 1e6


class Calls:
    """Calls of one method with one request; from the second call on headers are HPACK-indexed."""

    def __init__(self, request: bytes, path: bytes) -> None:
        self._request = struct.pack(">BI", 0, len(request)) + request
        fields = [(n, path if n == b":path" else v) for n, v in FIELDS[:-1]]
        names = BytesWriter()
        for name, value in fields:
            _write_indexed(names, name, value)
        self._first = names.getvalue()
        self._known = bytes(range(0xBE + len(fields) - 1, 0xBD, -1))
        begin = BytesWriter()
        begin.write(PREFACE)
        write_settings(begin, [])
        write_window_update(begin, 0, 2**31 - 1 - 65_535)
        self.preface = begin.getvalue()

    def reads(self, count: int, per_read: int) -> list[bytes]:
        """Returns `count` calls, `per_read` in each read."""
        found = []
        for first in range(0, count, per_read):
            out = BytesWriter()
            for number in range(first, first + per_read):
                block = self._known if number else self._first
                write_frame_head(out, len(block), HEADERS, END_HEADERS, 2 * number + 1)
                out.write(block)
                write_frame_head(out, len(self._request), DATA, END_STREAM, 2 * number + 1)
                out.write(self._request)
            found.append(out.getvalue())
        return found

    def wire_us(self, reads: Sequence[bytes], answer: bytes) -> float:
        """Returns the HTTP/2 cost (µs) of a call with this reply."""
        connection = Connection()
        connection.receive(self.preface)
        count, begun = 0, thread_time()
        for read in reads:
            for stream in connection.receive(read):
                connection.respond(stream, answer)
                count += 1
            connection.take()
        return (thread_time() - begun) / count * 1e6
