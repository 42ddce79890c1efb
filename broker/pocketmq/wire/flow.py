"""Flow control of a peer: by reserved memory, and by rates for costly frames.

Memory of requests, finished or not, is `held`. The connection's window is opened again only as far
as held bytes leave its budget free. One message may be larger than the budget: the oldest
unfinished one has its own room on top, so that one can always be finished.
"""

from collections.abc import Callable
from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.wire.frames import ENHANCE_YOUR_CALM, ConnectionFault
from pocketmq.wire.stream import MESSAGE_OVERHEAD, Stream

LOW_WINDOW: Final[i64] = 65_536
"""Where a connection's window is this small the peer may be stuck, and a closer look is taken."""
PERIOD_S: Final = 1.0
RESETS_MAX: Final[i64] = 1_000
"""Streams cut off in a second, by the peer or for its faults: each cost a call's beginning."""
PINGS_MAX: Final[i64] = 1_000
SETTINGS_MAX: Final[i64] = 100
EMPTY_MAX: Final[i64] = 10_000
"""Frames that carry nothing: empty DATA, PRIORITY, unknown kinds."""
CONTINUATIONS_MAX: Final[i64] = 32
"""CONTINUATION frames of one header block; peers fill them."""


@final
class Limits:
    """Limits of one connection, and settings for its peer; never changed.

    message_max     bytes of a message, decompressed
    budget          bytes of requests held before the window closes
    stream_window   bytes a client may send on a stream before anything is taken
    streams_max     calls at once
    list_max        bytes of a call's metadata, each field with 32 more
    lists_max       bytes of the metadata of all open calls that no header table has
    block_max       bytes of a header block as it is sent
    output_max      bytes of answers written ahead of `take`; the rest waits unencoded
    """

    def __init__(
        self,
        *,
        message_max: int = 16_777_216,
        budget: int = 2_097_152,
        stream_window: int = 262_144,
        streams_max: int = 1_024,
        list_max: int = 8_192,
        lists_max: int = 524_288,
        block_max: int = 16_384,
        output_max: int = 49_152,
    ) -> None:
        self.message_max: i64 = message_max
        self.budget: i64 = budget
        self.stream_window: i64 = stream_window
        self.streams_max: i64 = streams_max
        self.list_max: i64 = list_max
        self.lists_max: i64 = lists_max
        self.block_max: i64 = block_max
        self.output_max: i64 = output_max
        assert self.budget >= 65_535, "a connection's window cannot begin smaller than it does"
        assert self.stream_window >= 65_535, "a client may send so much before it knows the limit"


@final
class Intake:
    """The connection's receive window: `window` bytes may come now."""

    def __init__(self, budget: i64, window: i64) -> None:
        self.budget: i64 = budget
        self.window: i64 = window

    def grant(self, held: i64, extra: i64) -> i64:
        """Returns by how many bytes to open the window, 0 while it is wide enough; counts them.

        held    bytes of requests that are here
        extra   bytes that may be held beyond the budget
        """
        assert held >= 0, "no more is given back than was held"
        size = self.budget + extra - held - self.window
        if size < self.budget >> 1 and (extra == 0 or size < LOW_WINDOW):
            return 0
        self.window += size
        return size


def stream_grant(stream: Stream, limit: i64) -> i64:
    """Returns by how many bytes to open a stream's window, 0 if it is wide enough; counts them.

    The unfinished message does not count: it is the connection's budget that bounds it.
    """
    size = limit - stream.waiting - MESSAGE_OVERHEAD * len(stream.messages) - stream.receive_window
    if stream.ended or size < limit >> 1:
        return 0
    stream.receive_window += size
    return size


@final
class Allowance:
    """At most so many in a period; the clock is only asked when so many have been.

    clock   returns seconds that only grow
    """

    def __init__(self, name: str, count_max: i64, clock: Callable[[], float]) -> None:
        self.name = name
        self.count_max: i64 = count_max
        self.clock = clock
        self.count: i64 = 0
        self.since: float = clock()

    def spend(self) -> None:
        """Counts one.

        Errors   ConnectionFault ENHANCE_YOUR_CALM: more than the allowance in its period
        """
        assert self.count <= self.count_max, "the count starts again at the allowance"
        self.count += 1
        if self.count <= self.count_max:
            return
        now: float = self.clock()
        if now - self.since < PERIOD_S:
            self.count = self.count_max
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"too many {self.name}")
        self.since = now
        self.count = 0
