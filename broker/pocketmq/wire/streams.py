"""Streams of a connection, and the handling of frames for closed streams."""

from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.wire.frames import HEADERS
from pocketmq.wire.stream import Stream

# State of a stream that is not open.
IDLE: Final[i64] = 0  # not opened yet
DONE: Final[i64] = 1  # both sides ended
CUT_BY_PEER: Final[i64] = 2
CUT_HERE: Final[i64] = 3  # reset here, and the peer may not know yet
FORGOTTEN: Final[i64] = 4  # ended before the last RECENT_COUNT streams

# Outcomes of a frame for such a stream.
IGNORED: Final[i64] = 0
STREAM_ERROR: Final[i64] = 1  # RST_STREAM with STREAM_CLOSED
CLOSED_ERROR: Final[i64] = 2  # GOAWAY with STREAM_CLOSED
PROTOCOL_BREACH: Final[i64] = 3  # GOAWAY with PROTOCOL_ERROR

# By state, then by frame type from DATA to WINDOW_UPDATE (RFC 9113, section 5.1).
_VERDICTS: Final = (
    b"\3\0\0\3\0\0\0\0\3",  # IDLE: HEADERS open it
    b"\1\2\0\0\0\0\0\0\0",  # DONE
    b"\1\1\0\0\0\0\0\0\0",  # CUT_BY_PEER
    b"\0\0\0\0\0\0\0\0\0",  # CUT_HERE
    b"\1\3\0\0\0\0\0\0\0",  # FORGOTTEN
)
RECENT_COUNT: Final[i64] = 256
"""Number of closed streams whose state is remembered."""
LINE_SPARE: Final[i64] = 32
"""A `Turns` compacts its list if the list exceeds twice the queued streams by more than this."""


@final
class Turns:
    """Round-robin queue of the `count` streams that may send."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._line: list[Stream] = []
        self._first: i64 = 0  # index of the first unserved entry

    def join(self, stream: Stream) -> None:
        """Queues a stream for its turn."""
        assert not stream.is_ready, "the stream is queued already"
        stream.is_ready = True
        self.count += 1
        self._line.append(stream)

    def leave(self, stream: Stream) -> None:
        """Removes a stream. Cost: amortized constant time."""
        assert stream.is_ready, "the stream is not queued"
        stream.is_ready = False
        self.count -= 1
        if len(self._line) > 2 * self.count + LINE_SPARE:
            self._line = [one for one in self._line[self._first :] if one.is_ready]
            self._first = 0

    def next(self) -> Stream:
        """Removes and returns the first stream; the queue must not be empty."""
        assert self.count > 0, "no stream is queued"
        while True:
            stream = self._line[self._first]
            self._first += 1
            if stream.is_ready:
                break
        self.leave(stream)
        return stream


@final
class Streams:
    """The open streams by id, sums over them, and states of recently closed streams.

    last_id   highest stream id that the client has used
    held      received bytes of requests of all open streams
    dropped   bytes of `held` whose messages were dropped
    listed    bytes of the metadata of all open streams, except fields from header tables
    pending   bytes of answers of all open streams that wait for the peer's windows
    turns     streams with pending bytes whose window may be open
    """

    def __init__(self) -> None:
        self.open: dict[int, Stream] = {}
        self.last_id: i64 = 0
        self.held: i64 = 0
        self.dropped: i64 = 0
        self.listed: i64 = 0
        self.pending: i64 = 0
        self.turns = Turns()
        self._recent: list[int] = [0] * RECENT_COUNT
        self._closed: i64 = 0

    def add(self, stream: Stream) -> None:
        """Adds a stream that its client has opened."""
        assert stream.id == self.last_id, "the stream's id is not the last one"
        self.open[stream.id] = stream
        self.listed += stream.headers.own_size

    def drop_request(self, stream: Stream) -> None:
        """Drops a complete request; its bytes stay in `held`."""
        assert stream.ended, "the request is incomplete"
        stream.messages.clear()
        self.dropped += stream.held - stream.dropped
        stream.dropped = stream.held

    def close(self, stream: Stream, how: i64) -> None:
        """Removes an open stream; drops its unsent answer and its unfinished request."""
        assert not stream.closed, "the stream is closed already"
        del self.open[stream.id]
        stream.closed = True
        self.held -= stream.held
        self.dropped -= stream.dropped
        self.listed -= stream.headers.own_size
        stream.held = 0
        stream.dropped = 0
        stream.partial = None
        stream.pieces.clear()
        if stream.is_ready:
            self.turns.leave(stream)
        if stream.pending:
            self.pending -= stream.pending
            stream.pending = 0
            stream.parts.clear()
        self.remember(stream.id, how)

    def remember(self, stream_id: i64, how: i64) -> None:
        """Stores the state of a closed stream, for frames that arrive later."""
        self._recent[self._closed % RECENT_COUNT] = stream_id << 3 | how
        self._closed += 1

    def verdict(self, stream_id: i64, kind: i64) -> i64:
        """Returns how to handle a frame for a stream that is not open.

        Cost   for DATA and HEADERS a scan of RECENT_COUNT states
        """
        how: i64 = DONE
        if stream_id > self.last_id or not stream_id & 1:
            how = IDLE
        elif kind <= HEADERS:  # or DATA, which is 0
            how = self._end(stream_id)
        return _VERDICTS[how][kind]

    def _end(self, stream_id: i64) -> i64:
        for entry in self._recent:
            known: i64 = entry
            if known >> 3 == stream_id:
                return known & 7
        return FORGOTTEN
