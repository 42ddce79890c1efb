"""Handles HEADERS, DATA and RST_STREAM frames of the peer."""

from collections.abc import Callable
from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.wire.blocks import HeaderBlocks
from pocketmq.wire.flow import (
    EMPTY_MAX,
    LOW_WINDOW,
    RESETS_MAX,
    Allowance,
    Intake,
    Limits,
    stream_grant,
)
from pocketmq.wire.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    HEADERS,
    PADDED,
    PRIORITIZED,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    STREAM_CLOSED,
    WINDOW_DEFAULT,
    ConnectionFault,
    StreamFault,
    write_reset,
    write_window_update,
)
from pocketmq.wire.messages import (
    DEADLINE_EXCEEDED,
    INTERNAL,
    PREFIX_SIZE,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    MessageFault,
)
from pocketmq.wire.outbound import Outbound
from pocketmq.wire.stream import Stream
from pocketmq.wire.streams import (
    CLOSED_ERROR,
    CUT_BY_PEER,
    CUT_HERE,
    IGNORED,
    PROTOCOL_BREACH,
    Streams,
)

DISCARDED_SIZE_MAX: Final[i64] = 65_536
"""Upper limit of the bytes of a non-gRPC request that are received before it is answered."""
PROGRESS_SIZE: Final[i64] = 4_096
"""An unfinished request has stalled if fewer new bytes arrive between two checks."""


