"""One call on PocketMQ's own transport, from its request to its answer, error or cancellation.

A unary call whose handler answers at once has ended when `serve` returns, without task or timer.
Any other call waits for a task, for the future that its handler returned, or for a flush.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import Any, cast

from pocketmq.model.errors import TooManyRequests
from pocketmq.rpc.admission import Holder
from pocketmq.rpc.call import May, anything, begin_request, end_request, turn_user
from pocketmq.rpc.own.eager_task import EagerTask, begun
from pocketmq.rpc.own.ending import ABANDONED, EXPIRED, OLD, end, tell
from pocketmq.rpc.own.page_call import PageCall
from pocketmq.rpc.own.pending_replies import PendingReplies
from pocketmq.rpc.own.requests import CallRequests
from pocketmq.rpc.own.server_state import LARGE_REPLY, UNCOUNTED_S, ClientConnection
from pocketmq.rpc.own.waiting_calls import Unsent
from pocketmq.rpc.pending_reply import PendingReply
from pocketmq.rpc.service import WireStatus
from pocketmq.rpc.serving import OK, ServedMethod, let_frames_go
from pocketmq.wire.stream import Stream


class OwnCall(Unsent):
    """A call in progress."""

    # Defaults in the class: most calls end before any of these would change.
    user = ""
    may: May = staticmethod(anything)
    requests: CallRequests | None = None
    _future: asyncio.Future[bytes | None] | None = None
    _deadline = -1
    _reserved = 0
    _holder: Holder | None = None
    _is_begun = False
    _is_over = False
    _why: WireStatus = ABANDONED
    _undo: Callable[[], None] | None = None

    def __init__(self, connection: ClientConnection, stream: Stream, served: ServedMethod) -> None:
        self._connection = connection
        self.stream = stream
        self.served = served
        self.begun = connection.now_s

    # -- for handlers ------------------------------------------------------------------------------

    def metadata(self, name: str, /) -> str | None:
        """Returns the first metadata value of a name, None if the client sent no such metadata."""
        return self.stream.headers.text(name)

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Sets the verified user of the call.

        Errors   ShareTaken, TooManyRequests
        """
        self.user = user
        holder = self._connection.identify(user, is_admin=is_admin)
        gate, counted = self.served.gate, self._holder
        if counted is not None:  # A stream's call was counted before its handler ran.
            gate.leave(counted.weights)
        refusal = None if gate.count < gate.tight else gate.refusal(holder)
        if counted is not None:
            self._holder = holder
            gate.enter(holder.weights)
        if refusal is not None:
            raise refusal

    def time_left_ms(self) -> int | None:
        """Returns the time until the client's deadline, None if the client set no deadline."""
        timeout_ms: int = self.stream.headers.timeout_ms
        if timeout_ms < 0:
            return None
        return max(0, timeout_ms - int((perf_counter() - self.begun) * 1000))

    def room(self, wanted: int, /) -> int:
        """Reserves `wanted` bytes for an answer; returns how many were granted."""
        if not self._is_over:  # Nothing would free a reservation after the end.
            wanted = self._reserved = self._connection.edge.memory.reserve(wanted, self._reserved)
        return wanted

    def check_room(self, size: int, /) -> None:
        """Checks that an answer of `size` bytes may be buffered until its client reads it.

        Errors   TooManyRequests
        """
        memory = self._connection.edge.memory
        if not memory.has_room_for(size, self._connection.wire.pending):
            raise TooManyRequests(field="unread", limit=memory.unread_max)

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Registers a function that is called once if the answer is not sent."""
        self._undo = undo

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it."""
        return self._connection.peer

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as in records."""
        return self._connection.host

    # -- its life ----------------------------------------------------------------------------------

    def serve(self, raw: bytes, *, is_asked: bool = False) -> None:
        """Serves a unary call whose request is complete.

        is_asked   whether the method's shortcut has already declined the call
        Cost       about 2 µs plus the handler, if the handler answers at once
        """
        served = self.served
        if served.shortcut is None:
            begin_request(self.metadata)
            self._is_begun = True
        try:
            reply = served.answer_usually(raw, self) if is_asked else served.answer(raw, self)
        except Exception as error:
            self.refuse(error)
        else:
            self.give(reply)

    def give(self, reply: bytes | Awaitable[bytes]) -> None:
        """Sends a reply, or waits for it."""
        served = self.served
        if isinstance(reply, bytes):
            try:
                if len(reply) > LARGE_REPLY:
                    self._check_room(reply)
            except TooManyRequests as error:
                self.refuse(error)
                return
            connection, stats = self._connection, served.stats
            connection.wire.respond(self.stream, reply)
            if self._undo is not None:
                self._watch()
            stats.answered += 1
            if stats.answered == 1:
                connection.edge.answered.append(stats)
            if self._reserved:
                self.room(0)
            if len(reply) > LARGE_REPLY:
                connection.count_kept()
            if self._is_begun:
                end_request()
        elif isinstance(reply, PendingReply) and len(reply.in_time) <= LARGE_REPLY:
            late = PendingReplies(self._connection, served, reply)
            late.add(self.stream, reply.in_time)
            late.begin()
            if self._is_begun:
                end_request()
        else:
            self._begin_or_wait(reply)

    def _begin_or_wait(self, reply: Awaitable[bytes | None]) -> None:
        if self.served.begins_at_once and isinstance(reply, CoroutineType):
            self._begin(reply)
        else:
            self._wait_for(reply)

    def _begin(self, reply: "CoroutineType[Any, None, bytes | None]") -> None:
        if not self._is_begun:
            begin_request(self.metadata)
            self._is_begun = True
        try:
            given = begun(reply)
        except asyncio.CancelledError:
            self._wait_for(_given_up(self._connection.edge.loop))
            return
        except Exception as error:
            self.refuse(error)
            return
        finally:
            if perf_counter() - self.begun > UNCOUNTED_S:
                self._connection.edge.look_at_clock()
        if given is None or (isinstance(given, bytes) and self._is_gone()):
            if self._reserved:
                self.room(0)
            self._reply(given, perf_counter() - self.begun)
            self._connection.write_soon()
            end_request()
        elif isinstance(given, bytes):
            self.give(given)
        else:
            self._wait_for(given)

    def _check_room(self, reply: bytes) -> None:
        if len(reply) > LARGE_REPLY:
            self._connection.edge.look_at_clock()
        self.check_room(len(reply))

    def stream_from(self, raw: bytes | None) -> None:
        """Serves a call that streams its answers, its requests or both.

        raw   the single request; None: the call streams requests
        """
        if raw is None:
            user = partial(turn_user, self)
            self.requests = CallRequests(self._connection, self.stream, self.served, user)
        self._begin_or_wait(self._streamed(raw))

    async def _streamed(self, raw: bytes | None) -> bytes | None:
        served = self.served
        request: Any = self.requests if raw is None else served.read(raw)
        answer = served.method.handler(request, self)
        if not served.method.kind.has_answers:
            return served.write(await answer)
        async with aclosing(answer) as answers:
            await self._send_all(answers)
        return None

    async def _send_all(self, answers: AsyncIterator[Any]) -> None:
        connection, stream = self._connection, self.stream
        if self.requests is not None and not self._is_gone():
            connection.wire.send_headers(stream, [])  # Some clients wait for headers.
            connection.write_soon()
        await connection.room(stream)
        async for one in answers:
            if self._is_gone():
                return
            if not stream.is_head_sent:
                connection.wire.send_headers(stream, [])
            for reply in self.served.method.encoded(one):
                connection.wire.send_message(stream, reply)
            connection.write_soon()
            await connection.room(stream)

    def _wait_for(self, reply: Awaitable[bytes | None]) -> None:
        assert self._future is None, "the call already waits"
        if not self._is_begun:
            begin_request(self.metadata)
            self._is_begun = True
        if isinstance(reply, asyncio.Future):
            future: asyncio.Future[bytes | None] = reply
        else:
            coroutine = reply if isinstance(reply, Coroutine) else _result(reply)
            edge = self._connection.edge
            future = asyncio.Task(coroutine, loop=edge.loop)
            if not isinstance(coroutine, EagerTask):  # An EagerTask has run its first step.
                edge.expect_step()
        self._future = future
        self._begin_waiting()
        future.add_done_callback(self._finish)
        end_request()

    def _begin_waiting(self) -> None:
        connection = self._connection
        self.stream.call = self
        self._holder = connection.holder
        self.served.gate.enter(self._holder.weights)
        self.served.stats.begin()
        connection.calls.add(self)
        timeout_ms = self.stream.headers.timeout_ms
        if timeout_ms >= 0:
            edge = connection.edge
            at_s = edge.loop.time() + timeout_ms / 1000
            self._deadline = edge.deadlines.add(at_s, self._expire)

    def _end_waiting(self) -> float:
        connection = self._connection
        connection.calls.remove(self)
        if self.requests is not None:
            self.requests.hear()
        if self._deadline >= 0:
            connection.edge.deadlines.remove(self._deadline, self._expire)
        assert self._holder is not None, "a waiting call that was not counted"
        self.served.gate.leave(self._holder.weights)
        self._holder = None
        self.served.stats.end()
        if self._reserved:
            self.room(0)
        self._is_over = True
        self._future = None  # Frees the reply: stream and call refer to each other.
        connection.write_soon()
        return perf_counter() - self.begun

    def _finish(self, future: "asyncio.Future[bytes | None]") -> None:
        seconds = self._end_waiting()
        if future.cancelled():
            _let_frames_go(future)
            self.lose()
            self.served.stats.count_cancelled(seconds)
            if not self._is_gone():
                end(self._connection.wire, self.stream, self._why)
        elif (error := future.exception()) is not None:
            assert isinstance(error, Exception), "an error that ends the process"
            self.refuse(error)
        else:
            self._reply(future.result(), seconds)

    def _reply(self, reply: bytes | None, seconds: float) -> None:
        connection, stream = self._connection, self.stream
        if reply is not None:
            try:
                self._check_room(reply)
            except TooManyRequests as error:
                self.refuse(error)
                return
        self.served.stats.count_waited(seconds)
        if self._is_gone():
            self.lose()
            return
        if reply is None:
            connection.wire.finish(stream, OK, "", [])
        else:
            connection.wire.respond(stream, reply)
        if self._undo is not None:
            self._watch()
        if reply is not None and len(reply) > LARGE_REPLY:
            connection.write()

    def refuse(self, error: Exception) -> None:
        """Ends the call with an error in the form of its API."""
        self.lose()
        if not self._is_begun:
            begin_request(self.metadata)
        if self._reserved:
            self.room(0)
        refused = self.served.refused(error, perf_counter() - self.begun)
        end_request()
        if not self._is_gone():
            tell(self._connection.wire, self.stream, refused)

    def _is_gone(self) -> bool:
        return self.stream.closed or not self._connection.is_open

    # -- events of a call ------------------------------------------------------------------------

    def take_news(self, stream: Stream) -> None:
        """Handles events of the call's stream."""
        assert stream.call is self, "stream of another call"
        if stream.reset_code >= 0:
            self.cancel()
            self.lose()
        elif self.requests is not None:
            self.requests.wake()

    def _watch(self) -> None:
        self.stream.call = self
        self._connection.unsent.add(self)

    def lose(self) -> None:
        """Undoes the effects of an answer that is not sent."""
        undo, self._undo = self._undo, None
        if undo is not None:
            self._connection.unsent.discard(self)
            self.served.undo(undo)

    def cancel(self) -> None:
        """Cancels the handler, if the call waits for one."""
        if self._future is not None:
            self._future.cancel()

    def give_up(self) -> None:
        """Ends a call that is still in progress when its connection reaches its age limit."""
        self._why = OLD
        self.cancel()

    def end_requests(self) -> None:
        """Ends the stream of requests."""
        if self.requests is not None:
            self.requests.end()

    def _expire(self) -> None:
        self._why = EXPIRED
        self.cancel()


