"""The client against a served broker: every verb, and every way to fail."""

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from broker.format.message_id import offset_message_id
from broker.format.record import decode_record
from broker.model.results import Bound, PullStatus, PutStatus
from broker.rpc.client import BrokerClient
from broker.rpc.client_values import (
    ClientError,
    DeadlineExceeded,
    KeyQuery,
    Outgoing,
    PullQuery,
    QueueState,
    Shape,
    Unreachable,
    Wait,
)
from broker.rpc.grpcio_server import GrpcioServer
from broker.rpc.messaging import DESCRIPTOR
from broker.rpc.service import CallClass, Service, method
from broker.rpc.status import DETAILS_KEY
from tests.fakes.memory_broker import MemoryBroker, running
from tests.fakes.memory_store import STORE_HOST


class Desk:
    """A broker served on a port, and its client."""

    def __init__(self, broker: MemoryBroker, server: GrpcioServer, client: BrokerClient) -> None:
        self.broker = broker
        self.server = server
        self.client = client


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    broker = MemoryBroker()
    server = GrpcioServer(broker.services())
    async with running(server) as address, BrokerClient(address) as client:
        yield Desk(broker, server, client)


async def test_sending(desk: Desk) -> None:
    full = Outgoing(
        "orders",
        b"a",
        tag="A",
        keys=["k1", "k2"],
        message_id="id",
        queue_id=1,
        properties={"p": "v"},
        born_timestamp_ms=5,
        born_host="10.0.0.1:2",
        flag=3,
    )
    plain = Outgoing("orders", b"b", queue_id=1)
    first, second = await desk.client.send([full, plain], wait=Wait.APPENDED)
    assert (first.message_id, first.queue_id, first.queue_offset) == ("id", 1, 0)
    assert (second.queue_offset, second.status) == (1, PutStatus.OK)
    assert second.offset_message_id == offset_message_id(STORE_HOST, second.physical_offset)
    page = await desk.client.pull(PullQuery("orders", 1, 0))
    stored = decode_record(desk.broker.store.places[0])
    (message, _) = page.messages
    for name in type(stored).__slots__:
        assert getattr(message, name) == getattr(stored, name), name


async def test_pulling(desk: Desk) -> None:
    desk.broker.store.add("orders", b"a", TAGS="A")
    desk.broker.store.add("orders", b"b", TAGS="B")
    page = await desk.client.pull(PullQuery("orders", 0, 0, expression="B"))
    assert [message.body for message in page.messages] == [b"b"]
    assert (page.status, page.next_begin_offset) == (PullStatus.FOUND, 2)
    assert (page.min_offset, page.max_offset) == (0, 2)
    raw = await desk.client.pull(PullQuery("orders", 0, 1, shape=Shape.RECORDS))
    assert decode_record(raw.records).body == b"b"
    end = await desk.client.pull(PullQuery("orders", 0, 2, group="g", wait_ms=1, commit_offset=2))
    assert end.status is PullStatus.OFFSET_OVERFLOW_ONE
    assert await desk.client.fetch_offset("g", "orders", 0) == 2


async def test_pulling_system_topics_is_for_operators(desk: Desk) -> None:
    desk.broker.store.topics.add("SCHEDULE_TOPIC_XXXX")
    desk.broker.store.add("SCHEDULE_TOPIC_XXXX", b"a")
    query = PullQuery("SCHEDULE_TOPIC_XXXX", 0, 0)
    assert (await desk.client.admin_pull(query)).messages[0].body == b"a"
    with pytest.raises(ClientError) as caught:
        await desk.client.pull(query)
    assert (caught.value.reason, caught.value.code) == ("SystemTopic", "PERMISSION_DENIED")


async def test_large_pages_arrive(desk: Desk) -> None:
    folded = zlib.compress(bytes(5 << 20))
    desk.broker.store.add("orders", *[folded] * 3, system_flag=1)
    assert len((await desk.client.pull(PullQuery("orders", 0, 0))).messages) == 3


async def test_looking_up(desk: Desk) -> None:
    desk.broker.store.now_ms = 10
    desk.broker.store.add("orders", b"a", UNIQ_KEY="id", KEYS="k")
    desk.broker.store.add("orders", b"b", KEYS="k")
    client = desk.client
    page = await client.query_by_key(KeyQuery("orders", "k", 1, 1, 20))
    assert ([m.body for m in page.messages], page.complete) == ([b"b"], False)
    page = await client.query_by_key(KeyQuery("orders", "k", page_token=page.next_cursor))
    assert ([m.body for m in page.messages], page.complete) == ([b"a"], True)
    assert (await client.query_by_id("orders", "id")).body == b"a"
    assert await client.query_by_time("orders", 0, 11, Bound.LOWER) == 2
    assert await client.query_by_time("orders", 0, 11, Bound.UPPER) == 1
    assert await client.query_offsets("orders", 0) == QueueState(0, 0, 2, 10, 10)