@final
class Requests:
    """The requests of one connection.

    news         streams changed since `begin_turn`, each once
    last_served  streams with higher ids are ignored; -1: all streams are served
    received     bytes of DATA so far
    sizes        path of each served method -> upper limit of its messages' bytes; None: all paths
    has_pages    whether GET and HEAD requests for other paths are served, instead of refused
    """

    def __init__(
        self,
        limits: Limits,
        streams: Streams,
        outbound: Outbound,
        clock: Callable[[], float],
        sizes: dict[bytes, int] | None,
    ) -> None:
        self.limits = limits
        self.sizes = sizes
        self.streams = streams
        self.outbound = outbound
        self.has_pages = False
        self.blocks = HeaderBlocks(limits)
        self.intake = Intake(limits.budget, WINDOW_DEFAULT)
        self.empty = Allowance("empty frames", EMPTY_MAX, clock)
        self.news: list[Stream] = []
        self.last_served: i64 = -1
        self.received: i64 = 0
        self._resets = Allowance("streams cut off", RESETS_MAX, clock)
        self._turn: i64 = 0

    def begin_turn(self) -> None:
        """Starts a new list of news."""
        self._turn += 1
        self.news = []

    # -- HEADERS and CONTINUATION

    def headers(self, flags: i64, stream_id: i64, data: bytes, p: i64, end: i64) -> None:
        """Handles a HEADERS frame with its payload at [p, end)."""
        if not stream_id & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "HEADERS with an even stream id")
        parent: i64 = -1
        if flags & PADDED:
            p, end = unpadded(data, p, end)
        if flags & PRIORITIZED:
            if end - p < 5:
                raise ConnectionFault(FRAME_SIZE_ERROR, "HEADERS too short for their priority")
            parent = priority_parent(data, p)
            p += 5
        if flags & END_HEADERS:
            self.block(flags, stream_id, data[p:end])
        else:
            self.blocks.begin(stream_id, flags, data[p:end])
        if parent == stream_id:
            raise StreamFault(PROTOCOL_ERROR, "a stream that depends on itself")

    def continuation(self, flags: i64, part: bytes) -> None:
        """Handles a CONTINUATION frame of the unfinished block."""
        self.blocks.extend(part)
        if flags & END_HEADERS:
            stream_id = self.blocks.stream_id
            self.block(self.blocks.flags, stream_id, self.blocks.whole())

    def block(self, flags: i64, stream_id: i64, block: bytes) -> None:
        """Handles a complete header block: it opens a stream, or is the trailers of a request."""
        if stream_id > self.streams.last_id:
            self._open(flags, stream_id, block)
            return
        stream = self.streams.open.get(stream_id)
        if stream is None:
            self.blocks.skip(block)
            self.absent(HEADERS, stream_id)
            return
        if stream.ended:
            self.blocks.skip(block)
            raise StreamFault(STREAM_CLOSED, "HEADERS after the request's end")
        self.blocks.trailers(block)
        if not flags & END_STREAM:
            raise StreamFault(PROTOCOL_ERROR, "HEADERS within a request")
        self._end(stream)

    def _open(self, flags: i64, stream_id: i64, block: bytes) -> None:
        streams = self.streams
        streams.last_id = stream_id
        if self.last_served >= 0:
            self.blocks.skip(block)
            streams.remember(stream_id, CUT_HERE)
            return
        headers = self.blocks.request(block)
        limits = self.limits
        if len(streams.open) >= limits.streams_max:
            raise StreamFault(REFUSED_STREAM, "more streams than the maximum")
        if streams.listed + headers.own_size > limits.lists_max:
            raise StreamFault(REFUSED_STREAM, "the metadata of open calls exceeds its limit")
        message_max = self._message_max(headers.path)
        stream = Stream(stream_id, headers, limits.stream_window, message_max)
        streams.add(stream)
        if headers.status:
            stream.ended = flags & END_STREAM != 0
            self.outbound.refuse(stream, headers.status, headers.why_refused)
        elif message_max < 0 and not headers.http_status:
            stream.ended = flags & END_STREAM != 0
            self.outbound.refuse(stream, UNIMPLEMENTED, "no such method is served here")
        elif flags & END_STREAM:
            self._end(stream)
        elif not headers.http_status:
            self._tell(stream)

    def _message_max(self, path: bytes) -> i64:
        limit: i64 = self.limits.message_max
        sizes = self.sizes
        if sizes is not None:
            known = sizes.get(path)
            own: i64 = -1 if known is None else known
            if own < limit:
                limit = own
        return limit

    # -- DATA

    def data(self, flags: i64, stream_id: i64, data: bytes, p: i64, end: i64) -> None:
        """Handles a DATA frame with its payload at [p, end)."""
        intake = self.intake
        size = end - p
        self.received += size
        intake.window -= size
        if intake.window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more DATA than the connection's window")
        stream = self.streams.open.get(stream_id)
        if stream is None:
            self.absent(DATA, stream_id)
            return
        if stream.ended:
            raise StreamFault(STREAM_CLOSED, "DATA after the request's end")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(FLOW_CONTROL_ERROR, "more DATA than the stream's window")
        if flags & PADDED:
            p, end = unpadded(data, p, end)
        is_end = flags & END_STREAM != 0
        if p == end and not is_end:
            self.empty.spend()
        stream.body_size += end - p
        if 0 <= stream.headers.content_length < stream.body_size:
            raise StreamFault(PROTOCOL_ERROR, "a request longer than its content-length")
        if stream.headers.http_status:
            if stream.body_size > DISCARDED_SIZE_MAX:
                self.outbound.refuse_request(stream)
        elif not self._take(stream, data, p, end):
            return
        if stream.closed:
            return
        if is_end:
            self._end(stream)
        else:
            self.open_window(stream)
            if stream.messages:
                self._tell(stream)

    def _take(self, stream: Stream, data: bytes, p: i64, end: i64) -> bool:
        """Adds a part of a request's body; returns False if the call was refused."""
        held = stream.held
        try:
            stream.accept(data, p, end)
        except MessageFault as fault:
            self._refuse(stream, fault.status, fault.why)
            return False
        self.streams.held += stream.held - held
        if self.streams.held > self.limits.budget + self.limits.message_max:
            self._refuse(
                stream, RESOURCE_EXHAUSTED, "the connection's requests exceed their memory"
            )
            return False
        return True

    def _end(self, stream: Stream) -> None:
        if 0 <= stream.headers.content_length != stream.body_size:
            raise StreamFault(PROTOCOL_ERROR, "a request shorter than its content-length")
        assert not stream.ended, "the request has ended already"
        stream.ended = True
        if stream.headers.http_status and not self._is_page(stream):
            self.outbound.refuse_request(stream)
        elif stream.partial is not None:
            self._refuse(stream, INTERNAL, "the request ends within a message")
        else:
            self._tell(stream)

    def _is_page(self, stream: Stream) -> bool:
        if not self.has_pages or stream.message_max >= 0:
            return False
        return stream.headers.method in (b"GET", b"HEAD")

    # -- windows

    def consume(self, stream: Stream, size: i64) -> None:
        """Counts `size` bytes of messages as consumed; may open the stream's window."""
        if size > stream.waiting:
            size = stream.waiting
        stream.waiting -= size
        if stream.closed:
            return
        held = stream.held
        stream.weigh()
        self.streams.held += stream.held - held
        self.open_window(stream)

    def open_window(self, stream: Stream) -> None:
        """Opens a stream's window if it is small."""
        size = stream_grant(stream, self.limits.stream_window)
        if size:
            write_window_update(self.outbound.out, stream.id, size)

    def open_connection(self) -> None:
        """Opens the connection's window if it is small."""
        size = self.intake.grant(self.streams.held, 0)
        if size:
            write_window_update(self.outbound.out, 0, size)
        elif self.intake.window < LOW_WINDOW:
            self._relieve()

    def _relieve(self) -> None:
        """If unfinished messages fill the budget, refuses the youngest to complete the oldest."""
        unfinished = [s for s in self.streams.open.values() if s.partial is not None]
        if not unfinished:
            return
        waiting: i64 = 0
        for stream in self.streams.open.values():
            waiting += stream.waiting
        half = self.limits.budget >> 1
        if waiting <= half:  # else consuming the complete messages opens the window
            oldest = unfinished[0]
            while len(unfinished) > 1 and self.streams.held - oldest.held > half:
                self._refuse(
                    unfinished.pop(), RESOURCE_EXHAUSTED, "too many unfinished requests at once"
                )
        wanted = unfinished[0].wanted
        size = self.intake.grant(self.streams.held, PREFIX_SIZE + wanted if wanted > 0 else 0)
        if size:
            write_window_update(self.outbound.out, 0, size)

    def give_up_stalled(self) -> None:
        """Refuses calls whose unfinished requests have stalled since the previous check.

        A streaming request may pause between two messages.
        """
        for stream in [*self.streams.open.values()]:
            if stream.ended or stream.trailers:
                continue
            if stream.partial is None and stream.call is not None:
                continue
            seen = stream.seen_size
            stream.seen_size = stream.body_size
            if seen < 0 or stream.body_size - seen >= PROGRESS_SIZE:
                continue
            if stream.headers.http_status:
                self.outbound.refuse_request(stream)
            else:
                self._refuse(stream, DEADLINE_EXCEEDED, "the request has stalled")

    # -- ends

    def reset(self, stream_id: i64, code: i64) -> None:
        """Handles a RST_STREAM."""
        stream = self.streams.open.get(stream_id)
        if stream is None:
            self.absent(RST_STREAM, stream_id)
            return
        self._resets.spend()
        stream.reset_code = code
        self.streams.close(stream, CUT_BY_PEER)
        self._tell(stream)

    def cut(self, stream_id: i64, code: i64) -> None:
        """Resets a stream for a fault of the peer, even if the stream is not open."""
        self._resets.spend()
        write_reset(self.outbound.out, stream_id, code)
        stream = self.streams.open.get(stream_id)
        if stream is None:
            self.streams.remember(stream_id, CUT_HERE)
            return
        stream.reset_code = code
        self.streams.close(stream, CUT_HERE)
        self._tell(stream)

    def cut_all(self, code: i64) -> None:
        """Closes all streams, as the connection breaks."""
        for stream in [*self.streams.open.values()]:
            stream.reset_code = code
            self.streams.close(stream, CUT_HERE)
            self._tell(stream)

    def absent(self, kind: i64, stream_id: i64) -> None:
        """Handles a frame for a stream that is not open."""
        verdict = self.streams.verdict(stream_id, kind)
        if verdict == IGNORED:
            if kind <= HEADERS:  # or DATA, which is 0
                self.empty.spend()
            return
        if verdict == PROTOCOL_BREACH:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame of a stream that was never opened")
        if verdict == CLOSED_ERROR:
            raise ConnectionFault(STREAM_CLOSED, "a frame of a closed stream")
        raise StreamFault(STREAM_CLOSED, "a frame of a closed stream")

    def _refuse(self, stream: Stream, status: i64, why: str) -> None:
        self.outbound.refuse(stream, status, why)
        stream.reset_code = 0
        if stream.call is not None:
            self._tell(stream)

    def _tell(self, stream: Stream) -> None:
        if stream.turn != self._turn:
            stream.turn = self._turn
            self.news.append(stream)


def unpadded(data: bytes, p: i64, end: i64) -> tuple[i64, i64]:
    """Returns the range of a payload without its padding."""
    if p == end:
        raise ConnectionFault(FRAME_SIZE_ERROR, "a padded frame without its padding's length")
    pad: i64 = data[p]
    p += 1
    if pad > end - p:
        raise ConnectionFault(PROTOCOL_ERROR, "padding longer than its frame")
    return p, end - pad


def priority_parent(data: bytes, p: i64) -> i64:
    """Returns the parent stream of the priority fields at `p`."""
    first: i64 = data[p] & 127
    second: i64 = data[p + 1]
    third: i64 = data[p + 2]
    fourth: i64 = data[p + 3]
    return first << 24 | second << 16 | third << 8 | fourth
