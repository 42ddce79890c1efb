"""The blocking client, for any number of threads.

Each method has the arguments and results of the equally named method of AsyncClient, AsyncAdmin,
AsyncAccess or AsyncReplication, and blocks the calling thread. `tail` and `consume` return plain
generators.
"""

import re
from collections.abc import Callable, Coroutine, Generator
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from pocketmq.client.async_access import AsyncAccess
from pocketmq.client.async_admin import AsyncAdmin
from pocketmq.client.async_client import AsyncClient
from pocketmq.client.async_replication import AsyncReplication
from pocketmq.client.channel import RETRY_MS, TIMEOUT_MS
from pocketmq.client.values import Leased, ReceiveQuery, TailQuery
from pocketmq.client.wire import BlockingWire, drive
from pocketmq.model.message import StoredMessage

Inner = TypeVar("Inner")
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Blocking(Generic[Inner]):
    """A facade that blocks in the methods of an asyncio object."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Inner) -> None:
        self._inner = inner


def blocking(
    method: Callable[Concatenate[Inner, Given], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Blocking[Inner], Given], Answer]:
    """Returns a method that blocks until the async method has ended.

    Errors   TypeError: wrong arguments; its text contains the right ones
    """

    def call(self: Blocking[Inner], /, *args: Given.args, **options: Given.kwargs) -> Answer:
        try:
            question = method(self._inner, *args, **options)
        except TypeError as error:  # The coroutine does not run yet, so the arguments are wrong.
            raise TypeError(_misuse(error, type(self).__name__, method)) from None
        return drive(question)

    update_wrapper(call, method)
    return call


def _misuse(error: TypeError, owner: str, method: Callable[..., Any]) -> str:
    """Returns the text of an error of arguments, with the method's name in `owner`."""
    from inspect import signature

    name = f"{owner}.{method.__name__}"
    fault = str(error).replace(method.__qualname__, name)
    given = re.sub(r"\b\w+\.(?=\w+\.|[A-Z]\w*\b(?!:))", "", str(signature(method)))
    return f"{fault}; it is called as {name}{given.replace('(self, ', '(').replace('(self', '(')}"


class AccessAdmin(Blocking[AsyncAccess]):
    """Administration of users and grants: `Client.admin.access`."""

    __slots__ = ()

    create_user = blocking(AsyncAccess.create_user)
    update_user = blocking(AsyncAccess.update_user)
    delete_user = blocking(AsyncAccess.delete_user)
    list_users = blocking(AsyncAccess.list_users)
    add_grant = blocking(AsyncAccess.add_grant)
    remove_grant = blocking(AsyncAccess.remove_grant)
    list_grants = blocking(AsyncAccess.list_grants)
    explain = blocking(AsyncAccess.explain)
    own_grants = blocking(AsyncAccess.own_grants)


class ReplicationAdmin(Blocking[AsyncReplication]):
    """Roles and followers: `Client.admin.replication`."""

    __slots__ = ()

    status = blocking(AsyncReplication.status)
    promote = blocking(AsyncReplication.promote)
    follow = blocking(AsyncReplication.follow)
    remove = blocking(AsyncReplication.remove)
    resync = blocking(AsyncReplication.resync)


class Admin(Blocking[AsyncAdmin]):
    """Administration of a broker, for operators: `Client.admin`.

    Errors   raised by every method: ClientError and its subclasses
    """

    __slots__ = ("access", "replication")

    def __init__(self, inner: AsyncAdmin) -> None:
        super().__init__(inner)
        self.access = AccessAdmin(inner.access)
        self.replication = ReplicationAdmin(inner.replication)

    create_topic = blocking(AsyncAdmin.create_topic)
    list_topics = blocking(AsyncAdmin.list_topics)
    find_topics = blocking(AsyncAdmin.find_topics)
    describe_topic = blocking(AsyncAdmin.describe_topic)
    update_topic = blocking(AsyncAdmin.update_topic)
    delete_topic = blocking(AsyncAdmin.delete_topic)
    purge_topic = blocking(AsyncAdmin.purge_topic)
    topic_counts = blocking(AsyncAdmin.topic_counts)
    all_topic_counts = blocking(AsyncAdmin.all_topic_counts)

    create_group = blocking(AsyncAdmin.create_group)
    update_group = blocking(AsyncAdmin.update_group)
    delete_group = blocking(AsyncAdmin.delete_group)
    list_groups = blocking(AsyncAdmin.list_groups)
    find_groups = blocking(AsyncAdmin.find_groups)
    describe_group = blocking(AsyncAdmin.describe_group)
    list_members = blocking(AsyncAdmin.list_members)
    list_producers = blocking(AsyncAdmin.list_producers)
    print_client_stack = blocking(AsyncAdmin.print_client_stack)
    verify_message = blocking(AsyncAdmin.verify_message)

    list_offsets = blocking(AsyncAdmin.list_offsets)
    group_lag = blocking(AsyncAdmin.group_lag)
    all_lags = blocking(AsyncAdmin.all_lags)
    set_offsets = blocking(AsyncAdmin.set_offsets)
    reset_offsets = blocking(AsyncAdmin.reset_offsets)
    clone_offsets = blocking(AsyncAdmin.clone_offsets)

    pull = blocking(AsyncAdmin.pull)
    query_by_key = blocking(AsyncAdmin.query_by_key)
    query_by_tag = blocking(AsyncAdmin.query_by_tag)
    query_by_id = blocking(AsyncAdmin.query_by_id)

    trace_message = blocking(AsyncAdmin.trace_message)
    list_delayed = blocking(AsyncAdmin.list_delayed)
    list_dead_letters = blocking(AsyncAdmin.list_dead_letters)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transaction = blocking(AsyncAdmin.describe_transaction)
    resume_transaction = blocking(AsyncAdmin.resume_transaction)
    redrive_dead_letters = blocking(AsyncAdmin.redrive_dead_letters)

    store_status = blocking(AsyncAdmin.store_status)
    map_store = blocking(AsyncAdmin.map_store)
    flush = blocking(AsyncAdmin.flush)
    report_archive = blocking(AsyncAdmin.report_archive)
    effective_config = blocking(AsyncAdmin.effective_config)
    drain = blocking(AsyncAdmin.drain)


