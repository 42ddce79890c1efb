"""One request of a remoting client, from its arrival to its reply.

A request whose handler answers at once has ended when `serve` returns, without a task. Any other
request waits for a task or a future, which is cancelled when its client disconnects. A one-way
request gets no reply. Its client often disconnects at once, so it is cancelled only if it waits for
messages or for another client's answer.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from types import CoroutineType
from typing import Any

from pocketmq.model.errors import Draining, TooManyRequests
from pocketmq.rpc.admission import Holder
from pocketmq.rpc.call import (
    REQUEST_ID_KEY,
    May,
    anything,
    begin_request,
    current_request_id,
    end_request,
)
from pocketmq.rpc.channel import ClassicCall, RemotingChannel, WhenGone, never
from pocketmq.rpc.own.eager_task import EagerTask, begun
from pocketmq.rpc.own.server_state import LARGE_REPLY, UNCOUNTED_S, ServerConnection
from pocketmq.rpc.own.waiting_calls import FrameCalling
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.remoting import Command
from pocketmq.wire.stream import Stream

logger = logging.getLogger(__name__)


class RemotingSide(ServerConnection, RemotingChannel, FrameCalling):
    """A remoting connection, as its calls see it."""

    __slots__ = ()

    @abstractmethod
    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder that is charged for the calls of a user on this connection."""

    @abstractmethod
    def reply(self, answer: Command, request: Command) -> None:
        """Sends the reply to a request."""

    @abstractmethod
    def add_call(self, call: "RemotingCall") -> None:
        """Adds a call that waits."""

    @abstractmethod
    def remove_call(self, call: "RemotingCall") -> None:
        """Removes a call that has ended."""


