"""Flow control by memory, and rate limits of costly frames.

Bytes of requests are `held` until they are consumed, and the connection's window is opened only as
far as its budget allows. A message may exceed the budget: the oldest unfinished message gets
extra room, so that it can be completed.
"""

from collections.abc import Callable
from typing import Final, final

from pocketmq.native.machine import i64
from pocketmq.wire.frames import ENHANCE_YOUR_CALM, ConnectionFault
from pocketmq.wire.stream import MESSAGE_OVERHEAD, Stream

LOW_WINDOW: Final[i64] = 65_536
"""Size of the connection's window below which unfinished messages may have filled the budget."""
PERIOD_S: Final = 1.0
RESETS_MAX: Final[i64] = 1_000
"""Upper limit of streams that are reset in a second, by the peer or for the peer's faults."""
PINGS_MAX: Final[i64] = 1_000
SETTINGS_MAX: Final[i64] = 100
EMPTY_MAX: Final[i64] = 10_000
"""Upper limit of frames without effect in a second: empty DATA, PRIORITY, unknown types."""
CONTINUATIONS_MAX: Final[i64] = 32
"""Upper limit of CONTINUATION frames of one header block; ordinary peers fill each frame."""


@final
class Limits:
    """Limits of one connection, and settings for its peer; immutable.

    message_max     bytes of a decompressed message
    budget          bytes of requests that are held before the connection's window closes
    stream_window   bytes of a stream's receive window
    list_max        bytes of a call's metadata, plus ENTRY_OVERHEAD for each field
    lists_max       bytes of the metadata of all open calls, except fields from header tables
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
        assert self.budget >= 65_535, "the budget is below HTTP/2's initial window"
        assert self.stream_window >= 65_535, "the stream window is below HTTP/2's initial one"


@final
class Intake:
    """The connection's receive window of `window` bytes."""

    def __init__(self, budget: i64, window: i64) -> None:
        self.budget: i64 = budget
        self.window: i64 = window

    def grant(self, held: i64, extra: i64) -> i64:
        """Opens the window if it is small; returns the bytes added, or 0.

        extra   bytes that may be held in addition to the budget
        """
        assert held >= 0, "held bytes are negative"
        size = self.budget + extra - held - self.window
        if size < self.budget >> 1 and (extra == 0 or size < LOW_WINDOW):
            return 0
        self.window += size
        return size


def stream_grant(stream: Stream, limit: i64) -> i64:
    """Opens a stream's window if it is small; returns the bytes added, or 0.

    The unfinished message is not subtracted, as the connection's budget limits it.
    """
    size = limit - stream.waiting - MESSAGE_OVERHEAD * len(stream.messages) - stream.receive_window
    if stream.ended or size < limit >> 1:
        return 0
    stream.receive_window += size
    return size


@final
class Allowance:
    """Rate limit of `count_max` events in PERIOD_S; reads the clock once in `count_max` events."""

    def __init__(self, name: str, count_max: i64, clock: Callable[[], float]) -> None:
        self.name = name
        self.count_max: i64 = count_max
        self.clock = clock
        self.count: i64 = 0
        self.since: float = clock()

    def spend(self) -> None:
        """Counts one event.

        Errors   ConnectionFault ENHANCE_YOUR_CALM: too many events in a period
        """
        assert self.count <= self.count_max, "the count exceeds the limit"
        self.count += 1
        if self.count <= self.count_max:
            return
        now: float = self.clock()
        if now - self.since < PERIOD_S:
            self.count = self.count_max
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"too many {self.name}")
        self.since = now
        self.count = 0
