"""Streams of a connection, and the verdict on frames of streams that are closed."""

from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.wire.frames import HEADERS
from pocketmq.wire.stream import Stream

# How a stream ended, or why there is none.
IDLE: Final[i64] = 0  # not opened yet
DONE: Final[i64] = 1  # both sides ended
CUT_BY_PEER: Final[i64] = 2
CUT_HERE: Final[i64] = 3  # the peer may not know yet
FORGOTTEN: Final[i64] = 4  # long ago

# Outcomes of a frame for such a stream.
IGNORED: Final[i64] = 0
STREAM_ERROR: Final[i64] = 1  # RST_STREAM with STREAM_CLOSED
CLOSED_ERROR: Final[i64] = 2  # GOAWAY with STREAM_CLOSED
PROTOCOL_BREACH: Final[i64] = 3  # GOAWAY with PROTOCOL_ERROR

# By how the stream ended; in it by the kind of frame, DATA to WINDOW_UPDATE (RFC 9113, 5.1).
_VERDICTS: Final = (
    b"\3\0\0\3\0\0\0\0\3",  # IDLE: HEADERS open it
    b"\1\2\0\0\0\0\0\0\0",  # DONE
    b"\1\1\0\0\0\0\0\0\0",  # CUT_BY_PEER
    b"\0\0\0\0\0\0\0\0\0",  # CUT_HERE
    b"\1\3\0\0\0\0\0\0\0",  # FORGOTTEN
)
RECENT_COUNT: Final[i64] = 256
"""Ended streams whose end is remembered."""
LINE_SPARE: Final[i64] = 32
"""Entries of a line that may be of no stream."""


@final
class Turns:
    """Streams in the order in which they may send, each once.

    count   how many there are
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self._line: list[Stream] = []
        self._first: i64 = 0  # of the line; those before have had their turn

    def join(self, stream: Stream) -> None:
        """Queues a stream for its turn."""
        assert not stream.is_ready, "a stream has one turn at a time"
        stream.is_ready = True
        self.count += 1
        self._line.append(stream)

    def leave(self, stream: Stream) -> None:
        """Takes a stream out. Cost: of all, where it is one of many that have left."""
        assert stream.is_ready, "only those leave that are here"
        stream.is_ready = False
        self.count -= 1
        if len(self._line) > 2 * self.count + LINE_SPARE:
            self._line = [one for one in self._line[self._first :] if one.is_ready]
            self._first = 0

    def next(self) -> Stream:
        """Takes out the stream whose turn it is; there is one."""
        assert self.count > 0, "somebody waits"
        while True:
            stream = self._line[self._first]
            self._first += 1
            if stream.is_ready:
                break
        self.leave(stream)
        return stream


@final
class Streams:
    """The open streams by their number, the ends of the last others, and sums over the open.

    last_id   the highest number the client has used
    held      bytes of requests of all open streams that are here
    dropped   of these, what is kept no longer
    listed    bytes of the metadata of all open streams, as far as it is theirs alone
    pending   bytes of answers of all open streams that wait for windows
    turns     those of which something waits that may go, as far as their own windows are known
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
        """Takes a stream that its client has opened."""
        assert stream.id == self.last_id, "streams open in the order of their numbers"
        self.open[stream.id] = stream
        self.listed += stream.headers.own_size

    def drop_request(self, stream: Stream) -> None:
        """Keeps a whole request no longer."""
        assert stream.ended, "all of it has come"
        stream.messages.clear()
        self.dropped += stream.held - stream.dropped
        stream.dropped = stream.held

    def close(self, stream: Stream, how: i64) -> None:
        """Removes an open stream; drops its unsent answer and its unfinished request."""
        assert not stream.closed, "a stream closes once"
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
        """Notes how a stream ended, for frames that still come for it."""
        self._recent[self._closed % RECENT_COUNT] = stream_id << 3 | how
        self._closed += 1

    def verdict(self, stream_id: i64, kind: i64) -> i64:
        """Returns the outcome of a frame for a stream which is not open.

        Cost: a look at all recent ends for DATA and HEADERS; the other kinds need none
        """
        how: i64 = DONE
        if stream_id > self.last_id or not stream_id & 1:
            how = IDLE
        elif kind <= HEADERS:  # or DATA, which is 0
            how = self._end(stream_id)
        return _VERDICTS[how][kind]

    def _end(self, stream_id: i64) -> i64:
        """Returns how a stream ended."""
        for entry in self._recent:
            known: i64 = entry
            if known >> 3 == stream_id:
                return known & 7
        return FORGOTTEN
