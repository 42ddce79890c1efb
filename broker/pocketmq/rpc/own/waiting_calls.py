"""Interfaces between waiting calls and their connection."""

from abc import ABC, abstractmethod
from typing import Protocol

from pocketmq.rpc.admission import Holder
from pocketmq.rpc.own.memory import Keeping
from pocketmq.rpc.serving import ServedMethod
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream


class WaitingCall(Protocol):
    """One waiting call, or several that wait for the same flush.

    One is an `OwnCall`, `RemotingCall` or `PageCall`, several are `PendingReplies` or
    `PendingFrames`.
    """

    def take_news(self, stream: Stream) -> None:
        """Handles events of the call's stream."""

    def cancel(self) -> None:
        """Cancels the call, or all calls."""

    def give_up(self) -> None:
        """Ends a call that is still in progress when its connection reaches its age limit."""

    def end_requests(self) -> None:
        """Ends the stream of requests, if the call has one."""


class Unsent(ABC):
    """A call whose answer has not been sent yet, and whose effects can be undone."""

    __slots__ = ()

    stream: Stream

    @abstractmethod
    def lose(self) -> None:
        """Undoes the effects of an answer that is not sent."""


class FrameCalling(ABC):
    """A connection of remoting, as requests without a call object see it.

    host     the client's address, packed as in records
    holder   the connection and its last identified user, charged for the requests that begin now
    calls    waiting calls
    now_s    time when the current input was read, by `perf_counter`
    frames   replies that are not written yet
    """

    __slots__ = ()

    host: bytes
    holder: Holder
    calls: set[WaitingCall]
    now_s: float
    frames: list[bytes]

    @abstractmethod
    def refuse_frame(self, request: bytes, served: ServedMethod, error: Exception, /) -> None:
        """Answers a request, given as its whole frame, with an error."""

    @abstractmethod
    def end_call(self, call: WaitingCall, /) -> None:
        """Removes a waiting call that has ended, and writes soon."""


class Calling(Keeping):
    """A connection of HTTP/2, as its calls see it.

    host       the client's address, packed as in records
    holder     the connection and its last identified user, charged for the calls that begin now
    calls      waiting calls
    now_s      time when the current input was read, by `perf_counter`
    unsent     calls whose effects are undone if their answers are not sent
    deadlines  deadlines of all connections
    """

    __slots__ = ()

    wire: Connection
    host: bytes
    holder: Holder
    calls: set[WaitingCall]
    now_s: float
    unsent: set[Unsent]
    deadlines: Deadlines

    @abstractmethod
    def count_silent(self, more: int) -> None:
        """Adds `more` to the number of request streams without a request so far."""

    @abstractmethod
    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder that is charged for the calls of a user on this connection."""

    @abstractmethod
    def write_soon(self) -> None:
        """Schedules one write of the connection's output for the next loop iteration."""
