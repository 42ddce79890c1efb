"""State that all connections of a server share: methods, deadlines, and the memory budget."""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Final

from pocketmq.model.page import ReadPage
from pocketmq.rpc.call_stats import MethodStats
from pocketmq.rpc.own.memory import BufferBudget, Keeping
from pocketmq.rpc.own.remoting_fast_path import RemotingFastPath
from pocketmq.rpc.own.unary_fast_path import QuickMethod, UnaryFastPath
from pocketmq.rpc.own.waiting_calls import Calling, WaitingCall
from pocketmq.rpc.serving import ServedMethod, Serving
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.stream import Stream

TURN_S: Final = 0.01
"""Time for all queued connections in one loop iteration; new reads then get as much."""
UNCOUNTED_S: Final = 0.001
"""Total time of reads before a turn begins: a turn costs a callback, as much as a small read."""
STEP_S: Final = 0.0002
"""Estimated duration of the first step of a call that becomes a task."""
LARGE_REPLY: Final = 65_536
"""Size beyond which an answer is checked against the memory budget before it is sent."""
SMALL_READ: Final = 8_192
"""Largest read that is handled at once while other connections are queued."""


class ServerConnection(Keeping):
    """A connection of HTTP/2 or remoting, as the server sees it."""

    __slots__ = ()

    edge: "ServerState"
    calls: set[WaitingCall]

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a call is in progress or queued, or an answer is unsent."""

    @property
    @abstractmethod
    def is_storing(self) -> bool:
        """Whether a call is in progress that may store something."""

    @property
    @abstractmethod
    def is_told(self) -> bool:
        """Whether the last GOAWAY was sent; over remoting, whether a drain has begun."""

    @abstractmethod
    def drain(self) -> None:
        """Asks the client to connect again; over HTTP/2, a second call sends the last GOAWAY."""

    @abstractmethod
    def end_reads(self) -> None:
        """Ends the calls that store nothing, and all calls that wait for their client to read."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection once the transport's buffer is sent; other answers are lost."""

    @abstractmethod
    def write(self) -> None:
        """Writes output that may be sent; then begins calls that waited for the client to read."""

    @abstractmethod
    def go_on(self) -> None:
        """Handles queued bytes."""


class ClientConnection(ServerConnection, Calling):
    """A connection of HTTP/2, as the server and its calls see it."""

    __slots__ = ()

    @abstractmethod
    def count_kept(self) -> None:
        """Updates the client's share of the memory budget."""

    @abstractmethod
    async def room(self, stream: Stream) -> None:
        """Waits until a stream may send more answers.

        Errors   Draining
        """


