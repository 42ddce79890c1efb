"""State that all connections of a server share: methods, deadlines, and the memory budget."""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Final

from pocketmq.model.page import ReadPage
from pocketmq.rpc.call_stats import MethodStats
from pocketmq.rpc.own.memory import BufferBudget
from pocketmq.rpc.own.unary_fast_path import QuickMethod, UnaryFastPath
from pocketmq.rpc.own.waiting_calls import Calling
from pocketmq.rpc.serving import ServedMethod, Serving
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.stream import Stream

TURN_S: Final = 0.01
"""Time that connections together may take of one turn of the loop; the others, HTTP/1.1 and new
ones among them, have theirs between two."""
UNTOLD_S: Final = 0.001
"""Bytes they may take together before the loop has to report its next turn. To ask for that at
every read would cost as much as a small read."""
STEP_S: Final = 0.0002
"""Estimated duration of the first step of a call that becomes a task."""
LARGE_REPLY: Final = 65_536
"""Bytes of an answer that needs room, and is counted at once, before the next one asks for some."""
SMALL_READ: Final = 8_192
"""Bytes that are taken at once while others, of which more came, wait for their turn."""


class ClientConnection(Calling):
    """A connection, as the edge sees it."""

    __slots__ = ()

    edge: "ServerState"

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a call is under way, or its answer."""

    @property
    @abstractmethod
    def is_storing(self) -> bool:
        """Whether a call is under way that may store something, and that ends by itself."""

    @abstractmethod
    def drain(self) -> None:
        """Tells the client to begin no more calls here; the second time, that none are taken."""

    @abstractmethod
    def end_reads(self) -> None:
        """Ends the calls that store nothing, and all that waits for its client to read."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection once all answers are sent."""

    @abstractmethod
    def write(self) -> None:
        """Writes all that may be written."""

    @abstractmethod
    def go_on(self) -> None:
        """Takes the received bytes that had to wait."""

    @abstractmethod
    def count_kept(self) -> None:
        """Counts the memory kept for the client."""

    @abstractmethod
    async def room(self, stream: Stream) -> None:
        """Returns when a stream of answers may go on.

        Errors   Draining
        """


class ServerState:
    """The side of a server that all its connections see."""

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

        clock   seconds that only grow, the loop's where there is none
        """
        self.loop = loop
        self.serving = serving
        self.deadlines = Deadlines(loop)
        self.methods: dict[bytes, ServedMethod] = {}
        self.sizes: dict[bytes, int] = {}
        """Bytes of the largest request of each method; changed in place."""
        self.pages: ReadPage | None = None
        """Answers GET and HEAD; None: they are refused."""
        self.connections: set[ClientConnection] = set()
        self.addresses: Counter[str] = Counter()
        """How many connections each address has."""
        self.memory = BufferBudget(self.connections, self.deadlines, clock or loop.time)
        self.is_draining = self.is_leaving = False
        """Whether streams of requests have ended, and whether clients are sent elsewhere."""
        self.answered: list[MethodStats] = []
        """Methods of which calls were answered at once and not folded into their metrics yet."""
        self.quick = UnaryFastPath(self.answered, LARGE_REPLY)
        self._line: dict[ClientConnection, None] = {}
        """Connections of which something came that waits for its turn, in that order."""
        self._is_turn = self.is_late = False
        """Whether a turn has begun, and whether its time was over when a large answer was there."""
        self._turn_ends_s = 0.0
        self._untold_s = 0.0
        """Bytes that connections took since the last reported turn ended."""
        self.turn_s = TURN_S
        self.changed = asyncio.Event()
        """Set when a connection that drains has written something, or is gone."""
        self._dirty: list[ClientConnection] = []
        self._requesting = asyncio.Lock()
        self.take_methods()

    def join(self, connection: ClientConnection, address: str) -> None:
        """Notes a connection that begins."""
        self.connections.add(connection)
        self.addresses[address] += 1

    def leave(self, connection: ClientConnection, address: str) -> None:
        """Notes one that is gone, if it was there."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]

    def take_methods(self) -> None:
        """Serves the present methods of `serving`."""
        self.methods = {path.encode(): served for path, served in self.serving.methods.items()}
        self.sizes.update({p: one.method.request_size_max for p, one in self.methods.items()})
        self.quick.methods = {
            path: QuickMethod(one, one.shortcut)
            for path, one in self.methods.items()
            if one.shortcut is not None and one.is_unary
        }
        assert self.sizes.keys() == self.methods.keys(), "what was served once is served"

    def write_soon(self, connection: "ClientConnection") -> None:
        """Schedules one write of a connection's output for the next turn of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._write_all)
        self._dirty.append(connection)

    def _write_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.write()

    # -- turns of the loop

    async def request_turn(self, user: str) -> None:
        """Returns when a request of a stream may be read: one in each turn of the loop.

        The handler's work before it waits is part of that: with 4,000 streams, and a ms for each
        request, one turn would take 4 s. Users take turns, and as much time is left to all others.
        """
        if not await self.serving.turns.came(user):  # Last requests of streams as they end.
            async with self._requesting:
                await asyncio.sleep(0)

    def has_time_for(self, size: int) -> bool:
        """Returns whether so many bytes of a connection may be taken now; else it lines up."""
        if not self._is_turn:
            if self._untold_s < UNTOLD_S:
                return True
            self.begin_turn()
        if self._line and size > SMALL_READ:
            return False
        return perf_counter() < self._turn_ends_s

    def took(self, seconds: float) -> None:
        """Counts a connection's bytes, and the calls answered meanwhile; each took so long."""
        self._untold_s += seconds
        if self.answered:
            for stats in self.answered:
                stats.fold(seconds)
            self.answered.clear()

    def line_up(self, one: "ClientConnection") -> None:
        """Queues a connection for its turn."""
        if not self._is_turn:
            self.begin_turn()
        self._line[one] = None

    def begin_turn(self) -> None:
        """Begins the time that connections have until the loop comes round."""
        if not self._is_turn:
            self._is_turn = True
            self.loop.call_soon(self._end_turn)
        self.is_late = False
        self._untold_s = 0.0
        self._turn_ends_s = perf_counter() + self.turn_s

    def expect_step(self) -> None:
        """Counts a new task's first step, made in the loop's next turn, as work of this turn.

        Thousands of calls of one read would make all their steps in one turn otherwise.
        """
        self._untold_s += STEP_S
        if self._is_turn or self._untold_s >= UNTOLD_S:
            if not self._is_turn:
                self.begin_turn()
            self._turn_ends_s -= STEP_S
            self.is_late = perf_counter() >= self._turn_ends_s

    def look_at_clock(self) -> None:
        """Notes whether the time of this turn is over: no more large answers are begun then."""
        if not self._is_turn:
            self.begin_turn()
        self.is_late = perf_counter() >= self._turn_ends_s

    def _end_turn(self) -> None:
        """Gives queued connections their turn; small ones run in between, with as much time."""
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
        """Tells all clients, and those that come, to begin their calls elsewhere."""
        self.is_leaving = True
        for connection in [*self.connections]:
            connection.drain()

    def drain(self) -> None:
        """Ends the requests of all streams: their handlers see no more of them."""
        self.is_draining = True
        for connection in self.connections:
            for call in connection.calls:
                call.end_requests()
