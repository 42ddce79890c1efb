"""Health over a real connection: checks, watches, and their end."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.rpc import health
from pocketmq.rpc.health import NAME, REPLICA, STORE_WRITE
from pocketmq.rpc.service import Service, refuse_plainly
from tests.kit.store_broker import ServerClass, connected, running

BROKER = "pocketmq.v1.Broker"
SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


class Desk:
    """A health service on a port and a client of it."""

    def __init__(self, health: "Served", channel: grpc.aio.Channel) -> None:
        self.health = health
        self._check = channel.unary_unary(
            f"/{NAME}/Check",
            HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString,
        )
        self._watch = channel.unary_stream(
            f"/{NAME}/Watch",
            HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString,
        )

    async def check(self, name: str) -> int:
        answer = await self._check(HealthCheckRequest(service=name), timeout=10)
        return int(answer.status)

    def watch(self, name: str) -> grpc.aio.UnaryStreamCall[Any, HealthCheckResponse]:
        return self._watch(HealthCheckRequest(service=name), timeout=10)


class Served:
    """The part of a desk's server that the health service uses."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def show(self, *, serving: bool, writable: Any, replica: Any = True) -> None:
        assert serving
        self._server.show_ready(writable=writable, replica=replica)

    def end(self) -> None:
        self._server.drain()


@pytest.fixture
async def desk(server_class: ServerClass, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)
    server = server_class([Service(BROKER, (), refuse_plainly)])
    async with running(server) as address, connected(address) as channel:
        yield Desk(Served(server), channel)


async def test_nothing_is_served_at_first(desk: Desk) -> None:
    for name in ("", BROKER, STORE_WRITE, REPLICA):
        assert await desk.check(name) == NOT_SERVING


async def test_a_read_only_broker_serves_all_but_writing(desk: Desk) -> None:
    desk.health.show(serving=True, writable=False)
    assert [await desk.check(name) for name in ("", BROKER)] == [SERVING, SERVING]
    assert await desk.check(STORE_WRITE) == NOT_SERVING
    desk.health.show(serving=True, writable=True)
    assert await desk.check(STORE_WRITE) == SERVING


async def test_writing_is_asked_about_at_every_check_and_watch(desk: Desk) -> None:
    is_writable = True
    desk.health.show(serving=True, writable=lambda: is_writable)
    statuses = aiter(desk.watch(STORE_WRITE))
    assert (await anext(statuses)).status == SERVING
    is_writable = False
    assert await desk.check(STORE_WRITE) == NOT_SERVING
    assert (await anext(statuses)).status == NOT_SERVING
    assert await desk.check("") == SERVING
    is_writable = True
    assert (await anext(statuses)).status == SERVING


async def test_a_replica_is_asked_about_at_every_check_and_watch(desk: Desk) -> None:
    is_replica = False
    desk.health.show(serving=True, writable=True, replica=lambda: is_replica)
    assert [await desk.check(name) for name in ("", REPLICA)] == [SERVING, NOT_SERVING]
    statuses = aiter(desk.watch(REPLICA))
    assert (await anext(statuses)).status == NOT_SERVING
    is_replica = True
    assert await desk.check(REPLICA) == SERVING
    assert (await anext(statuses)).status == SERVING
    desk.health.end()
    assert (await anext(statuses)).status == NOT_SERVING


async def test_an_unknown_name_is_not_found(desk: Desk) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await desk.check("nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_watch_tells_changes_and_ends_with_the_server(desk: Desk) -> None:
    statuses = aiter(desk.watch(BROKER))
    assert (await anext(statuses)).status == NOT_SERVING
    desk.health.show(serving=True, writable=True)
    assert (await anext(statuses)).status == SERVING
    desk.health.show(serving=True, writable=False)
    desk.health.end()
    assert (await anext(statuses)).status == NOT_SERVING
    with pytest.raises(StopAsyncIteration):
        await anext(statuses)


async def test_an_unknown_name_may_be_watched(desk: Desk) -> None:
    statuses = aiter(desk.watch("nobody"))
    assert (await anext(statuses)).status == HealthCheckResponse.SERVICE_UNKNOWN


async def test_a_watcher_that_leaves_disturbs_nobody(desk: Desk) -> None:
    leaving, staying = desk.watch(""), desk.watch("")
    statuses = aiter(staying)
    await anext(aiter(leaving))
    await anext(statuses)
    leaving.cancel()
    assert await desk.check("") == NOT_SERVING
    desk.health.show(serving=True, writable=True)
    assert (await anext(statuses)).status == SERVING
