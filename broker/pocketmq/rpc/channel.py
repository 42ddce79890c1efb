"""A connection of a classic client, as handlers of remoting requests see it.

The broker also sends requests on it: it notifies consumers of changes, checks transactions, and
asks clients on behalf of operators.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from pocketmq.rpc.call import Call
from pocketmq.wire.remoting import Command

WhenGone = Callable[[Callable[[], None]], Callable[[], None]]
"""Registers a function to call when a user is gone; returns a function that unregisters it."""


def never(end: Callable[[], None], /) -> Callable[[], None]:
    """Never calls `end`: used without authentication."""
    return lambda: None


class RemotingChannel(ABC):
    """A connection of a classic client.

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
        """Sends a one-way request; returns whether it will be sent.

        It is not sent if the connection is closed, the client does not read, or the request cannot
        be encoded.
        """

    @abstractmethod
    def ask(self, request: Command, /) -> "asyncio.Future[Command]":
        """Sends a request, and returns the future reply of the client.

        Errors   of the future: ConnectionResetError if the connection is lost or closed, or if the
                 client does not read when the request is sent
        """

    @abstractmethod
    def drain(self) -> None:
        """Closes the connection as soon as no request is in progress."""

    @abstractmethod
    def when_gone(self, end: Callable[[], None], /) -> Callable[[], None]:
        """Registers a function to call when the connection is lost.

        Returns  a function that unregisters it
        """


class ClassicCall(Call):
    """A remoting request in progress.

    command         the request, as it was received
    channel         the connection of its client
    when_user_gone  calls a function once the call's user is deleted, disabled, or gets a new secret
    """

    command: Command
    channel: RemotingChannel
    when_user_gone: WhenGone


async def answer_within(channel: RemotingChannel, request: Command, limit_s: float) -> Command:
    """Sends a request to a client, and returns the client's reply.

    Errors   TimeoutError after `limit_s`, those of `RemotingChannel.ask`
    """
    asked = channel.ask(request)
    try:
        # asyncio.timeout needs a task, but most calls begin without one.
        await asyncio.wait((asked,), timeout=limit_s)
        if not asked.done():
            raise TimeoutError
        return asked.result()
    finally:
        asked.cancel()
