"""A command's connection to its broker, as plain calls.

Commands are one step after the other, so they run the event loop for each call only; between two
calls they may block, on a pipe for example, and Ctrl-C ends them as any program.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

if TYPE_CHECKING:
    from broker.client.broker import BrokerClient

DEFAULT_ENDPOINT: Final = "127.0.0.1:8081"

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])


def endpoint_option(command: Command) -> Command:
    """Give a command --endpoint."""
    option = click.option(
        "--endpoint",
        envvar="POCKETMQ_ENDPOINT",
        default=DEFAULT_ENDPOINT,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT",
        help="The broker to ask.",
    )
    return option(command)


def make_client(endpoint: str) -> "BrokerClient":
    """Return the client for an endpoint; loads gRPC."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are told by us, once
    from broker.client.broker import BrokerClient

    return BrokerClient(endpoint)


class Connection:
    """An open client and the loop it lives on; used in a `with`."""

    __slots__ = ("_runner", "client")

    def __init__(self, endpoint: str) -> None:
        self.client = make_client(endpoint)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self.ask(self.client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.ask(self.client.__aexit__(kind, error, trace))
        finally:
            self._runner.close()

    def ask(self, question: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the answer to one call of the client.

        Errors   ClientError
        """
        return self._runner.run(question)
