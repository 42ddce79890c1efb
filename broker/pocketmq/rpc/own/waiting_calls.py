"""Calls that are waited for, and the connection they are of, as they see each other."""

from abc import ABC, abstractmethod
from typing import Protocol

from pocketmq.rpc.admission import Holder
from pocketmq.rpc.own.memory import Keeping
from pocketmq.store.deadlines import Deadlines
from pocketmq.wire.connection import Connection
from pocketmq.wire.stream import Stream


class WaitingCall(Protocol):
    """A call (`OwnCall`) or many (`PendingReplies`) the connection waits for."""

    def take_news(self, stream: Stream) -> None:
        """Handles news of a stream whose call is under way."""

    def cancel(self) -> None:
        """Cancels the handler: its client no longer waits."""

    def give_up(self) -> None:
        """Ends the call: it is the last of a connection that is too old."""

    def end_requests(self) -> None:
        """Ends the stream of requests."""


class Unsent(ABC):
    """A call whose answer has not left yet, where that matters."""

    __slots__ = ()

    stream: Stream

    @abstractmethod
    def lose(self) -> None:
        """Undoes the effects of its answer, which is not sent."""


class Calling(Keeping):
    """A connection, as its calls see it.

    host       its address, packed as records keep it
    holder     whose calls it carries, as the last one showed
    calls      in wait
    now_s      when the present input was read, by `perf_counter`
    unsent     calls that are to know when their answers are lost
    deadlines  those of all connections
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
        """Counts streams of requests of which no request has arrived yet."""

    @abstractmethod
    def identify(self, user: str, *, is_admin: bool) -> Holder:
        """Returns the holder of the calls that a user begins here."""

    @abstractmethod
    def write_soon(self) -> None:
        """Writes the replies of this turn's calls in the next turn of the loop."""