class Client(Blocking[AsyncClient]):
    """A client of the broker at "host:port" or "tls://host:port"; the first call connects.

        with Client("127.0.0.1:8081") as client:
            receipt = client.send(Message("orders", b"order 42 paid", keys=["order-42"]))

    Parameters, methods and errors are as in AsyncClient.
    """

    __slots__ = ("_make", "admin")

    def __init__(
        self, endpoint: str, *, timeout_ms: int = TIMEOUT_MS, retry_ms: int = RETRY_MS,
        access_key: str = "", secret_key: str = "", start_step: str = "",
    ) -> None:  # fmt: skip
        def make() -> AsyncClient:
            return AsyncClient(
                endpoint, timeout_ms=timeout_ms, retry_ms=retry_ms, access_key=access_key,
                secret_key=secret_key, wire=BlockingWire, start_step=start_step,
            )  # fmt: skip

        super().__init__(make())
        self._make = make
        self.admin = Admin(self._inner.admin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    close = blocking(AsyncClient.close)
    send = blocking(AsyncClient.send)
    send_many = blocking(AsyncClient.send_many)
    recall = blocking(AsyncClient.recall)
    send_in_transaction = blocking(AsyncClient.send_in_transaction)
    end_transaction = blocking(AsyncClient.end_transaction)
    end_transactions = blocking(AsyncClient.end_transactions)
    answer_checks = blocking(AsyncClient.answer_checks)
    pull = blocking(AsyncClient.pull)
    query_by_key = blocking(AsyncClient.query_by_key)
    query_by_id = blocking(AsyncClient.query_by_id)
    query_by_time = blocking(AsyncClient.query_by_time)
    query_offsets = blocking(AsyncClient.query_offsets)
    receive = blocking(AsyncClient.receive)
    ack = blocking(AsyncClient.ack)
    change_invisible = blocking(AsyncClient.change_invisible)
    send_back = blocking(AsyncClient.send_back)
    forward_to_dead_letters = blocking(AsyncClient.forward_to_dead_letters)
    commit_offset = blocking(AsyncClient.commit_offset)
    fetch_offset = blocking(AsyncClient.fetch_offset)

    def tail(self, query: TailQuery) -> Generator[StoredMessage, None, None]:
        """Yields the messages of a topic as they are stored, like AsyncClient.tail.

        The generator opens a connection of its own, and a thread for each queue that it waits for.
        Both end with the generator.
        """
        inner = self._make()  # closing it ends the calls that wait
        pages = inner.tail_pages(query)

        async def following() -> list[StoredMessage] | None:
            return await anext(pages, None)

        try:
            while (page := drive(following())) is not None:
                yield from page
        finally:
            drive(inner.close())
            drive(pages.aclose())

    def consume(
        self, query: ReceiveQuery, *, count_max: int | None = None, is_lasting: bool = True
    ) -> Generator[Leased, None, None]:
        """Yields messages of a topic for a group, like AsyncClient.consume."""
        messages = self._inner.consume(query, count_max=count_max, is_lasting=is_lasting)

        async def following() -> Leased | None:
            return await anext(messages, None)

        try:
            while (one := drive(following())) is not None:
                yield one
        finally:
            drive(messages.aclose())
