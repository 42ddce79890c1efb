"""A connection of a classic client, as handlers of remoting requests see it.

The broker also sends requests on it: it notifies consumers of changes, checks transactions, and
asks clients on behalf of operators.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from pocketmq.rpc.call import Call
from pocketmq.wire.remoting import Command


class RemotingChannel(ABC):
    """An open connection.

    peer    the client's address, as gRPC writes it
    local   the address that the client reached, "host:port"; "" if it is not known
    """

    __slots__ = ()

    peer: str
    local: str

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the connection is open."""

    @abstractmethod
    def tell(self, request: Command, /) -> bool:
        """Sends a one-way request; returns False if that is not possible.

        It is not possible while the client does not read, or if the request cannot be encoded.
        """

    @abstractmethod
    def ask(self, request: Command, /) -> Awaitable[Command]:
        """Sends a request, and returns an awaitable of the client's reply.

        Errors   raised by the awaitable: ConnectionResetError once the connection is lost, or
                 while the client does not read
        """

    @abstractmethod
    def when_gone(self, end: Callable[[], None], /) -> Callable[[], None]:
        """Registers a function for the loss of the connection; returns its unregistration."""


class ClassicCall(Call):
    """A remoting request in progress.

    command   the request, as it was received
    channel   the connection of its client
    """

    command: Command
    channel: RemotingChannel