class RemotingCall(ClassicCall):
    """A request in progress."""

    # Defaults in the class: most calls end before any of these would change.
    user = ""
    may: May = staticmethod(anything)
    when_user_gone: WhenGone = staticmethod(never)
    _future: asyncio.Future[Command] | None = None
    _holder: Holder | None = None
    _reserved = 0
    _undo: Callable[[], None] | None = None

    def __init__(self, connection: RemotingSide, command: Command, served: ServedMethod) -> None:
        self.channel: RemotingSide = connection
        assert connection.is_open, "a request of a closed connection"
        self.command = command
        self.served = served
        self.begun = connection.now_s

    # -- for handlers ----------------------------------------------------------------------------

    def metadata(self, name: str, /) -> str | None:
        """Returns a field of the request, None if the request has no field of this name."""
        return self.command.fields.get(name)

    def identify(self, user: str, /, *, is_admin: bool) -> None:
        """Sets the verified user of the call.

        Errors   ShareTaken, TooManyRequests
        """
        self.user = user
        gate = self.served.gate
        holder = self.channel.identify(user, is_admin=is_admin)
        refusal = None if gate.count < gate.tight else gate.refusal(holder)
        if refusal is not None:
            raise refusal

    def time_left_ms(self) -> int | None:
        """Returns None: requests of remoting contain no deadline."""
        return None

    def room(self, wanted: int, /) -> int:
        """Reserves `wanted` bytes for an answer; returns how many were granted."""
        memory = self.channel.edge.memory
        wanted = self._reserved = memory.reserve(wanted, self._reserved)
        return wanted

    def check_room(self, size: int, /) -> None:
        """Checks that an answer of `size` bytes may be buffered until its client reads it.

        Errors   TooManyRequests
        """
        memory = self.channel.edge.memory
        if not memory.has_room_for(size, self.channel.unread):
            raise TooManyRequests(field="unread", limit=memory.unread_max)

    def if_lost(self, undo: Callable[[], None], /) -> None:
        """Registers a function that is called once if the answer is not sent."""
        self._undo = undo

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it."""
        return self.channel.peer

    @property
    def peer_host(self) -> bytes:
        """The client's address, packed as in records."""
        return self.channel.host

    # -- its life --------------------------------------------------------------------------------

    def serve(self) -> None:
        """Begins the call; sends its reply if the handler answers at once."""
        refusal = self.served.refusal(self.channel.holder)
        begin_request(self.metadata)
        try:
            if refusal is not None:
                raise refusal
            method = self.served.method
            assert method.parse is not None, "a method of remoting has no parser"
            answer = method.handler(method.parse(self.command), self)
            if isinstance(answer, CoroutineType):
                answer = begun(answer)
            if isinstance(answer, Command):
                self._give(answer)
            else:
                self._wait_for(answer)
        except asyncio.CancelledError:
            self._end_cancelled()
        except Exception as error:
            self.refuse(error)
        finally:
            end_request()
            if perf_counter() - self.begun > UNCOUNTED_S:
                self.channel.edge.look_at_clock()

    def _give(self, answer: Command) -> None:
        stats = self.served.stats
        self._reply(answer)
        stats.answered += 1
        if stats.answered == 1:
            self.channel.edge.answered.append(stats)

    def _reply(self, answer: Command) -> None:
        size, channel = len(answer.body), self.channel
        if size > LARGE_REPLY:
            self.check_room(size)
        if self._reserved:
            self.room(0)
        if not channel.is_open:
            self.lose()
            return
        if not self.command.is_one_way:
            channel.reply(answer, self.command)
        self._undo = None

    def _wait_for(self, answer: Awaitable[Command]) -> None:
        channel = self.channel
        if isinstance(answer, asyncio.Future):
            future: asyncio.Future[Command] = answer
        else:
            coroutine = answer if isinstance(answer, Coroutine) else _result(answer)
            future = asyncio.Task(coroutine, loop=channel.edge.loop)
            if not isinstance(coroutine, EagerTask):
                channel.edge.expect_step()
        self._future = future
        self._holder = channel.holder
        self.served.gate.enter(self._holder.weights)
        self.served.stats.begin()
        channel.add_call(self)
        future.add_done_callback(self._finish)

    def _finish(self, future: "asyncio.Future[Command]") -> None:
        assert self._holder is not None, "a waiting call that was not counted"
        self.served.gate.leave(self._holder.weights)
        self.served.stats.end()
        self._future = None
        seconds = perf_counter() - self.begun
        try:
            if future.cancelled():
                self._end_cancelled()
            elif (error := future.exception()) is not None:
                assert isinstance(error, Exception), "an error that ends the process"
                self.refuse(error)
            else:
                self._end_well(future.result(), seconds)
        finally:
            self.channel.remove_call(self)

    def _end_well(self, answer: Command, seconds: float) -> None:
        try:
            self._reply(answer)
        except Exception as error:
            self.refuse(error)
        else:
            self.served.stats.count_waited(seconds)

    def _end_cancelled(self) -> None:
        """Refuses a connected client's call with Draining; counts any other as cancelled."""
        if self.channel.is_open and not self.command.is_one_way:
            self.refuse(Draining())
        else:
            self.lose()
            self.served.stats.count_cancelled(perf_counter() - self.begun)

    def refuse(self, error: Exception) -> None:
        """Ends the call with an error in the form of its API.

        If the error cannot be sent, the connection is closed, so that the client does not wait.
        """
        self.lose()
        begin_request(self.metadata)
        try:
            self._send_error(self.served.shown(error, perf_counter() - self.begun))
        except Exception:
            logger.exception("rpc.untold", extra={"method": self.served.path})
            self.channel.cut_off()
        finally:
            end_request()

    def _send_error(self, shown: Any) -> None:
        if self.channel.is_open and not self.command.is_one_way:
            # A remark that quotes half of a surrogate pair could not be encoded.
            remark = shown.remark.encode("utf-8", "backslashreplace").decode()
            fields = {**shown.fields, REQUEST_ID_KEY: current_request_id()}
            self.channel.reply(shown._replace(fields=fields, remark=remark), self.command)

    def lose(self) -> None:
        """Undoes the effects of an answer that is not sent, and frees its reservation."""
        if self._reserved:
            self.room(0)
        undo, self._undo = self._undo, None
        if undo is not None:
            self.served.undo(undo)

    # -- events of its connection ----------------------------------------------------------------

    def take_news(self, stream: Stream) -> None:
        """Is not called: remoting has no streams."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Cancels the handler, if the call waits for one."""
        if self._future is not None:
            self._future.cancel()

    def give_up(self) -> None:
        """Ends a call that is still in progress when its connection reaches its age limit."""
        self.cancel()

    def end_requests(self) -> None:
        """Does nothing: a call has one request."""


async def _result(answer: Awaitable[Command]) -> Command:
    return await answer
