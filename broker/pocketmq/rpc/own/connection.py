"""One HTTP/2 connection: passes bytes to wire/, streams to calls, and answers to the client.

    data_received ─► wire.receive ─► streams with events ─► calls ─► wire.respond …
                                     one write for all ◄─ wire.take ◄─┘

The memory of a slow client is bounded. While its socket's buffer is full, the server reads nothing
from it. In this state, and while more than UNREAD_SOFT_MAX bytes of answers wait for the client's
flow-control windows, complete requests are queued and handlers that stream answers wait.
"""

import asyncio
from time import perf_counter
from typing import Final

from pocketmq.model.errors import Draining
from pocketmq.rpc.admission import CallClass, address_name
from pocketmq.rpc.own.call import OwnCall, take_news
from pocketmq.rpc.own.loop_connection import LoopConnection
from pocketmq.rpc.own.memory import PROGRESS_SIZE, UNREAD_TIGHT_MAX
from pocketmq.rpc.own.page_call import PageCall
from pocketmq.rpc.own.server_state import ClientConnection, ServerState
from pocketmq.rpc.own.waiting_calls import Unsent, WaitingCall
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream

STREAM_UNREAD_MAX: Final = 65_536
"""Unsent bytes of a stream of answers beyond which its handler waits."""
WOKEN_AT_ONCE: Final = 16
"""Upper limit of streams of answers resumed in one iteration of the event loop."""
UNREAD_SOFT_MAX: Final = 1024 * 1024
"""Unsent bytes of a client beyond which its next calls wait. While all clients together exceed
UNREAD_MAX (memory.py), UNREAD_TIGHT_MAX applies instead."""
READ_SIZE: Final = 32_768
"""Longest read handled at once. A longer read is split, as it may contain thousands of calls."""
SPARSE_COUNT: Final = 16
SPARSE_SIZE: Final = 65_536
DENSE_SIZE: Final = 8_192
"""A part of a split read has SPARSE_SIZE bytes if the previous one had events for at most
SPARSE_COUNT streams, else DENSE_SIZE."""
REST_MAX: Final = 65_536
"""Received bytes of a queued connection beyond which reading from it pauses."""
TURN_S: Final = 0.001
"""Time for many small calls of a connection before other connections get their turn."""
SPARSE_TURN_S: Final = 0.004
"""Time for few, possibly large, calls before other connections get their turn."""

STORING: Final = frozenset(
    {CallClass.SEND, CallClass.SETTLE, CallClass.POLL, CallClass.ADMIN, CallClass.ACCESS}
)
"""Classes of calls that may store something; `end_reads` does not cancel them."""
SILENT_SIZE: Final = 4_096
"""Estimated memory of a stream of requests before its first request, with its call and task."""

_GONE: Final = Connection()
"""Replaces the wire state of a closed connection."""