class ServerState:
    """State of a server that its connections share."""

    __slots__ = (
        "_dirty",
        "_is_turn",
        "_line",
        "_requesting",
        "_turn_ends_s",
        "_untold_s",
        "addresses",
        "answered",
        "changed",
        "connections",
        "deadlines",
        "is_draining",
        "is_late",
        "is_leaving",
        "loop",
        "memory",
        "methods",
        "pages",
        "quick",
        "quick_frames",
        "serving",
        "sizes",
        "turn_s",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serving: Serving,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Begins with no connection.

        clock   monotonic seconds; None: the time of the loop
        """
        self.loop = loop
        self.serving = serving
        self.deadlines = Deadlines(loop)
        self.methods: dict[bytes, ServedMethod] = {}
        self.sizes: dict[bytes, int] = {}
        """Method path -> upper limit of bytes of a request; changed in place."""
        self.pages: ReadPage | None = None
        """Handler of GET and HEAD; None: they are refused."""
        self.connections: set[ServerConnection] = set()
        self.addresses: Counter[str] = Counter()
        """Address -> number of its connections."""
        self.memory = BufferBudget(self.connections, self.deadlines, clock or loop.time)
        self.is_draining = self.is_leaving = False
        """`is_draining`: handlers get no more streamed requests; `is_leaving`: new connections are
        drained."""
        self.answered: list[MethodStats] = []
        """Methods with answered calls that are not folded into their metrics yet."""
        self.quick = UnaryFastPath(self.answered, LARGE_REPLY)
        self.quick_frames = RemotingFastPath(self.answered)
        self._line: dict[ServerConnection, None] = {}
        """Connections with received bytes that wait for their turn, in order."""
        self._is_turn = self.is_late = False
        """`_is_turn`: a turn has begun; `is_late`: its time was over at the last check."""
        self._turn_ends_s = 0.0
        self._untold_s = 0.0
        """Seconds that reads took since the last turn began or ended."""
        self.turn_s = TURN_S
        self.changed = asyncio.Event()
        """Set when a draining connection has written something, or was closed."""
        self._dirty: list[ServerConnection] = []
        self._requesting = asyncio.Lock()
        self.take_methods()

    def join(self, connection: ServerConnection, address: str) -> None:
        """Adds a connection."""
        self.connections.add(connection)
        self.addresses[address] += 1

    def leave(self, connection: ServerConnection, address: str) -> None:
        """Removes a connection, if it was not removed before."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]

    def take_methods(self) -> None:
        """Copies the methods of `serving`."""
        self.methods = {path.encode(): served for path, served in self.serving.methods.items()}
        self.sizes.update({p: one.method.request_size_max for p, one in self.methods.items()})
        self.quick.methods = {
            path: QuickMethod(one, one.shortcut)
            for path, one in self.methods.items()
            if one.shortcut is not None and one.is_unary
        }
        self.quick_frames.methods = {
            code: QuickMethod(one, one.shortcut)
            for code, one in self.serving.requests.items()
            if one.shortcut is not None
        }
        assert self.sizes.keys() == self.methods.keys(), "a method is no longer served"

    def write_soon(self, connection: "ServerConnection") -> None:
        """Schedules one write of a connection's output for the next loop iteration."""
        if not self._dirty:
            self.loop.call_soon(self._write_all)
        self._dirty.append(connection)

    def _write_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.write()

    # -- turns of the loop

    async def request_turn(self, user: str) -> None:
        """Waits until a streamed request may be parsed: one request in each loop iteration.

        Users are served round-robin. Without turns, 4,000 streams whose requests take 1 ms each
        would block the loop for 4 s.
        """
        if not await self.serving.turns.came(user):  # The server drains.
            async with self._requesting:
                await asyncio.sleep(0)

    def has_time_for(self, size: int) -> bool:
        """Returns whether `size` bytes of a connection may be handled now, or have to be queued."""
        if not self._is_turn:
            if self._untold_s < UNCOUNTED_S:
                return True
            self.begin_turn()
        if self._line and size > SMALL_READ:
            return False
        return perf_counter() < self._turn_ends_s

    def took(self, seconds: float) -> None:
        """Adds a read's duration, and records it for each call answered by that read."""
        self._untold_s += seconds
        if self.answered:
            for stats in self.answered:
                stats.fold(seconds)
            self.answered.clear()

    def line_up(self, one: "ServerConnection") -> None:
        """Queues a connection for its turn."""
        if not self._is_turn:
            self.begin_turn()
        self._line[one] = None

    def begin_turn(self) -> None:
        """Begins a turn: a time slice for connections until the next loop iteration."""
        if not self._is_turn:
            self._is_turn = True
            self.loop.call_soon(self._end_turn)
        self.is_late = False
        self._untold_s = 0.0
        self._turn_ends_s = perf_counter() + self.turn_s

    def expect_step(self) -> None:
        """Counts a new task's first step, made in the next loop iteration, as work of this turn.

        If it were not counted, thousands of calls of one read would run in a single iteration.
        """
        self._untold_s += STEP_S
        if self._is_turn or self._untold_s >= UNCOUNTED_S:
            if not self._is_turn:
                self.begin_turn()
            self._turn_ends_s -= STEP_S
            self.is_late = perf_counter() >= self._turn_ends_s

    def look_at_clock(self) -> None:
        """Sets `is_late` if this turn's time is over: then no further call begins in this turn."""
        if not self._is_turn:
            self.begin_turn()
        self.is_late = perf_counter() >= self._turn_ends_s

    def _end_turn(self) -> None:
        """Serves queued connections for `turn_s`, then leaves `turn_s` for new, small reads."""
        self._is_turn = self.is_late = False
        if not self._line:
            return
        self.begin_turn()
        for _ in range(len(self._line)):
            one = next(iter(self._line))
            del self._line[one]
            one.go_on()
            if perf_counter() >= self._turn_ends_s:
                break
        self.is_late = False
        self._turn_ends_s = perf_counter() + self.turn_s

    def turn_away(self) -> None:
        """Sends GOAWAY to all clients, including new ones."""
        self.is_leaving = True
        for connection in [*self.connections]:
            connection.drain()

    def drain(self) -> None:
        """Ends all streams of requests: their handlers get no more requests."""
        self.is_draining = True
        for connection in self.connections:
            for call in connection.calls:
                call.end_requests()
