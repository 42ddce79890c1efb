"""Server side of one HTTP/2 connection: bytes in, streams with news out; and back.

    connection = Connection()
    for stream in connection.receive(data):         incoming: see headers, messages, ended
        connection.respond(stream, answer)
    while data := connection.take():                outgoing
        transport.write(data)

Raises nothing for faults of a peer. A fault breaks its stream, or the connection. A broken one is
`closing`: the output that `take` still returns is sent, and then the transport is closed.
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
"""No data is as long."""
CONTROL_SIZE_MAX: Final[i64] = 1_048_576
"""Bytes of output beyond those of answers; a peer that lets more wait reads nothing."""


@final
class Connection:
    """One HTTP/2 connection with gRPC on it. Cost: memory within `Limits`, whatever the peer does.

    closing    the connection is broken: send what `take` returns, then close
    taken      how far the last `receive` came in its bytes
    """

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = monotonic,
        sizes: dict[bytes, int] | None = None,
        has_pages: bool = False,
    ) -> None:
        """Begins a connection: its SETTINGS are the first that `take` returns.

        clock   seconds that only grow; asked at the beginning and where a peer does much of little
        sizes   by the path of each method that is served the bytes of its largest message, looked
                at for each call; None: all are served, and `Limits.message_max` holds
        has_pages   a GET or HEAD of no method's path is a stream with news, for `send_page`
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

    # -- what comes

    def receive(self, data: bytes, begin: i64 = 0, upto: i64 = WHOLE) -> list[Stream]:
        """Takes the transport's bytes from `begin` on; returns the streams with news, each once.

        Frames that begin before `upto` are taken; `taken` is where the next one begins, the end
        of `data` where no frame does.

        News are a new stream, messages, the end of a request, or a stream that was cut off. No news
        is a request that cannot be served, which is answered here: no gRPC, no such method, an
        unknown compression, metadata or a message over its limit.
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
                raise ConnectionFault(ENHANCE_YOUR_CALM, "the peer reads nothing")
        except ConnectionFault as fault:
            self._break(fault.code, fault.why)
        return requests.news

    def _resume(self, data: bytes, p: i64) -> i64:
        """Finish the preface or a frame that was cut short; return where the next frame begins."""
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
        """Takes all whole frames from `p` on that begin before `upto`; returns their end."""
        end: i64 = len(data)
        while p < upto and end - p >= FRAME_HEAD_SIZE:
            head = read_i64_be(data, p)  # all but the last byte of the stream's number
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
        """Takes one frame with its payload at [p, end)."""
        assert p <= end <= len(data), "a frame lies within what came"
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
        """Ends the connection: all its streams are cut off."""
        self.closing = True
        self._rest = b""
        write_goaway(self._outbound.out, self._streams.last_id, code, why)
        self._requests.cut_all(code)

    # -- what goes

    def take(self) -> bytes:
        """Returns the bytes to send now; empty when there are none.

        Answers that wait are made ready here, about 64 KiB at a time: call it
        again until it is empty, or until the transport takes no more.
        """
        if not self.closing:
            self._requests.open_connection()
        return self._outbound.take()

    def respond(self, stream: Stream, message: bytes) -> None:
        """Answers with one message and OK, cheapest if it can be sent at once; closed: nothing."""
        self._outbound.respond(stream, message)

    def send_headers(self, stream: Stream, metadata: list[tuple[bytes, bytes]]) -> None:
        """Begins an answer with the call's own fields; values of `-bin` names as they are."""
        self._outbound.send_headers(stream, metadata)

    def send_message(self, stream: Stream, message: bytes) -> None:
        """Sends one message of an answer; `stream.pending` bytes wait for the client."""
        self._outbound.send_message(stream, message)

    def finish(
        self, stream: Stream, status: i64, text: str, metadata: list[tuple[bytes, bytes]]
    ) -> None:
        """Ends an answer: gRPC's status, its text, and the call's own trailers."""
        self._outbound.finish(stream, status, text, metadata)

    def send_page(
        self, stream: Stream, status: i64, fields: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Answers a GET or HEAD; the names of fields are in lower case."""
        self._outbound.send_page(stream, status, fields, body)

    def reset(self, stream: Stream, code: i64 = CANCEL) -> None:
        """Cuts a stream off; nothing more of it comes or goes."""
        self._outbound.reset(stream, code)

    def consume(self, stream: Stream, size: i64) -> None:
        """Tells that messages of `size` bytes were taken: the client may send as many again.

        Needless for calls that are answered whole at once: their end gives all back.
        """
        self._requests.consume(stream, size)

    def drop_request(self, stream: Stream) -> None:
        """Keeps a call's whole request no longer; its client may send as much again at its end."""
        self._streams.drop_request(stream)

    # -- the connection

    @property
    def begun(self) -> bool:
        """Whether the peer's preface and SETTINGS have come."""
        return self._is_settled

    @property
    def open_count(self) -> int:
        """Calls that are under way, or whose answers have not all gone."""
        return len(self._streams.open)

    @property
    def pending(self) -> int:
        """Bytes of answers that wait for the peer's windows or for `take`."""
        return self._streams.pending + len(self._outbound.out)

    @property
    def held(self) -> int:
        """Bytes of requests that are here and not consumed."""
        return self._streams.held

    @property
    def received(self) -> int:
        """Bytes of requests that have come so far."""
        return self._requests.received

    def weight(self, calls: i64) -> int:
        """Returns the approximate memory of its open streams: requests, metadata, and themselves.

        calls   streams that are counted elsewhere
        """
        streams = self._streams
        others: i64 = len(streams.open) - calls
        if others < 0:
            others = 0
        kept = streams.held - streams.dropped
        return kept + streams.listed + STREAM_OVERHEAD * others

    def give_up_stalled(self) -> None:
        """Refuses calls whose requests have hardly gone on since this was last asked twice."""
        if not self.closing:
            self._requests.give_up_stalled()

    @property
    def refuses(self) -> bool:
        """Whether the peer got the number of the last call: `drain` has got so far."""
        return self._requests.last_served >= 0

    @property
    def drained(self) -> bool:
        """Whether no call is open and none will be: `drain` is over."""
        return self._requests.last_served >= 0 and not self._streams.open

    @property
    def pongs(self) -> int:
        """How many pings of ours were answered."""
        return self._peer.pongs

    def ping(self) -> None:
        """Asks whether the peer is there; `pongs` rises when it is."""
        write_ping(self._outbound.out, 0, _OWN_PING)

    def drain(self) -> None:
        """Takes no new calls; those that the peer sent before it knows are served still.

        The first GOAWAY names no stream; the last one follows when the peer has answered a ping,
        or at a second `drain`.
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
    """Returns the size of a frame's payload from the first eight bytes of its head."""
    size = head >> 40 & 0xFFFFFF
    if size > FRAME_SIZE_MIN:
        raise ConnectionFault(FRAME_SIZE_ERROR, "a frame larger than was agreed")
    return size
