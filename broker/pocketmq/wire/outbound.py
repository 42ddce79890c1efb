"""Frames to the peer: one output buffer, filled within the peer's windows."""

from typing import Final, final

from pocketmq.native.machine import BytesWriter, i32, i64, write_i32_be
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_SIZE_MIN,
    HEADERS,
    NO_ERROR,
    WINDOW_DEFAULT,
    write_block,
    write_frame_head,
    write_reset,
)
from pocketmq.wire.messages import OK, PREFIX_SIZE, UNIMPLEMENTED
from pocketmq.wire.metadata import escaped, write_literal, write_metadata
from pocketmq.wire.stream import Stream
from pocketmq.wire.streams import CUT_HERE, DONE, Streams

_HEAD: Final = b"\x88\x0f\x10\x10application/grpc"
"""":status: 200" as a static index, "content-type" as a literal without indexing."""
_HEAD_SIZE: Final[i64] = 20
_OK: Final = b"\x00\x0bgrpc-status\x010"
_OK_SIZE: Final[i64] = 15
_ACCEPTED: Final = (b"grpc-accept-encoding", b"identity,gzip")
_EMPTY_TABLE: Final = b"\x20"
"""Update of the dynamic table's size to 0; sent once, if the peer's table is smaller than the
default."""
_HTTP_TEXT: Final = b"this port speaks gRPC: POST with content-type application/grpc\n"
_HTTP_HEAD: Final = {
    405: b"\x08\x03405\x0f\x10\x0atext/plain\x0f\x07\x04POST",
    415: b"\x08\x03415\x0f\x10\x0atext/plain",
}
_PAGE_END: Final = b"\x00"
"""Value of `stream.trailers` for a page: its stream ends with an empty DATA frame, without
trailers. No encoded field block has this value."""
KEPT_SIZE_MAX: Final[i64] = 65_536
"""Size above which the output buffer is replaced, to free its memory."""
PIECE_SIZE: Final[i64] = 65_536
"""Approximate size of a piece of pending output; larger pieces would need fresh memory pages."""
SEEN_SIZE_MIN: Final[i64] = 1_024
"""Minimum size of a slice that is taken as a memoryview, which saves a copy."""


