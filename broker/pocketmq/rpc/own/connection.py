"""One HTTP/2 connection: bytes to wire/, its streams to calls, answers back to the client.

    data_received ─► wire.receive ─► streams with news ─► calls ─► wire.respond …
                                     one write for all ◄─ wire.take ◄─┘

A slow client costs a bounded amount: while it does not read, nothing more is read of it, no further
call is begun, and a handler of many answers waits. A client is slow when the socket takes no more,
or when its windows are shut over UNREAD_SOFT_MAX bytes of answers.
"""

import asyncio
from time import perf_counter
from typing import Final, cast

from pocketmq.model.errors import Draining
from pocketmq.rpc.admission import CallClass, Holder, address_name
from pocketmq.rpc.call import host_from_peer
from pocketmq.rpc.own.call import OwnCall, take_news
from pocketmq.rpc.own.memory import PROGRESS_SIZE, UNREAD_TIGHT_MAX
from pocketmq.rpc.own.page_call import PageCall
from pocketmq.rpc.own.server_state import ClientConnection, ServerState
from pocketmq.rpc.own.waiting_calls import Unsent, WaitingCall
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream

STREAM_UNREAD_MAX: Final = 65_536
"""Bytes of a stream of answers that may wait before its handler does."""
WOKEN_AT_ONCE: Final = 16
"""Streams of answers that go on in one turn of the loop."""
UNREAD_SOFT_MAX: Final = 1024 * 1024
"""Bytes of answers that may wait for a client before its next calls do; less where all clients
together keep much."""
WRITE_HIGH: Final = 262_144
WRITE_LOW: Final = 65_536
"""Bytes in the socket's buffer from which on nothing is written to it, and below which again."""

READ_SIZE: Final = 32_768
"""A longer read is taken in parts: there may be thousands of small calls in it."""
SPARSE_COUNT: Final = 16
SPARSE_SIZE: Final = 65_536
DENSE_SIZE: Final = 8_192
"""Size of the parts where the last one was news for so many streams at most, or for more."""
REST_MAX: Final = 65_536
"""Most bytes of a connection that waits for its turn before it is read no more."""
TURN_S: Final = 0.001
"""How long many small calls may take before other connections have their turn."""
SPARSE_TURN_S: Final = 0.004
"""The same of all else: a few calls may have thousands of fields."""

STORING: Final = frozenset(
    {CallClass.SEND, CallClass.SETTLE, CallClass.POLL, CallClass.ADMIN, CallClass.ACCESS}
)
"""Classes of calls that may store something: they end by themselves."""
SILENT_SIZE: Final = 4_096
"""Memory of a stream of requests, its call and task, before its client has sent one."""

_GONE: Final = Connection()
"""Replaces the protocol of a client that is gone."""


