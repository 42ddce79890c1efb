"""Interfaces between waiting calls and their connection."""

from abc import ABC, abstractmethod
from typing import Protocol

from pocketmq.rpc.admission import Holder
from pocketmq.rpc.own.memory import Keeping
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream


class WaitingCall(Protocol):
    """A waiting call (`OwnCall`, `PageCall`), or several (`PendingReplies`)."""

    def take_news(self, stream: Stream) -> None:
        """Handles events of the call's stream."""

    def cancel(self) -> None:
        """Cancels the handler: the client stopped waiting, time is over, or the server stops."""

    def give_up(self) -> None:
        """Ends a call that is still in progress when its connection reaches its age limit."""

    def end_requests(self) -> None:
        """Ends the stream of requests."""


class Unsent(ABC):
    """A call whose answer has not been sent yet, and whose effects can be undone."""

    __slots__ = ()

    stream: Stream

    @abstractmethod
    def lose(self) -> None:
        """Undoes the effects of an answer that is not sent."""


class Calling(Keeping):
    """A connection, as its calls see it.

    host       the client's address, packed as in records
    holder     charged for the calls that begin now: the connection and its last identified user
    calls      waiting calls
    now_s      time when the current input was read, by `perf_counter`
    unsent     calls to notify if their answers are not sent
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
        """Adds to the number of request streams without a request so far."""

    @abstractmethod
    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder of the calls that a user begins here."""

    @abstractmethod
    def write_soon(self) -> None:
        """Schedules one write of the connection's output for the next loop iteration."""