@final
class Outbound:
    """Frames to send: answers, and frames that other modules write into `out`.

    window    send window of the connection, in bytes
    initial   initial send window of each stream
    answered  number of DATA frames that were written so far
    """

    def __init__(self, limits: Limits, streams: Streams) -> None:
        self.limits = limits
        self.streams = streams
        self.out = BytesWriter()
        self.window: i64 = WINDOW_DEFAULT
        self.initial: i64 = WINDOW_DEFAULT
        self.answered: i64 = 0
        self.is_size_update_due = False
        self.is_table_empty = False  # whether _EMPTY_TABLE was sent or is due

    # -- answers

    def respond(self, stream: Stream, message: bytes) -> None:
        """Answers a call with one message and the status OK."""
        if stream.closed:
            return
        out = self.out
        size: i64 = len(message) + PREFIX_SIZE
        if not self._is_free(stream, size) or stream.is_head_sent or self.is_size_update_due:
            self.send_message(stream, message)
            self.finish(stream, OK, "", [])
            return
        stream_id = stream.id
        write_frame_head(out, _HEAD_SIZE, HEADERS, END_HEADERS, stream_id)
        out.write(_HEAD)
        self._write_message(stream, message)
        write_frame_head(out, _OK_SIZE, HEADERS, END_HEADERS | END_STREAM, stream_id)
        out.write(_OK)
        self._end(stream)

    def send_headers(self, stream: Stream, metadata: list[tuple[bytes, bytes]]) -> None:
        """Begins an answer with metadata; without this call, the first message begins it."""
        if stream.closed or stream.is_head_sent:
            return
        stream.is_head_sent = True
        block = BytesWriter()
        block.write(_HEAD)
        write_metadata(block, metadata)
        self._write_head(stream, block.getvalue(), 0)

    def send_message(self, stream: Stream, message: bytes) -> None:
        """Sends a message as one DATA frame, or queues all of it if that is not possible now."""
        if stream.closed or stream.trailers:
            return
        if not stream.is_head_sent:
            self.send_headers(stream, [])
        size: i64 = len(message) + PREFIX_SIZE
        if self._is_free(stream, size):
            self._write_message(stream, message)
            return
        prefix = BytesWriter()
        prefix.append(0)
        write_i32_be(prefix, i32(size - PREFIX_SIZE))
        self._keep(stream, prefix.getvalue())
        if message:
            self._keep(stream, message)

    def finish(
        self, stream: Stream, status: i64, text: str, metadata: list[tuple[bytes, bytes]]
    ) -> None:
        """Ends an answer after its pending messages."""
        if stream.closed or stream.trailers:
            return
        block = BytesWriter()
        if not stream.is_head_sent:
            stream.is_head_sent = True
            block.write(_HEAD)
            if status == UNIMPLEMENTED:
                write_metadata(block, [_ACCEPTED])
        if status == OK:
            block.write(_OK)
        else:
            write_literal(block, b"grpc-status", str(status).encode())
        if text:
            write_literal(block, b"grpc-message", escaped(text))
        write_metadata(block, metadata)
        stream.trailers = block.getvalue()
        if not stream.pending:
            self._finish(stream)

    def refuse(self, stream: Stream, status: i64, why: str) -> None:
        """Ends an answer at once, and drops its pending messages."""
        self.streams.pending -= stream.pending
        stream.pending = 0
        stream.parts.clear()
        stream.trailers = b""
        self.finish(stream, status, why, [])

    def refuse_request(self, stream: Stream) -> None:
        """Answers a request that is no gRPC call with an HTTP status."""
        stream.is_head_sent = True
        head = _HTTP_HEAD[stream.headers.http_status]
        if stream.headers.method == b"HEAD":
            self._write_head(stream, head, END_STREAM)
            self._end(stream)
            return
        self._write_head(stream, head, 0)
        self._keep(stream, _HTTP_TEXT)
        self.finish(stream, UNIMPLEMENTED, "", [])

    def send_page(
        self, stream: Stream, status: i64, fields: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Answers a GET or HEAD with a page; the body is sent as far as the windows allow.

        fields   header fields, with names in lower case
        """
        if stream.closed or stream.is_head_sent:
            return
        stream.is_head_sent = True
        block = BytesWriter()
        write_literal(block, b":status", str(status).encode())
        for name, value in fields:
            write_literal(block, name, value)
        if not body or stream.headers.method == b"HEAD":
            self._write_head(stream, block.getvalue(), END_STREAM)
            self._end(stream)
            return
        self._write_head(stream, block.getvalue(), 0)
        self._keep(stream, body)
        stream.trailers = _PAGE_END

    def reset(self, stream: Stream, code: i64) -> None:
        """Resets a stream."""
        if stream.closed:
            return
        stream.reset_code = code
        write_reset(self.out, stream.id, code)
        self.streams.close(stream, CUT_HERE)

    # -- windows

    def wake(self, stream: Stream) -> None:
        """Queues a stream with pending bytes, after its window may have opened."""
        if stream.pending and not stream.is_ready:
            self.streams.turns.join(stream)

    def take(self) -> bytes:
        """Removes and returns the bytes to send now."""
        if self.streams.turns.count and self.window > 0:
            return self._piece()
        return self._written()

    def _written(self) -> bytes:
        """Removes and returns the contents of `out`."""
        out = self.out
        if len(out) == 0:
            return b""
        data = out.getvalue()
        if len(data) > KEPT_SIZE_MAX:
            self.out = BytesWriter()
        else:
            out.truncate(0)
        return data

    def _piece(self) -> bytes:
        pieces: list[bytes | memoryview] = []
        turns = self.streams.turns
        size: i64 = 0
        while turns.count and self.window > 0 and size < PIECE_SIZE:
            size += self._send_some(turns.next(), pieces)
        pieces.append(self._written())
        return b"".join(pieces)

    def _send_some(self, stream: Stream, pieces: list[bytes | memoryview]) -> i64:
        """Sends one DATA frame of a stream; a stream with a closed window waits for `wake`."""
        size = stream.pending
        room = self.initial + stream.credit
        if size > FRAME_SIZE_MIN:
            size = FRAME_SIZE_MIN
        if size > room:
            size = room
        if size <= 0:
            return 0
        if size > self.window:
            size = self.window
        assert size > 0, "the connection window is closed"
        write_frame_head(self.out, size, DATA, 0, stream.id)
        pieces.append(self._written())
        _take_parts(stream, size, pieces)
        self._count(stream, size)
        stream.pending -= size
        self.streams.pending -= size
        if stream.pending:
            self.wake(stream)
        elif stream.trailers:
            self._finish(stream)
        return size

    # -- steps

    def _is_free(self, stream: Stream, size: i64) -> bool:
        """Whether DATA of this size can be written at once, as one frame."""
        return (
            size <= FRAME_SIZE_MIN
            and size <= self.window
            and size <= self.initial + stream.credit
            and not stream.pending
            and len(self.out) < self.limits.output_max
        )

    def _write_message(self, stream: Stream, message: bytes) -> None:
        out = self.out
        size: i64 = len(message) + PREFIX_SIZE
        write_frame_head(out, size, DATA, 0, stream.id)
        out.append(0)
        write_i32_be(out, i32(size - PREFIX_SIZE))
        out.write(message)
        self._count(stream, size)

    def _count(self, stream: Stream, size: i64) -> None:
        self.answered += 1
        self.window -= size
        stream.credit -= size
        assert self.window >= 0, "more DATA than the peer's window"

    def _keep(self, stream: Stream, part: bytes) -> None:
        stream.parts.append(part)
        stream.pending += len(part)
        self.streams.pending += len(part)
        self.wake(stream)

    def _write_head(self, stream: Stream, block: bytes, flags: i64) -> None:
        if self.is_size_update_due:
            self.is_size_update_due = False
            block = _EMPTY_TABLE + block
        write_block(self.out, stream.id, block, flags)

    def _finish(self, stream: Stream) -> None:
        if stream.trailers == _PAGE_END:
            write_frame_head(self.out, 0, DATA, END_STREAM, stream.id)
        else:
            self._write_head(stream, stream.trailers, END_STREAM)
        self._end(stream)

    def _end(self, stream: Stream) -> None:
        """Closes an answered stream; if its client still sends, RST_STREAM stops the client."""
        if stream.ended:
            self.streams.close(stream, DONE)
        else:
            write_reset(self.out, stream.id, NO_ERROR)
            self.streams.close(stream, CUT_HERE)


def _take_parts(stream: Stream, size: i64, pieces: list[bytes | memoryview]) -> None:
    parts = stream.parts
    gone: i64 = 0
    start = stream.part_start
    while size > 0:
        part = parts[gone]
        left = len(part) - start
        taken = left if left < size else size
        if taken == len(part):
            pieces.append(part)
        elif taken < SEEN_SIZE_MIN:
            pieces.append(part[start : start + taken])
        else:
            pieces.append(memoryview(part)[start : start + taken])
        size -= taken
        start += taken
        if taken == left:
            start = 0
            gone += 1
    stream.part_start = start
    if gone:
        del parts[:gone]