class Http2Connection(LoopConnection, ClientConnection):
    """A client's connection, from its first byte to its last."""

    __slots__ = (
        "_is_ending", "_rooms", "_waiting", "deadlines", "is_heard", "is_used", "silent_count",
        "unsent", "wire",
    )  # fmt: skip

    def __init__(self, edge: ServerState, peer: str) -> None:
        super().__init__(edge, peer)
        self.deadlines = edge.deadlines
        self.wire = Connection(sizes=edge.sizes, has_pages=edge.pages is not None)
        self.unsent: set[Unsent] = set()
        self.silent_count = 0
        self._is_ending = False
        self.is_heard = self.is_used = True
        """Whether bytes (`is_heard`) and events of calls (`is_used`) arrived since the last check
        of keepalive."""
        self._waiting: dict[int, Stream] = {}
        """Complete requests that wait for the client to read or for the next turn, by stream id."""
        self._rooms: dict[asyncio.Future[None], Stream] = {}
        """Streams of answers whose handlers wait until the client has read."""

    # -- callbacks of the loop -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection and sends the server's settings."""
        self._join(transport)
        if self.edge.is_leaving:
            self.drain()
        else:
            self.write()

    def data_received(self, data: bytes) -> None:
        """Handles received bytes, and answers the calls that can be answered at once."""
        self.is_heard = True
        if self._rest:  # The connection waits for its turn, or for its client to read.
            self._rest += data
        elif not self.edge.has_time_for(len(data)):
            self._rest = data
            self.edge.line_up(self)
        elif len(data) > READ_SIZE:
            self._rest = data
            self.go_on()
        else:
            self._take(data, 0, len(data))
            self.write()
        if len(self._rest) > REST_MAX and self._transport is not None:
            self._transport.pause_reading()

    def _take(self, data: bytes, begin: int, upto: int) -> int:
        self.now_s = perf_counter()
        news = self.wire.receive(data, begin, upto)
        if news:
            self.is_used = True
            take_news(self, news, self._begin, is_paused=self._is_paused or bool(self._waiting))
        self.edge.took(perf_counter() - self.now_s)
        return len(news)

    def go_on(self) -> None:
        """Handles queued bytes in parts; queues the rest when the turn's time is over."""
        transport, wire, data, position = self._transport, self.wire, self._rest, 0
        if transport is None or transport.is_closing() or self._is_paused:
            return
        begun = perf_counter()
        size = DENSE_SIZE
        while position < len(data) and self.wire is wire:
            is_sparse = self._take(data, position, position + size) <= SPARSE_COUNT
            position = wire.taken
            if perf_counter() - begun > (SPARSE_TURN_S if is_sparse else TURN_S):
                break
            size = SPARSE_SIZE if is_sparse else DENSE_SIZE
        self._rest = data[position:] if self.wire is wire else b""  # Empty if closed meanwhile.
        if self._rest:
            transport.pause_reading()
            self.edge.line_up(self)
        else:
            transport.resume_reading()
        self.write()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancels the calls in progress, since no answer can be sent any more."""
        self._let_go()
        for call in [*self.calls]:
            call.cancel()
        self.edge.changed.set()

    def resume_writing(self) -> None:
        """Resumes reading and writing: the socket accepts bytes again."""
        self._is_paused = False
        if self._transport is not None:
            if self._rest:
                self.edge.line_up(self)
            else:
                self._transport.resume_reading()
        self.write()

    def count_silent(self, more: int) -> None:
        """Adds `more` to the number of request streams without a request so far."""
        self.silent_count += more
        assert self.silent_count >= 0, "more silent streams removed than added"

    # -- calls -------------------------------------------------------------------------------------

    def _begin(self, stream: Stream) -> None:
        if stream.closed or not self.is_open:  # An earlier stream's call may have closed it.
            self._waiting.pop(stream.id, None)
            return
        if stream.headers.http_status:
            self._read_page(stream)
            return
        served = self.edge.methods[stream.headers.path]
        refusal = served.refusal(self.holder)
        if refusal is not None:
            OwnCall(self, stream, served).refuse(refusal)
        elif not served.is_unary and served.method.kind.has_requests:
            OwnCall(self, stream, served).stream_from(None)
        elif stream.ended:
            self._serve_in_turn(stream, served)

    def _read_page(self, stream: Stream) -> None:
        pages, transport = self.edge.pages, self._transport
        assert pages is not None, "pages are not served here"
        assert transport is not None, "the connection is closed"
        is_private = transport.get_extra_info("sslcontext") is not None
        PageCall(self, stream, pages, is_private=is_private)

    def _serve(self, stream: Stream, served: ServedMethod) -> None:
        assert len(stream.messages) == 1, "the call has not exactly one request"
        raw = stream.messages.pop()
        call = OwnCall(self, stream, served)
        if served.is_unary:
            call.serve(raw)
        else:
            self.wire.consume(stream, len(raw))
            call.stream_from(raw)

    def _serve_in_turn(self, stream: Stream, served: ServedMethod) -> None:
        if len(stream.messages) != 1:
            OwnCall(self, stream, served).refuse(_no_request(len(stream.messages)))
        elif self._waiting or self._is_held_up():
            self._waiting[stream.id] = stream
        else:
            self._serve(stream, served)

    def _is_held_up(self) -> bool:
        return self.edge.is_late or self._is_full()

    def _is_full(self) -> bool:
        unread = self.wire.pending
        if unread <= UNREAD_TIGHT_MAX and not self._is_paused:
            return False
        memory = self.edge.memory
        return self._is_paused or unread > UNREAD_SOFT_MAX or memory.unread > memory.unread_max

    # -- output ------------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes output that may be sent; then begins calls that waited for the client to read."""
        self._is_dirty = False
        transport, wire = self._transport, self.wire
        if transport is None or transport.is_closing():
            return
        while not self._is_paused:
            data = wire.take()
            if data:
                self.sent += len(data)
                transport.write(data)
            if self._waiting and not self._is_held_up():
                self._serve_waiting()
            elif not data:
                break
        self.count_kept()
        if self._waiting and self.edge.is_late:
            self.edge.line_up(self)
        if self.unsent and not self._is_paused:
            self.unsent = {call for call in self.unsent if not call.stream.closed}
        if self._rooms and not self._is_full():
            self._wake_rooms()
        if self.is_draining:
            self.edge.changed.set()
        if wire.closing or (self.is_draining and wire.drained):
            transport.close()

    def _serve_waiting(self) -> None:
        self.now_s = perf_counter()
        waiting, self._waiting = self._waiting, {}
        try:
            while waiting and self.is_open and not self._is_held_up():
                self._begin(waiting.pop(next(iter(waiting))))
            assert not self._waiting, "a call was queued again"
        finally:
            if self.is_open:
                self._waiting = waiting
        self.edge.took(perf_counter() - self.now_s)

    def count_kept(self) -> None:
        """Updates the client's share of the memory budget."""
        transport = self._transport
        if transport is None:
            return
        held, unread = self.wire.weight(len(self.calls)), self.wire.pending
        held += SILENT_SIZE * self.silent_count
        if self._is_paused:
            unread += transport.get_write_buffer_size()
        if held != self.held or unread != self.unread:
            if held != self.held:
                self._note_progress(held)
            more = (held - self.held, unread - self.unread)
            self.held, self.unread = held, unread
            self.edge.memory.count(*more)

    def _note_progress(self, held: int) -> None:
        received = self.wire.received
        if not self.held or received - self._moved_size >= min(PROGRESS_SIZE, held >> 3):
            self._moved_size = received
            self.moved_s = self.edge.memory.clock()

    def give_up_stalled(self) -> None:
        """Refuses calls whose unfinished requests progressed too little since the last check."""
        self.wire.give_up_stalled()
        self.write()

    async def room(self, stream: Stream) -> None:
        """Waits until a stream may send more answers, or is closed.

        Errors   Draining: the server stops, and does not wait for clients that do not read
        """
        while self._is_unread(stream):
            if self._is_ending:
                raise Draining()
            future = self.edge.loop.create_future()
            self._rooms[future] = stream
            try:
                await future
            finally:
                self._rooms.pop(future, None)

    def _is_unread(self, stream: Stream) -> bool:
        if stream.closed or not self.is_open:
            return False
        return stream.pending > STREAM_UNREAD_MAX or self._is_full()

    def _wake_rooms(self) -> None:
        woken = 0
        for future, stream in self._rooms.items():
            if not future.done() and not self._is_unread(stream):
                future.set_result(None)
                woken += 1
                if woken == WOKEN_AT_ONCE:
                    self.write_soon()
                    return

    # -- its end -----------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a call is in progress or queued, or output is unsent."""
        return bool(self.calls or self._waiting or self._rest or self.wire.pending)

    @property
    def is_storing(self) -> bool:
        """Whether a call is in progress that may store something."""
        return any(map(_may_store, self.calls))

    @property
    def is_told(self) -> bool:
        """Whether the last GOAWAY was sent, after which no call begins."""
        return bool(self.wire.refuses)

    def ping(self) -> None:
        """Sends a PING frame."""
        self.wire.ping()
        self.write()

    def drain(self) -> None:
        """Sends GOAWAY: the first call warns the client, the second refuses further streams."""
        self.is_draining = True
        self.wire.drain()
        self.write()

    def end_reads(self) -> None:
        """Ends the calls that store nothing, and all calls that wait for their client to read."""
        self._is_ending = True
        for call in [*self.calls]:
            if not _may_store(call):
                call.cancel()
        for future in self._rooms:
            if not future.done():
                future.set_result(None)
        waiting, self._waiting = self._waiting, {}
        for stream in waiting.values():
            if not stream.closed:
                OwnCall(self, stream, self.edge.methods[stream.headers.path]).refuse(Draining())
        self.write()

    def cut_off(self) -> None:
        """Closes the connection at once, with all its calls."""
        transport = self._transport
        self._let_go()
        if transport is not None:
            transport.abort()

    def _let_go(self) -> None:
        self._transport = None
        self._rest = b""
        self.wire = _GONE
        self.edge.leave(self, address_name(self.host))
        self._waiting.clear()
        for call in [*self.unsent]:
            call.lose()
        for future in self._rooms:
            if not future.done():
                future.set_result(None)
        self._give_back()


def _may_store(call: WaitingCall) -> bool:
    if isinstance(call, OwnCall):
        return call.served.method.call_class in STORING
    return not isinstance(call, PageCall)


def _no_request(count: int) -> MalformedRequest:
    if count:
        return MalformedRequest(why=f"the call has {count} requests, the method takes one")
    return MalformedRequest(why="the call ended without a request")
