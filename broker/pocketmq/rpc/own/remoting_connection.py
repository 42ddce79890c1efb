"""One connection of a classic client: bytes to requests, answers to bytes, for remoting.

    data_received ─► CommandReader ─► queue ─► calls ─► replies, one write for all

No request begins while the client does not read its replies, or while CALLS_MAX requests or more
than BODIES_MAX bytes are in progress; then reading pauses. Parked pulls are limited by their class
instead. A client's reply to a request of the broker is processed even then, unless a request is
queued before it.
Source: NettyRemotingServer, NettyServerHandler, NettyConnectManageHandler.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf
from time import perf_counter
from typing import Final

from pocketmq.rpc.admission import CallClass, address_name
from pocketmq.rpc.own.connection import REST_MAX, STORING, TURN_S
from pocketmq.rpc.own.loop_connection import LoopConnection
from pocketmq.rpc.own.memory import PROGRESS_SIZE
from pocketmq.rpc.own.remoting_call import RemotingCall, RemotingSide
from pocketmq.rpc.own.remoting_fast_path import PendingFrames
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.own.waiting_calls import WaitingCall
from pocketmq.rpc.service import ANY_CODE, MalformedRequest
from pocketmq.rpc.serving import ServedMethod
from pocketmq.wire.remoting import (
    ONE_WAY,
    RESPONSE,
    Command,
    CommandReader,
    Oversized,
    RemotingError,
    decode,
    encode,
    frame_size,
)

logger = logging.getLogger(__name__)

CALLS_MAX: Final = 1_024
"""Upper limit of a connection's requests in progress; parked pulls are not counted."""
BODIES_MAX: Final = 4 * 1024 * 1024
"""Upper limit of bytes of the bodies of a connection's requests that are queued or in progress."""
LARGE_FRAME: Final = 8 * 1024
"""Size from which on the first of several replies shows that they are written without a copy."""
IDLE_S: Final = 120.0
"""Time without a byte after which a connection is closed (serverChannelMaxIdleTimeSeconds)."""
LOOKS: Final = 4
"""Number of checks of a connection within its idle time."""
AGE_GRACE_S: Final = 60.0
"""Time between the age limit and the forced end of a connection: twice the longest poll."""


