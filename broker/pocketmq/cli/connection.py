"""A command's connection to its broker, as plain calls.

Commands are one step after the other, so they run the event loop for each call only; between two
calls they may block, on a pipe for example, and Ctrl-C ends them as any program.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import (
    access_key_option,
    endpoint_option,
    examples,
    form_option,
    secret_key_file_option,
    secret_key_option,
)
from pocketmq.model.message import StoredMessage
from pocketmq.model.topic import is_group_topic, is_system_topic

if TYPE_CHECKING:
    from pocketmq.client import AsyncAdmin, AsyncClient
    from pocketmq.model.administration import Page

Answer = TypeVar("Answer")
Question = Coroutine[Any, Any, Answer]


def asks_broker(
    *lines: str, within: click.Group | None = None, about: str | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Returns a decorator that makes a function a command, called with a connection and `out`.

    lines    examples of its help
    within   its group
    about    the line in the group's help; its first sentence unless given
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @form_option
        @endpoint_option
        @access_key_option
        @secret_key_option
        @secret_key_file_option
        @wraps(function, updated=())
        def connected(
            endpoint: str, access_key: str, secret_key: str, secret_key_file: Path | None,
            **given: Any,
        ) -> None:  # fmt: skip
            secret_key = secret_key or secret_of(secret_key_file)
            with BrokerConnection(endpoint, access_key, secret_key) as broker:
                function(broker, **given)

        # Options of every command are listed behind those of its own.
        vars(connected)["__click_params__"] += getattr(function, "__click_params__", ())
        make = within.command if within else click.command
        return make(short_help=about, epilog=examples(*lines))(connected)

    return decorate


class ConnectedGroup(NamingGroup):
    """A group of commands that ask a broker, listed as they are defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in their order."""
        return list(self.commands)

    def asks(
        self, about: str | None, *lines: str
    ) -> Callable[[Callable[..., None]], click.Command]:
        """Returns a decorator that makes a command of this group, as `asks_broker` does."""
        return asks_broker(*lines, within=self, about=about)


def secret_of(file: Path | None) -> str:
    """Returns the secret that a file holds, "" for none."""
    if file is None:
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read: {error}") from error


def make_client(endpoint: str, access_key: str = "", secret_key: str = "") -> "AsyncClient":
    """Returns the client for an endpoint, which signs with a user's key if given; imports gRPC."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are reported by us, once
    from pocketmq.client import AsyncClient

    # The operator sees an error at once, without retries.
    return AsyncClient(endpoint, retry_ms=0, access_key=access_key, secret_key=secret_key)


class BrokerConnection:
    """An open client and the loop it lives on; used in a `with`."""

    __slots__ = ("_runner", "client")

    def __init__(self, endpoint: str, access_key: str = "", secret_key: str = "") -> None:
        self.client = make_client(endpoint, access_key, secret_key)
        self._runner = asyncio.Runner()
        # With any handler a loop is woken by every signal: else Ctrl-C that comes right before it
        # waits is not seen until something else wakes it.
        self._runner.get_loop().add_signal_handler(signal.SIGURG, lambda: None)

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

    @property
    def admin(self) -> "AsyncAdmin":
        """The administration of the broker."""
        return self.client.admin

    def reader(self, topic: str) -> "AsyncClient | AsyncAdmin":
        """Returns the client that reads a topic: the operator's where one has to be in a group."""
        is_operators = is_system_topic(topic) or is_group_topic(topic)
        return self.admin if is_operators else self.client

    def ask(self, question: Question[Answer]) -> Answer:
        """Returns the answer to one call of the client.

        Errors   ClientError
        """
        return self._runner.run(question)

    def show(
        self,
        pages: AsyncGenerator[list[StoredMessage], None],
        show: Callable[[list[StoredMessage]], bool],
    ) -> None:
        """Hands pages on as they come, until the end or one after which no more are wanted.

        Errors   ClientError
        """

        async def hand_on() -> None:
            async with aclosing(pages):
                async for page in pages:
                    if not show(page):
                        return

        self.ask(hand_on())

    def all(self, ask: "Callable[..., Question[Page[Answer]]]", **given: Any) -> Iterator[Answer]:
        """Yields the answers of a paged client call, page by page.

        Errors   ClientError
        """
        token = ""
        while True:
            page = self.ask(ask(**given, page_token=token))
            yield from page.items
            token = page.next_page_token
            if not token:
                return