class Http2Connection(ClientConnection, asyncio.Protocol):
    """A client's connection, from its first byte to its last."""

    __slots__ = (
        "_is_dirty", "_is_ending", "_is_paused", "_moved_size", "_rest", "_rooms", "_transport",
        "_waiting", "calls", "deadlines", "edge", "held", "holder", "host", "is_draining",
        "is_heard", "is_used", "moved_s", "now_s", "peer", "sent", "silent_count",
        "unread", "unsent", "wire",
    )  # fmt: skip

    def __init__(self, edge: ServerState, peer: str) -> None:
        self.edge, self.deadlines = edge, edge.deadlines
        self.peer, self.host = peer, host_from_peer(peer)
        self.holder = Holder(peer, self.host)
        self.wire = Connection(sizes=edge.sizes, has_pages=edge.pages is not None)
        self.calls: set[WaitingCall] = set()
        self.unsent: set[Unsent] = set()
        self.held = self.unread = self.sent = self.silent_count = 0
        self.moved_s = self.now_s = 0.0
        self._moved_size = 0
        """Bytes of requests that had come then."""
        self._transport: asyncio.Transport | None = None
        self._is_paused = self._is_dirty = self.is_draining = self._is_ending = False
        self._rest = b""
        """Bytes that arrived and wait for the loop's next turn."""
        self.is_heard = self.is_used = True
        """Whether any bytes, and any of calls, arrived since the last look."""
        self._waiting: dict[int, Stream] = {}
        """Whole requests that wait until the client has read, by their streams' numbers."""
        self._rooms: dict[asyncio.Future[None], Stream] = {}
        """Streams of answers that wait for their client."""

    # -- callbacks of the loop -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        transport = cast(asyncio.Transport, transport)  # uvloop's has no such base
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        self.edge.join(self, address_name(self.host))
        if self.edge.is_leaving:
            self.drain()
        else:
            self.write()

    def data_received(self, data: bytes) -> None:
        """Takes the client's bytes, and answers what can be answered at once."""
        self.is_heard = True
        if self._rest:  # It waits for its turn, or for its client to read.
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
        """Serves the news that begin in [begin, upto); returns how many streams had news."""
        self.now_s = perf_counter()
        news = self.wire.receive(data, begin, upto)
        if news:
            self.is_used = True
            take_news(self, news, self._begin, is_paused=self._is_paused or bool(self._waiting))
        self.edge.took(perf_counter() - self.now_s)
        return len(news)

    def go_on(self) -> None:
        """Takes the received bytes in parts; other connections have their turn in between."""
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
        self._rest = data[position:] if self.wire is wire else b""  # Else the client is gone.
        if self._rest:
            transport.pause_reading()
            self.edge.line_up(self)
        else:
            transport.resume_reading()
        self.write()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancels the calls in progress; nothing can be sent any more."""
        self._let_go()
        for call in [*self.calls]:
            call.cancel()
        self.edge.changed.set()

    def pause_writing(self) -> None:
        """Reads and write no more until the socket takes more."""
        self._is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resumes reading and writing: the socket takes bytes again."""
        self._is_paused = False
        if self._transport is not None:
            if self._rest:
                self.edge.line_up(self)
            else:
                self._transport.resume_reading()
        self.write()

    def count_silent(self, more: int) -> None:
        """Counts streams of requests of which no request has arrived yet."""
        self.silent_count += more
        assert self.silent_count >= 0, "each is counted once"

    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder of the calls that a user begins here."""
        holder = self.holder
        if holder.user != user or holder.is_admin != is_admin:
            holder = self.holder = holder.of(user, is_admin=is_admin)
        return holder

    # -- calls -------------------------------------------------------------------------------------

    def _begin(self, stream: Stream) -> None:
        """Serves a stream's call as soon as enough of it is here; refuses it before that."""
        if stream.closed or not self.is_open:  # One before it may have had this one cut off.
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
        """Answers a GET or HEAD; one that was cut off before gets no answer."""
        pages, transport = self.edge.pages, self._transport
        assert pages is not None, "else it is refused"
        assert transport is not None, "it is open"
        is_private = transport.get_extra_info("sslcontext") is not None
        PageCall(self, stream, pages, is_private=is_private)

    def _serve(self, stream: Stream, served: ServedMethod) -> None:
        """Serves a call whose one request is here."""
        assert len(stream.messages) == 1, "what has not one request is refused"
        raw = stream.messages.pop()
        call = OwnCall(self, stream, served)
        if served.is_unary:
            call.serve(raw)
        else:
            self.wire.consume(stream, len(raw))
            call.stream_from(raw)

    def _serve_in_turn(self, stream: Stream, served: ServedMethod) -> None:
        """Serves a call, later if others of this client wait or none may begin."""
        if len(stream.messages) != 1:
            OwnCall(self, stream, served).refuse(_no_request(len(stream.messages)))
        elif self._waiting or self._is_held_up():
            self._waiting[stream.id] = stream
        else:
            self._serve(stream, served)

    def _is_held_up(self) -> bool:
        """Returns whether no call may begin: its client has to read, or the loop to come round."""
        return self.edge.is_late or self._is_full()

    def _is_full(self) -> bool:
        """Returns whether so much waits for this client that its next calls wait as well."""
        unread = self.wire.pending
        if unread <= UNREAD_TIGHT_MAX and not self._is_paused:
            return False
        memory = self.edge.memory
        return self._is_paused or unread > UNREAD_SOFT_MAX or memory.unread > memory.unread_max

    # -- output ------------------------------------------------------------------------------------

    def write_soon(self) -> None:
        """Writes the replies of this turn's calls in the next turn of the loop."""
        if not self._is_dirty:
            self._is_dirty = True
            self.edge.write_soon(self)

    def write(self) -> None:
        """Writes all that may be written; continues calls that waited for that."""
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
            assert not self._waiting, "each begins as its turn has come"
        finally:
            if self.is_open:
                self._waiting = waiting
        self.edge.took(perf_counter() - self.now_s)

    def count_kept(self) -> None:
        """Counts the memory kept for the client."""
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
        """Notes when requests have gone on, as far as that is worth noting."""
        received = self.wire.received
        if not self.held or received - self._moved_size >= min(PROGRESS_SIZE, held >> 3):
            self._moved_size = received
            self.moved_s = self.edge.memory.clock()

    def give_up_stalled(self) -> None:
        """Refuses calls whose requests have hardly gone on since this was last asked twice."""
        self.wire.give_up_stalled()
        self.write()

    async def room(self, stream: Stream) -> None:
        """Returns when a stream of answers may go on.

        Errors   Draining: a stop waits for no client that does not read
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
        """Returns whether a stream of answers has to wait for its client."""
        if stream.closed or not self.is_open:
            return False
        return stream.pending > STREAM_UNREAD_MAX or self._is_full()

    def _wake_rooms(self) -> None:
        """Wakes some waiting streams; the others follow in later loop iterations."""
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
    def is_open(self) -> bool:
        """Whether anything can still come or go."""
        return self._transport is not None

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way, or its answer."""
        return bool(self.calls or self._waiting or self._rest or self.wire.pending)

    @property
    def is_storing(self) -> bool:
        """Whether a call is under way that may store something, and that ends by itself."""
        return any(map(_may_store, self.calls))

    def ping(self) -> None:
        """Asks the client whether it is there."""
        self.wire.ping()
        self.write()

    def drain(self) -> None:
        """Tells the client to begin no more calls here; the second time, that none are taken."""
        self.is_draining = True
        self.wire.drain()
        self.write()

    def end_reads(self) -> None:
        """Ends the calls that store nothing, and all that waits for its client to read."""
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

    def close(self) -> None:
        """Ends the connection once all answers are sent."""
        self.drain()
        if self._transport is not None:
            self._transport.close()

    def cut_off(self) -> None:
        """Ends the connection now, whatever is under way."""
        transport = self._transport
        self._let_go()
        if transport is not None:
            transport.abort()

    def _let_go(self) -> None:
        """Drops all bytes in both directions; references to this connection then keep little."""
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
        held, unread, self.held, self.unread = self.held, self.unread, 0, 0
        self.edge.memory.count(-held, -unread)


def _may_store(call: WaitingCall) -> bool:
    """Returns whether a call may store something."""
    if isinstance(call, OwnCall):
        return call.served.method.call_class in STORING
    return not isinstance(call, PageCall)


def _no_request(count: int) -> MalformedRequest:
    """Returns the error of a call that has not one request."""
    if count:
        return MalformedRequest(why=f"the call has {count} of them, the method takes one")
    return MalformedRequest(why="the call ended without one")