async def test_offsets_of_groups(desk: Desk) -> None:
    desk.broker.store.add("orders", b"a")
    assert await desk.client.fetch_offset("g", "orders", 0) is None
    await desk.client.commit_offset("g", "orders", 0, 0)
    assert await desk.client.fetch_offset("g", "orders", 0) == 0


async def test_topics(desk: Desk) -> None:
    made = await desk.client.create_topic("new", queue_count=3, type_name="fifo")
    assert (made.name, made.type, made.write_queue_count, made.queues) == ("new", "FIFO", 3, [])
    page = await desk.client.list_topics(page_size=1)
    assert ([topic.name for topic in page.topics], page.next_page_token) == (["new"], "new")
    page = await desk.client.list_topics(page_token="new", include_system=True)
    assert ([topic.name for topic in page.topics], page.next_page_token) == (["orders"], "")
    described = await desk.client.describe_topic("new")
    assert [queue.queue_id for queue in described.queues] == [0, 1, 2]
    assert described.attributes == {"message.type": "FIFO"}


async def test_the_store(desk: Desk) -> None:
    status = await desk.client.store_status()
    assert (status.state, status.directory, status.flush_mode) == ("running", "/store", "sync")


# --- errors ---


async def test_what_the_broker_says_is_what_is_raised(desk: Desk) -> None:
    with pytest.raises(ClientError) as caught:
        await desk.client.query_offsets("orders", 9)
    error = caught.value
    assert (error.reason, error.code, error.retryable) == ("QueueOutOfRange", "OUT_OF_RANGE", False)
    assert error.fields == {"topic": "orders", "queue_id": "9", "count": "2"}
    assert "queue 9" in error.message


async def test_a_draining_broker_is_not_unreachable(desk: Desk) -> None:
    desk.server.drain()
    with pytest.raises(ClientError) as caught:
        await desk.client.send([Outgoing("orders", b"x")])
    assert type(caught.value) is ClientError
    assert (caught.value.reason, caught.value.retryable) == ("Draining", True)


async def test_a_status_without_details_goes_by_its_name() -> None:
    server = GrpcioServer([])
    async with running(server) as address, BrokerClient(address) as client:
        with pytest.raises(ClientError) as caught:
            await client.store_status()
    assert type(caught.value) is ClientError
    assert (caught.value.reason, caught.value.fields) == ("UNIMPLEMENTED", {})


async def test_details_that_cannot_be_read_are_left_aside() -> None:
    async def fail(request: bytes, context: grpc.aio.ServicerContext) -> None:
        details = ((DETAILS_KEY, b"\xff\xff"),)
        await context.abort(grpc.StatusCode.ABORTED, "no", details)

    method_of_other = {"StoreStatus": grpc.unary_unary_rpc_method_handler(fail)}
    other = grpc.aio.server()
    other.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("pocketmq.v1.Admin", method_of_other)]
    )
    port = other.add_insecure_port("127.0.0.1:0")
    await other.start()
    async with BrokerClient(f"127.0.0.1:{port}") as client:
        with pytest.raises(ClientError, match="no") as caught:
            await client.store_status()
    await other.stop(0)
    assert (caught.value.reason, caught.value.retryable) == ("ABORTED", False)


async def test_nobody_at_the_endpoint() -> None:
    server = GrpcioServer([])
    async with running(server) as address:
        pass
    async with BrokerClient(address) as client:
        with pytest.raises(Unreachable, match=address):
            await client.store_status()


async def test_somebody_who_does_not_speak() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with BrokerClient(f"127.0.0.1:{port}", timeout_ms=100) as client:
            with pytest.raises(Unreachable):
                await client.store_status()


async def test_an_answer_that_does_not_come() -> None:
    async def never(request: Any, call: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    row = method(DESCRIPTOR, "QueryById", never, CallClass.QUERY)
    server = GrpcioServer([Service("pocketmq.v1.Broker", (row,))])
    async with running(server) as address, BrokerClient(address, timeout_ms=1_000) as client:
        with pytest.raises(DeadlineExceeded) as caught:
            await client.query_by_id("orders", "x")
    assert caught.value.code == "DEADLINE_EXCEEDED"
