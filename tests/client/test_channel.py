"""Every way a call can fail, and what is raised then."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from pocketmq.client import AsyncClient, ClientError, DeadlineExceeded, Message, Unreachable
from pocketmq.model import errors
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.service import DETAILS_KEY, Service, method
from pocketmq.rpc.v1.service_table import BROKER
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_broker import running
from tests.rpc.desk import Desk, opened_desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with opened_desk() as opened:
        yield opened


async def test_what_the_broker_says_is_what_is_raised(desk: Desk) -> None:
    with pytest.raises(ClientError) as caught:
        await desk.client.query_offsets("orders", 9)
    error = caught.value
    assert (error.reason, error.status, error.retryable) == (
        "QueueOutOfRange",
        "OUT_OF_RANGE",
        False,
    )
    assert error.fields == {"topic": "orders", "queue_id": "9", "count": "2"}
    assert "queue 9" in error.message


async def test_a_draining_broker_is_not_unreachable(desk: Desk) -> None:
    desk.server.drain()
    with pytest.raises(ClientError) as caught:
        await desk.client.send_many([Message("orders", b"x")])
    assert isinstance(caught.value, errors.Draining)
    assert (caught.value.reason, caught.value.retryable) == ("Draining", True)


async def test_a_status_without_details_goes_by_its_name() -> None:
    server = OwnServer([])
    async with running(server) as address, AsyncClient(address, retry_ms=0) as client:
        with pytest.raises(ClientError) as caught:
            await client.admin.store_status()
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
    async with AsyncClient(f"127.0.0.1:{port}", retry_ms=0) as client:
        with pytest.raises(ClientError, match="no") as caught:
            await client.admin.store_status()
    await other.stop(0)
    assert (caught.value.reason, caught.value.retryable) == ("ABORTED", False)


async def test_nobody_at_the_endpoint() -> None:
    server = OwnServer([])
    async with running(server) as address:
        pass
    async with AsyncClient(address, retry_ms=0) as client:
        with pytest.raises(Unreachable, match=f"at {address}: Connection refused; next: start it"):
            await client.admin.store_status()


async def test_somebody_who_does_not_speak() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with AsyncClient(f"127.0.0.1:{port}", timeout_ms=100, retry_ms=0) as client:
            with pytest.raises(DeadlineExceeded, match="is the broker running"):
                await client.admin.store_status()


async def test_an_answer_that_does_not_come() -> None:
    async def never(request: Any, call: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    row = method(BROKER, "QueryById", never, CallClass.QUERY)
    server = OwnServer([Service("pocketmq.v1.Broker", (row,), refuse)])
    async with (
        running(server) as address,
        AsyncClient(address, timeout_ms=1_000, retry_ms=0) as client,
    ):
        with pytest.raises(DeadlineExceeded) as caught:
            await client.query_by_id("orders", "x")
    assert caught.value.status == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"priority": "high"}, "priority is an int, not 'high'"),
        ({"delay_ms": "1h"}, "delay_ms is an int, not '1h'"),
        ({"tag": 7}, "tag is a str, not 7"),
        ({"keys": [7]}, r"keys is a list, each a str, not \[7\]"),
    ],
)
async def test_a_field_of_another_type_is_named(
    desk: Desk, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        await desk.client.send(Message("orders", b"x", **fields))


async def test_a_field_out_of_range_is_named(desk: Desk) -> None:
    with pytest.raises(ValueError, match="priority is out of range: 4294967296"):
        await desk.client.send(Message("orders", b"x", priority=2**32))


async def test_a_list_in_place_of_a_name_is_named(desk: Desk) -> None:
    names: Any = ["a"]
    with pytest.raises(TypeError, match=r"name is a str, not \['a'\]"):
        await desk.client.admin.create_topic(names)


@pytest.mark.parametrize("wrong", [{"timeout_ms": 0}, {"retry_ms": -1}])
def test_times_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"timeout_ms is .* \(from 1\), retry_ms is"):
        AsyncClient("127.0.0.1:1", **wrong)
