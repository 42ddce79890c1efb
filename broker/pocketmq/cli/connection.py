"""A command's connection to its broker, with blocking calls.

The event loop runs only during a call. Between two calls a command may block, for example on a
pipe, and Ctrl-C ends it as it ends any program.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
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

    lines    examples in the command's help
    within   group of the command
    about    line in the group's help; None: the first sentence of the command's help
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
            if not (access_key or secret_key or secret_key_file):
                access_key, secret_key, secret_key_file = admin_of_container(os.environ)
            secret_key = secret_key or secret_of(secret_key_file)
            with BrokerConnection(endpoint, access_key, secret_key) as broker:
                function(broker, **given)

        # The help lists these shared options after the command's own.
        vars(connected)["__click_params__"] += getattr(function, "__click_params__", ())
        make = within.command if within else click.command
        return make(short_help=about, epilog=examples(*lines))(connected)

    return decorate


class ConnectedGroup(NamingGroup):
    """A group of commands that call a broker, listed in the order of their definitions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order of their definitions."""
        return list(self.commands)

    def asks(
        self, about: str | None, *lines: str
    ) -> Callable[[Callable[..., None]], click.Command]:
        """Returns the decorator of `asks_broker` for a command of this group."""
        return asks_broker(*lines, within=self, about=about)


def secret_of(file: Path | None) -> str:
    """Returns the secret in a file; "" for no file.

    Errors   click.UsageError: the file cannot be read
    """
    if file is None:
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read: {error}") from error


def admin_of_container(environment: Mapping[str, str]) -> tuple[str, str, Path | None]:
    """Returns access key, secret and secret file of a container's first admin; empty: none.

    So commands inside a container need no keys beyond those it was started with.
    """
    secret = environment.get("POCKETMQ_ADMIN_SECRET", "")
    file = environment.get("POCKETMQ_ADMIN_SECRET_FILE", "")
    if not secret and not file:
        return "", "", None
    return environment.get("POCKETMQ_ADMIN_USER", "") or "admin", secret, Path(file or ".")


def make_client(endpoint: str, access_key: str = "", secret_key: str = "") -> "AsyncClient":
    """Returns a client for an endpoint, which signs calls if a key is given; imports gRPC."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the command reports errors itself, once
    from pocketmq.client import AsyncClient

    # The operator sees an error at once, without retries.
    return AsyncClient(endpoint, retry_ms=0, access_key=access_key, secret_key=secret_key)


class BrokerConnection:
    """An open client and its event loop; used in a `with`."""

    __slots__ = ("_runner", "client")

    def __init__(self, endpoint: str, access_key: str = "", secret_key: str = "") -> None:
        self.client = make_client(endpoint, access_key, secret_key)
        self._runner = asyncio.Runner()
        # Any handler makes a loop wake up at every signal. Without one, a Ctrl-C right before the
        # loop waits is not noticed until the next event.
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
        """Administrative calls of the client."""
        return self.client.admin

    def reader(self, topic: str) -> "AsyncClient | AsyncAdmin":
        """Returns what reads a topic: `admin` for system, retry and dead-letter topics."""
        is_operators = is_system_topic(topic) or is_group_topic(topic)
        return self.admin if is_operators else self.client

    def ask(self, question: Question[Answer]) -> Answer:
        """Runs one call of the client, and returns its result.

        Errors   ClientError
        """
        return self._runner.run(question)

    def show(
        self,
        pages: AsyncGenerator[list[StoredMessage], None],
        show: Callable[[list[StoredMessage]], bool],
    ) -> None:
        """Passes each page to `show` until the end, or until `show` returns False.

        Errors   ClientError
        """

        async def hand_on() -> None:
            async with aclosing(pages):
                async for page in pages:
                    if not show(page):
                        return

        self.ask(hand_on())

    def all(self, ask: "Callable[..., Question[Page[Answer]]]", **given: Any) -> Iterator[Answer]:
        """Yields the items of a paged client call.

        Errors   ClientError
        """
        token = ""
        while True:
            page = self.ask(ask(**given, page_token=token))
            yield from page.items
            token = page.next_page_token
            if not token:
                return
