"""Server side of one HTTP/2 connection: converts received bytes to streams, and answers to bytes.

    connection = Connection()
    for stream in connection.receive(data):         read headers, messages, ended
        connection.respond(stream, answer)
    while data := connection.take():                send
        transport.write(data)

A fault of the peer raises no exception: it resets its stream or breaks the connection. A broken
connection is `closing`: send the bytes that `take` still returns, then close the transport.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final, final

from pocketmq.native.machine import i64, read_i64_be
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    ENHANCE_YOUR_CALM,
    FRAME_HEAD_SIZE,
    FRAME_SIZE_ERROR,
    FRAME_SIZE_MIN,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    NO_ERROR,
    PREFACE,
    PROTOCOL_ERROR,
    SETTINGS,
    STREAM_ID_MAX,
    ConnectionFault,
    StreamFault,
    write_goaway,
    write_ping,
    write_settings,
)
from pocketmq.wire.outbound import Outbound
from pocketmq.wire.peer import DRAIN_PING, Peer
from pocketmq.wire.requests import Requests
from pocketmq.wire.stream import STREAM_OVERHEAD, Stream
from pocketmq.wire.streams import Streams

_OWN_PING: Final = b"are you?"
WHOLE: Final[i64] = 1 << 62
"""End position that is beyond all data."""
CONTROL_SIZE_MAX: Final[i64] = 1_048_576
"""The connection breaks if its unsent bytes exceed `output_max` by more than this."""


@final
class Connection:
    """One HTTP/2 connection for gRPC, whose memory stays within `Limits`.

    closing    the connection is broken: send the bytes that `take` returns, then close
    taken      position in the data at which the last `receive` stopped
    """

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = monotonic,
        sizes: dict[bytes, int] | None = None,
        has_pages: bool = False,
    ) -> None:
        """Begins a connection; `take` first returns its SETTINGS.

        clock      monotonic seconds, for rate limits
        sizes      path of each served method -> upper limit of its messages' bytes; None: all paths
                   are served, with `Limits.message_max`
        has_pages  GET and HEAD requests for other paths are returned as streams, for `send_page`
        """
        self.limits = limits or Limits()
        self.closing = False
        self.taken: i64 = 0
        self._streams = Streams()
        self._outbound = Outbound(self.limits, self._streams)
        self._requests = Requests(self.limits, self._streams, self._outbound, clock, sizes)
        self._requests.has_pages = has_pages
        self._peer = Peer(self._requests, self._outbound, self._streams, clock)
        self._rest = b""  # the beginning of a frame, or of the preface
        self._is_begun = False
        self._is_settled = False
        write_settings(
            self._outbound.out,
            [
                (MAX_CONCURRENT_STREAMS, self.limits.streams_max),
                (INITIAL_WINDOW_SIZE, self.limits.stream_window),
                (MAX_HEADER_LIST_SIZE, self.limits.list_max),
            ],
        )
        self._requests.open_connection()

    # -- receiving

    def receive(self, data: bytes, begin: i64 = 0, upto: i64 = WHOLE) -> list[Stream]:
        """Processes received bytes from `begin` on; returns each changed stream once.

        Only frames that begin before `upto` are processed. A stream has changed if it is new or
        reset, has new messages, or its request has ended. A call that cannot be served (not gRPC,
        an unknown method or compression, too large) is refused here; its stream is returned only
        if the server has set its `call`.
        """
        requests = self._requests
        requests.begin_turn()
        end: i64 = len(data)
        self.taken = end
        if self.closing or begin >= end:
            return requests.news
        try:
            p = self._resume(data, begin)
            if p < end:
                p = self._frames(data, p, upto)
                if p >= upto:
                    self.taken = p
                elif p < end:
                    self._rest = data[p:]
            if len(self._outbound.out) > self.limits.output_max + CONTROL_SIZE_MAX:
                raise ConnectionFault(ENHANCE_YOUR_CALM, "the peer does not read")
        except ConnectionFault as fault:
            self._break(fault.code, fault.why)
        return requests.news

    def _resume(self, data: bytes, p: i64) -> i64:
        """Completes a partial preface or frame; returns the position of the next frame."""
        if not self._is_begun:
            missing: i64 = len(PREFACE) - len(self._rest)
            begun = self._rest + data[p : p + missing]
            if not PREFACE.startswith(begun):
                raise ConnectionFault(PROTOCOL_ERROR, "no HTTP/2 preface")
            self._is_begun = len(begun) == len(PREFACE)
            self._rest = b"" if self._is_begun else begun
            return p + missing if self._is_begun else len(data)
        if not self._rest:
            return p
        missing = FRAME_HEAD_SIZE - len(self._rest)
        if missing > 0:
            self._rest += data[p : p + missing]
            if len(self._rest) < FRAME_HEAD_SIZE:
                return len(data)
            p += missing
        missing = FRAME_HEAD_SIZE + payload_size(read_i64_be(self._rest, 0)) - len(self._rest)
        whole = self._rest + data[p : p + missing]
        if missing > len(data) - p:
            self._rest = whole
            return len(data)
        self._rest = b""
        self._frames(whole, 0, len(whole))
        return p + missing

    def _frames(self, data: bytes, p: i64, upto: i64) -> i64:
        end: i64 = len(data)
        while p < upto and end - p >= FRAME_HEAD_SIZE:
            head = read_i64_be(data, p)  # all but the last byte of the stream's id
            size = payload_size(head)
            begin = p + FRAME_HEAD_SIZE
            if size > end - begin:
                break
            kind = head >> 32 & 255
            flags = head >> 24 & 255
            last: i64 = data[p + 8]
            stream_id = (head & 0x7FFFFF) << 8 | last
            p = begin + size
            try:
                self._frame(kind, flags, stream_id, data, begin, p)
            except StreamFault as fault:
                self._requests.cut(stream_id, fault.code)
        return p

    def _frame(self, kind: i64, flags: i64, stream_id: i64, data: bytes, p: i64, end: i64) -> None:
        assert p <= end <= len(data), "the frame exceeds the data"
        requests = self._requests
        unfinished = requests.blocks.stream_id
        if unfinished:
            if kind != CONTINUATION or stream_id != unfinished:
                raise ConnectionFault(PROTOCOL_ERROR, "a frame within a header block")
            requests.continuation(flags, data[p:end])
        elif not self._is_settled:
            if kind != SETTINGS or flags & ACK:
                raise ConnectionFault(PROTOCOL_ERROR, "no SETTINGS after the preface")
            self._is_settled = True
            self._peer.frame(kind, flags, stream_id, data[p:end])
        elif kind == HEADERS:
            requests.headers(flags, stream_id, data, p, end)
        elif kind == DATA:
            requests.data(flags, stream_id, data, p, end)
        else:
            self._peer.frame(kind, flags, stream_id, data[p:end])

    def _break(self, code: i64, why: str) -> None:
        self.closing = True
        self._rest = b""
        write_goaway(self._outbound.out, self._streams.last_id, code, why)
        self._requests.cut_all(code)

    # -- sending

    def take(self) -> bytes:
        """Returns the next bytes to send; b"" if there are none.

        Each call encodes up to about 64 KiB of pending answers. Call it until it returns b"", or
        until the transport's buffer is full.
        """
        if not self.closing:
            self._requests.open_connection()
        return self._outbound.take()

    def respond(self, stream: Stream, message: bytes) -> None:
        """Answers with one message and OK; has no effect on a closed stream."""
        self._outbound.respond(stream, message)

    def send_headers(self, stream: Stream, metadata: list[tuple[bytes, bytes]]) -> None:
        """Begins an answer with metadata; values of `-bin` names are raw bytes."""
        self._outbound.send_headers(stream, metadata)

    def send_message(self, stream: Stream, message: bytes) -> None:
        """Sends one message of an answer, or queues it until the client's windows open."""
        self._outbound.send_message(stream, message)

    def finish(
        self, stream: Stream, status: i64, text: str, metadata: list[tuple[bytes, bytes]]
    ) -> None:
        """Ends an answer with gRPC's status, its text, and trailers."""
        self._outbound.finish(stream, status, text, metadata)

    def send_page(
        self, stream: Stream, status: i64, fields: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Answers a GET or HEAD; field names must be in lower case."""
        self._outbound.send_page(stream, status, fields, body)

    def reset(self, stream: Stream, code: i64 = CANCEL) -> None:
        """Resets a stream."""
        self._outbound.reset(stream, code)

    def consume(self, stream: Stream, size: i64) -> None:
        """Releases `size` bytes of consumed messages to the client's window.

        If a call is answered at once, this is unnecessary: its end releases all its bytes.
        """
        self._requests.consume(stream, size)

    def drop_request(self, stream: Stream) -> None:
        """Drops a call's complete request, whose bytes stay counted until the call ends."""
        self._streams.drop_request(stream)

    # -- the connection

    @property
    def begun(self) -> bool:
        """Whether the peer's preface and SETTINGS were received."""
        return self._is_settled

    @property
    def open_count(self) -> int:
        """Number of calls that run, or whose answers are not completely sent."""
        return len(self._streams.open)

    @property
    def pending(self) -> int:
        """Unsent bytes: answers that wait for the peer's windows, and output for `take`."""
        return self._streams.pending + len(self._outbound.out)

    @property
    def held(self) -> int:
        """Bytes of received requests that are not yet consumed."""
        return self._streams.held

    @property
    def received(self) -> int:
        """Bytes of requests received so far."""
        return self._requests.received

    def weight(self, calls: i64) -> int:
        """Returns the approximate memory of the open streams, in bytes.

        calls   number of streams whose overhead is counted elsewhere
        """
        streams = self._streams
        others: i64 = len(streams.open) - calls
        if others < 0:
            others = 0
        kept = streams.held - streams.dropped
        return kept + streams.listed + STREAM_OVERHEAD * others

    def give_up_stalled(self) -> None:
        """Refuses calls whose unfinished requests have stalled since the previous check."""
        if not self.closing:
            self._requests.give_up_stalled()

    @property
    def refuses(self) -> bool:
        """Whether the last GOAWAY of `drain` was written; new calls are refused from then on."""
        return self._requests.last_served >= 0

    @property
    def drained(self) -> bool:
        """Whether `drain` is complete: no call is open, and no new call can be opened."""
        return self._requests.last_served >= 0 and not self._streams.open

    @property
    def pongs(self) -> int:
        """Number of the peer's answers to pings, except the ping of `drain`."""
        return self._peer.pongs

    def ping(self) -> None:
        """Sends a PING; the peer's answer increments `pongs`."""
        write_ping(self._outbound.out, 0, _OWN_PING)

    def drain(self) -> None:
        """Refuses new calls, except calls that the peer sent before it received the GOAWAY.

        The first GOAWAY contains the largest possible stream id. The last GOAWAY is sent after the
        answer to a ping, or at a second `drain`.
        """
        if self.closing or self._requests.last_served >= 0:
            return
        if self._peer.is_draining:
            self._peer.end_drain()
            return
        self._peer.is_draining = True
        write_goaway(self._outbound.out, STREAM_ID_MAX, NO_ERROR, "")
        write_ping(self._outbound.out, 0, DRAIN_PING)


def payload_size(head: i64) -> i64:
    """Returns the payload size from the first eight bytes of a frame header.

    Errors   ConnectionFault FRAME_SIZE_ERROR: the payload exceeds FRAME_SIZE_MIN
    """
    size = head >> 40 & 0xFFFFFF
    if size > FRAME_SIZE_MIN:
        raise ConnectionFault(FRAME_SIZE_ERROR, "a frame above the maximum size")
    return size
