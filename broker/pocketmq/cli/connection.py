"""A command's connection to its broker, with blocking calls.

The event loop runs only during a call. Between two calls a command may block, for example on a
pipe, and Ctrl-C ends it as it ends any program.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import wraps
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.target import NAMES, connection_options, target_of
from pocketmq.cli.vocabulary import HeadedCommand
from pocketmq.model.message import StoredMessage
from pocketmq.model.topic import is_group_topic, is_system_topic

if TYPE_CHECKING:
    from pocketmq.client import AsyncAdmin, AsyncClient
    from pocketmq.model.administration import Page

NAME_COUNT_MAX: Final = 2_000
"""Upper limit of names that completion and suggestions consider."""

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
        @connection_options
        @wraps(function, updated=())
        def connected(**given: Any) -> None:
            ctx = click.get_current_context()
            target = target_of(ctx, {name: given.pop(name) for name in NAMES})
            with BrokerConnection(*target[:3]) as broker:
                try:
                    function(broker, **given)
                except Exception as error:
                    failure = _failure_at(
                        error, ctx.command_path, target.context, broker.names,
                        lambda: broker.directory,
                    )  # fmt: skip
                    if failure is None:
                        raise
                    raise failure from error

        # The help lists these shared options after the command's own.
        vars(connected)["__click_params__"] += getattr(function, "__click_params__", ())
        make = within.command if within else click.command
        return make(short_help=about, epilog=examples(*lines), cls=HeadedCommand)(connected)

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


def _failure_at(*given: Any) -> click.ClickException | None:
    from pocketmq.cli.nearness import failure_at  # imports gRPC, which is loaded by now

    return failure_at(*given)


def make_client(
    endpoint: str, access_key: str = "", secret_key: str = "", **limits: Any
) -> "AsyncClient":
    """Returns a client for an endpoint, which signs calls if a key is given; imports gRPC."""
    from pocketmq.client import AsyncClient

    # The operator sees an error at once, without retries.
    return AsyncClient(endpoint, retry_ms=0, access_key=access_key, secret_key=secret_key, **limits)


class BrokerConnection:
    """An open client and its event loop; used in a `with`."""

    __slots__ = ("_keys", "_runner", "client", "endpoint")

    def __init__(
        self, endpoint: str, access_key: str = "", secret_key: str = "", **limits: int
    ) -> None:
        self.endpoint = endpoint
        self._keys = access_key, secret_key
        self.client = make_client(endpoint, access_key, secret_key, **limits)
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

    def beside(self, endpoint: str) -> "BrokerConnection":
        """Returns a connection to another broker, with the same credentials."""
        return BrokerConnection(endpoint, *self._keys)

    @property
    def admin(self) -> "AsyncAdmin":
        """Administrative calls of the client."""
        return self.client.admin

    @property
    def directory(self) -> str:
        """The broker's store directory for a next step; DIR if the broker does not report it."""
        from pocketmq.client import ClientError

        try:
            return self.ask(self.admin.store_status()).directory
        except ClientError:
            return "DIR"

    def reader(self, topic: str) -> "AsyncClient | AsyncAdmin":
        """Returns the reader of a topic: `admin` for system, retry and dead-letter topics."""
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

    def names(self, kind: str, *, with_system: bool = False) -> list[str]:
        """Returns names of topics, groups or users; [] if the call fails.

        kind   "topic", "group" or "user"
        """
        from pocketmq.client import ClientError

        admin = self.admin
        try:
            if kind == "user":
                return [user.access_key for user in self.ask(admin.access.list_users())[0]]
            if kind == "group":
                groups = self.all(admin.list_groups, include_system=with_system)
                return [group.name for group in islice(groups, NAME_COUNT_MAX)]
            topics = self.all(admin.list_topics, include_system=with_system)
            return [topic.name for topic in islice(topics, NAME_COUNT_MAX)]
        except ClientError:
            return []

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