class RemotingConnection(LoopConnection, RemotingSide):
    """A client's connection, from its first byte to its last.

    local     the address that the client reached, "host:port"; "": the address of the socket
    idle_ms   limit of the time without a received byte, at most IDLE_S; 0: IDLE_S
    age_ms    limit of the connection's age; 0: no limit
    """

    __slots__ = (
        "_age_s", "_asked", "_begun_s", "_body_bytes", "_ends", "_heard_s", "_idle_s", "_numbers",
        "_parked", "_queue", "_reader", "_received", "_seen_size", "_stalled_size", "frames",
        "local",
    )  # fmt: skip

    def __init__(
        self, edge: ServerState, peer: str, local: str = "", *, idle_ms: int = 0, age_ms: int = 0
    ) -> None:
        super().__init__(edge, peer)
        self.local = local
        self._reader = CommandReader(self._body_max)
        self._queue: deque[Command | Oversized] = deque()
        """Requests that wait for this connection's turn, for the client to read, or for calls."""
        self.frames: list[bytes] = []
        """Encoded commands that are not written yet."""
        self._parked = self._body_bytes = 0
        """Parked pulls; bytes of bodies that are queued or in progress."""
        self._received = self._stalled_size = self._seen_size = 0
        """Bytes received: in total, at the last check for stalls, and at the last idle check."""
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Command]] = {}
        """Requests to the client that wait for its reply, by opaque number."""
        self._ends: dict[object, Callable[[], None]] = {}
        self._idle_s = min(IDLE_S, idle_ms / 1000 or inf)
        self._age_s = age_ms / 1000 or inf
        self._begun_s = self._heard_s = edge.memory.clock()
        assert self._idle_s > 0, "no idle time"

    # -- callbacks of the loop -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection; the client writes first."""
        transport = self._join(transport)
        if not self.local:
            self.local = _address_of(transport.get_extra_info("sockname"))
        self._look_later()
        self.is_draining = self.edge.is_leaving  # The client's first request is still served.

    def data_received(self, data: bytes) -> None:
        """Handles received bytes, and answers the requests that can be answered at once."""
        self._received += len(data)
        if self._rest or self._queue:
            self._rest += data
            if len(self._rest) > REST_MAX and self._transport is not None:
                self._transport.pause_reading()
            self._count_kept()
        elif not self.edge.has_time_for(len(data)):
            self._rest = data
            self.edge.line_up(self)
        else:
            self._take(data)
            self.write()

    def _take(self, data: bytes) -> None:
        self._is_dirty = True  # The caller writes all replies together.
        self.now_s = perf_counter()
        data = self._served_quickly(self._reader.joined(data))
        if not data:
            return
        try:
            commands = self._reader.receive(data)
        except RemotingError:
            self.cut_off()
            return
        for one in commands:
            if isinstance(one, Command):
                self._body_bytes += len(one.body)
        self._queue.extend(commands)
        self._serve_queue()

    def _served_quickly(self, data: bytes) -> bytes:
        """Serves the requests that have shortcuts; returns the bytes from the first other one on.

        After an error of a shortcut, what the request changed is unknown: it is not served again.
        """
        if self._reader.is_unfinished or self._queue or self._is_full():
            return data
        quick = self.edge.quick_frames
        try:
            position = quick.serve(self, data)
        except Exception as error:
            assert quick.asked is not None, "the error is not from a shortcut"
            position = quick.place + frame_size(data, quick.place)
            self.refuse_frame(data[quick.place : position], quick.asked, error)
        if position:
            self.edge.took(perf_counter() - self.now_s)
        return data[position:] if position else data

    def refuse_frame(self, request: bytes, served: ServedMethod, error: Exception, /) -> None:
        """Answers a request, given as its whole frame, with an error."""
        RemotingCall(self, decode(request), served).refuse(error)

    def _serve_queue(self) -> None:
        begun = self.now_s = perf_counter()
        queue = self._queue
        while queue and self.is_open and (_is_reply(queue[0]) or not self._is_full()):
            self._begin(queue.popleft())
            if perf_counter() - begun > TURN_S and queue:
                self.edge.line_up(self)
                break
        self.edge.took(perf_counter() - begun)

    def go_on(self) -> None:
        """Handles queued requests and bytes."""
        if not self.is_open or self._is_paused:
            return
        if self._queue:
            self._serve_queue()
        rest = self._rest
        if rest and not self._queue:
            self._rest = b""
            self._take(rest)
        self.write()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancels the calls in progress, except one-way requests."""
        self._let_go()
        for call in [*self.calls]:
            if not (isinstance(call, RemotingCall) and _outlives(call)):
                call.cancel()
        self.edge.changed.set()

    def resume_writing(self) -> None:
        """Resumes reading and writing: the socket accepts bytes again."""
        self._is_paused = False
        self._resume()
        self.write()

    # -- requests --------------------------------------------------------------------------------

    def _body_max(self, code: int) -> int:
        served = self._served(code)
        return 0 if served is None else served.method.request_size_max

    def _served(self, code: int) -> ServedMethod | None:
        requests = self.edge.serving.requests
        return requests.get(code) or requests.get(ANY_CODE)

    def _begin(self, item: Command | Oversized) -> None:
        command = item if isinstance(item, Command) else item.command
        self._body_bytes -= len(command.body)
        if command.is_reply:
            future = self._asked.pop(command.opaque, None)
            if future is not None and not future.done():
                future.set_result(command)
            return
        served = self._served(command.code)
        if served is None:
            self.cut_off()
            return
        call = RemotingCall(self, command, served)
        if isinstance(item, Oversized):
            limit = served.method.request_size_max
            why = (
                f"its body has {item.body_size} bytes; the limit of {served.method.name} is {limit}"
            )
            call.refuse(MalformedRequest(why=why))
        else:
            call.serve()

    def _is_full(self) -> bool:
        if self._is_paused or len(self.calls) - self._parked >= CALLS_MAX:
            return True
        return self._body_bytes > BODIES_MAX and len(self.calls) > self._parked

    def add_call(self, call: RemotingCall) -> None:
        """Adds a call that waits."""
        self.calls.add(call)
        self._body_bytes += len(call.command.body)
        self._parked += call.served.method.call_class is CallClass.POLL

    def remove_call(self, call: RemotingCall) -> None:
        """Removes a call that has ended, and resumes requests that waited for it."""
        self._body_bytes -= len(call.command.body)
        self._parked -= call.served.method.call_class is CallClass.POLL
        self.end_call(call)

    def end_call(self, call: WaitingCall, /) -> None:
        """Removes a waiting call that has ended, and writes soon."""
        self.calls.remove(call)
        if self.is_open:
            self.write_soon()
        elif not self.calls:
            self.edge.leave(self, address_name(self.host))
            self.edge.changed.set()

    # -- output ----------------------------------------------------------------------------------

    def reply(self, answer: Command, request: Command) -> None:
        """Sends the reply to a request, in the serialization of the request."""
        opaque, serialization = request.opaque, request.serialization
        reply = answer._replace(opaque=opaque, flag=RESPONSE, serialization=serialization)
        self._send(encode(reply))

    def tell(self, request: Command, /) -> bool:
        """Sends a one-way request; returns whether it will be sent (`RemotingChannel.tell`)."""
        if not self.is_open or self._is_paused:
            return False
        try:
            frame = encode(request._replace(opaque=next(self._numbers), flag=ONE_WAY))
        except Exception:
            logger.exception("rpc.connection_failed", extra={"peer": self.peer})
            return False
        self._send(frame)
        return True

    def ask(self, request: Command, /) -> "asyncio.Future[Command]":
        """Sends a request; returns the future reply (`RemotingChannel.ask`)."""
        future: asyncio.Future[Command] = self.edge.loop.create_future()
        if not self.is_open or self._is_paused:
            why = "the client does not read" if self.is_open else "the client went away"
            future.set_exception(ConnectionResetError(why))
            return future
        opaque = next(self._numbers)
        frame = encode(request._replace(opaque=opaque, flag=0))
        self._asked[opaque] = future
        future.add_done_callback(lambda _: self._asked.pop(opaque, None))
        self._send(frame)
        return future

    def _send(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.write_soon()

    def write(self) -> None:
        """Writes output, begins requests that waited, and closes a drained connection."""
        self._is_dirty = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.frames:
            frames, self.frames = self.frames, []
            self.sent += _write(transport, frames)
        self._count_kept()
        self._resume()
        if self.is_draining:
            self.edge.changed.set()
            if not self.is_busy and not self._reader.is_unfinished:
                transport.close()

    def _resume(self) -> None:
        transport = self._transport
        if transport is None or self._is_paused:
            return
        if not self._queue and not self._rest:
            transport.resume_reading()
        elif self._is_full():
            transport.pause_reading()
        else:
            self.edge.line_up(self)

    def _count_kept(self) -> None:
        transport = self._transport
        if transport is None:
            return
        held = self._reader.held + len(self._rest) + self._body_bytes
        unread = transport.get_write_buffer_size() if self._is_paused else 0
        more = (held - self.held, unread - self.unread)
        if not any(more):
            return
        progress = self._received - self._moved_size
        if not self.held or progress >= min(PROGRESS_SIZE, held >> 3):
            self._moved_size = self._received
            self.moved_s = self.edge.memory.clock()
        self.held, self.unread = held, unread
        self.edge.memory.count(*more)

    # -- its end ---------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress or queued, or a reply is unsent."""
        return bool(self.calls or self._queue or self._rest or self.frames)

    @property
    def is_storing(self) -> bool:
        """Whether a call is in progress that may store something."""
        return any(map(_may_store, self.calls))

    @property
    def is_told(self) -> bool:
        """Whether a drain has begun: the protocol has no message for it."""
        return self.is_draining

    def give_up_stalled(self) -> None:
        """Closes the connection if no byte of its unfinished request came since the last check."""
        if self._reader.is_unfinished and self._received == self._stalled_size:
            self.cut_off()
        self._stalled_size = self._received

    def when_gone(self, end: Callable[[], None], /) -> Callable[[], None]:
        """Registers a function for the loss of the connection (`RemotingChannel.when_gone`)."""
        key = object()
        self._ends[key] = end
        return partial(self._forget, key)

    def _forget(self, key: object) -> None:
        self._ends.pop(key, None)

    def drain(self) -> None:
        """Closes the connection once no request is in progress; its client then connects again."""
        self.is_draining = True
        self.write()

    def end_reads(self) -> None:
        """Ends the calls that store nothing."""
        for call in [*self.calls]:
            if not _may_store(call):
                call.cancel()

    def cut_off(self) -> None:
        """Closes the connection at once, with all its calls."""
        transport = self._transport
        self._let_go()
        for call in [*self.calls]:
            call.cancel()
        if transport is not None:
            transport.abort()

    def _let_go(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._rest = b""
        self._queue.clear()
        self.frames.clear()
        self._reader = CommandReader(self._body_max)
        if not self.calls:
            self.edge.leave(self, address_name(self.host))
        self._give_back()
        for future in [*self._asked.values()]:
            if not future.done():
                future.set_exception(ConnectionResetError("the client went away"))
        ends, self._ends = self._ends, {}
        for end in ends.values():
            self._try(end)

    def _try(self, end: Callable[[], None]) -> None:
        """Calls a function registered by `when_gone`; logs its error, so the next one is called."""
        try:
            end()
        except Exception:
            logger.exception("rpc.connection_failed", extra={"peer": self.peer})

    def _look_later(self) -> None:
        self.edge.deadlines.after(min(self._idle_s, self._age_s) / LOOKS, self._look)

    def _look(self) -> None:
        if not self.is_open:
            return
        now_s = self.edge.memory.clock()
        if self._received != self._seen_size:
            self._seen_size, self._heard_s = self._received, now_s
        age_s = now_s - self._begun_s
        if now_s - self._heard_s >= self._idle_s or age_s >= self._age_s + AGE_GRACE_S:
            self.cut_off()
            return
        if age_s >= self._age_s:
            self.drain()
        self._look_later()


def _is_reply(item: Command | Oversized) -> bool:
    return isinstance(item, Command) and item.is_reply


def _outlives(call: RemotingCall) -> bool:
    """Returns whether a one-way call continues without its client: it waits for no messages."""
    is_wait = call.served.method.call_class in (CallClass.POLL, CallClass.QUESTION)
    return call.command.is_one_way and not is_wait


def _write(transport: asyncio.Transport, frames: list[bytes]) -> int:
    """Writes frames, without a copy if they are large; returns the number of bytes."""
    if len(frames) > 1 and len(frames[0]) >= LARGE_FRAME:
        transport.writelines(frames)
        return sum(map(len, frames))
    data = frames[0] if len(frames) == 1 else b"".join(frames)
    transport.write(data)
    return len(data)


def _may_store(call: WaitingCall) -> bool:
    if isinstance(call, PendingFrames):
        return True
    return isinstance(call, RemotingCall) and call.served.method.call_class in STORING


def _address_of(place: object) -> str:
    """Returns a socket's address as "host:port", "" if it is not a TCP address."""
    if not isinstance(place, tuple):
        return ""
    host, port = str(place[0]).removeprefix("::ffff:"), place[1]
    return f"[{host.partition('%')[0]}]:{port}" if ":" in host else f"{host}:{port}"
