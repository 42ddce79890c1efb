"""A real broker for commands: over a simulated disk, on their own loop, reached without a wire.

It runs while a command asks or a test fills it, and stands still between; so does its clock.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from inspect import isawaitable
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from pocketmq.cli import connection
from pocketmq.client import AsyncClient, ClientError
from pocketmq.client.channel import Channel, client_error
from pocketmq.format.addresses import host_from_text
from pocketmq.model.administration import StoreStatus
from pocketmq.model.batch import Destination
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import StoredMessage
from pocketmq.rpc.v1.status import wire_status
from tests.kit.rows import Row, batch
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import STORE_HOST, put_row

Found = TypeVar("Found")
STORED_MS = 1_795_221_315_627
CODES = {code.value[0]: code.name for code in grpc.StatusCode}


STATUS = StoreStatus(
    "running", "/store", 0, 3_000, 3_000, 2_000, "sync", "0.1.0", 1, 2, "DefaultCluster",
    "broker-a", "on", 30_000_000, 100_000_000, 1, 2, STORED_MS, 0, "compiled",
    "0123456789abcdef0123456789abcdef01234567",
)  # fmt: skip
"""A status with numbers that differ."""


def stored(
    queue_offset: int,
    body: bytes = b"hello",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
) -> StoredMessage:
    """Returns a message as the client gives it."""
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=100 * queue_offset,
        store_size=100,
        body=body,
        body_crc=907_060_870,
        properties={"UNIQ_KEY": f"ID{queue_offset}", **(properties or {})},
        system_flag=0,
        flag=0,
        reconsume_times=0,
        born_timestamp_ms=STORED_MS - 1,
        born_host=host_from_text("10.0.0.7:4711"),
        store_timestamp_ms=STORED_MS,
        store_host=host_from_text("127.0.0.1:8081"),
        prepared_transaction_offset=0,
    )


class LocalBroker:
    """Topic `orders` has 2 queues."""

    def __init__(self, inner: StoreBroker, runner: asyncio.Runner) -> None:
        self.inner = inner
        self.store, self.clock = inner.store, inner.clock
        self.do: Callable[[Coroutine[Any, Any, Any]], Any] = runner.run
        self.calls: list[tuple[str, Any]] = []
        """What was asked: ("Admin/CreateTopic", request)."""
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """What answers calls in place of the broker, at once or awaited; it may raise."""
        self.error: BaseException | None = None
        """Answers every call."""
        self.endpoint = ""
        self.credentials: tuple[str, ...] = ()
        """Access key and secret that the last command had."""

    def requests(self, name: str) -> list[Any]:
        """Returns what was asked of a method, of either service if it has no name."""
        return [request for path, request in self.calls if path.endswith(name)]

    def add(self, topic: str, *bodies: bytes, queue_id: int = 0, **properties: Any) -> None:
        """Stores messages with these properties."""
        self.store.tables.topics.adopt(topic, 2)
        self.do(self.inner.add(topic, *bodies, queue_id=queue_id, **properties))

    def fill(self, count: int, *, topic: str = "orders", queue_id: int = 0) -> None:
        """Stores messages b"0", b"1" and so on, of ids ID0, ID1, and the key k."""
        self.store.tables.topics.adopt(topic, 2)
        first = self.store.reading.queue_range(topic, queue_id)[1]
        numbers = range(first, first + count)
        rows = [put_row(b"%d" % n, key="k", unique_key=f"ID{n}") for n in numbers]
        self.do(self.put(Destination(topic, queue_id, STORE_HOST), rows))

    async def put(self, destination: Destination, rows: list[Row]) -> None:
        """Stores rows; they can be pulled then."""
        await self.store.writing.put([(destination, batch(*rows))])
        await self.inner.talking.settled()

    def stand(self, group: str, topic: str, **offsets: int) -> None:
        """Sets the committed offsets of a group; q0 is queue 0."""
        queue_offsets = {int(name[1:]): place for name, place in offsets.items()}
        self.do(self.store.tables.offsets.set_many(group, topic, queue_offsets))

    def stands(self, group: str, topic: str = "orders") -> dict[int, int]:
        """Returns where a group stands."""
        return self.store.tables.offsets.all_of(group).get(topic, {})

    async def ask(self, path: str, request: Message, answer_type: type[Any], **options: Any) -> Any:
        """Serves a call as both ends of a connection do."""
        name = path.removeprefix("/pocketmq.v1.")
        self.calls.append((name, request))
        if self.error is not None:
            raise self.error
        if name in self.answers:
            found = self.answers[name](request)
            return await found if isawaitable(found) else found
        return await self.serve(name, request)

    async def serve(self, name: str, request: Message) -> Any:
        """Returns the broker's own answer.

        Errors   ClientError
        """
        try:
            return await self.inner.answer(name.removeprefix("Broker/"), request)
        except BrokerError as error:
            raise shown(error) from error


def shown(error: BrokerError) -> ClientError:
    """Returns what a client is told of an error."""
    code, message, details = wire_status(error)
    return client_error(CODES[code], message, details)


class _Runner:
    """The runner of a command's connection is that of its broker."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self.get_loop = runner.get_loop

    def close(self) -> None:
        """Leaves the loop running."""


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """Connects the commands of a test to a broker."""
    with asyncio.Runner() as runner:
        up = AsyncExitStack()
        local = LocalBroker(runner.run(up.enter_async_context(store_broker())), runner)

        def make_client(endpoint: str, *credentials: str, **limits: int) -> AsyncClient:
            local.endpoint, local.credentials = endpoint, credentials
            return AsyncClient(endpoint, retry_ms=0)

        async def ask(channel: Channel, *call: Any, **options: Any) -> Any:
            return await local.ask(*call, **options)

        monkeypatch.setattr(connection, "make_client", make_client)
        monkeypatch.setattr(asyncio, "Runner", lambda: _Runner(runner))
        monkeypatch.setattr(Channel, "ask", ask)
        for name in ("ENDPOINT", "ACCESS_KEY", "SECRET_KEY", "SECRET_KEY_FILE", "CONTEXT"):
            monkeypatch.delenv(f"POCKETMQ_{name}", raising=False)
        try:
            yield local
        finally:
            runner.run(up.aclose())