def _given_up(loop: asyncio.AbstractEventLoop) -> "asyncio.Future[bytes | None]":
    future: asyncio.Future[bytes | None] = loop.create_future()
    future.cancel()
    return future


def _let_frames_go(future: "asyncio.Future[bytes | None]") -> None:
    try:
        future.exception()
    except asyncio.CancelledError as error:
        let_frames_go(error)


async def _result(reply: Awaitable[bytes | None]) -> bytes | None:
    return await reply


def take_news(
    client: ClientConnection,
    news: list[Stream],
    begin: Callable[[Stream], None],
    *,
    is_paused: bool,
) -> None:
    """Handles events of streams: calls `begin` for new calls that the fast path does not serve."""
    at, count = 0, len(news)
    while at < count:
        begun = at
        if client.is_open and not (is_paused or client.edge.is_late):
            at = _serve_at_once(client, news, at)
        if at == begun:
            call = news[at].call
            if call is None:
                begin(news[at])
            else:
                assert isinstance(call, OwnCall | PendingReplies | PageCall), "unknown type of call"
                call.take_news(news[at])
            at += 1


def _serve_at_once(client: ClientConnection, news: list[Stream], at: int) -> int:
    quick = client.edge.quick
    try:
        at = quick.serve(client, news, at)
    except Exception as error:
        assert quick.asked is not None, "the error is not from a shortcut"
        OwnCall(client, news[quick.place], quick.asked).refuse(error)
        return quick.place + 1
    if quick.asked is None:
        return at
    stream, reply = news[at], quick.reply
    call = OwnCall(client, stream, quick.asked)
    raw = stream.messages.pop()
    if reply is None:
        call.serve(raw, is_asked=True)
    else:
        call.give(cast(Awaitable[bytes], reply))
    return at + 1
