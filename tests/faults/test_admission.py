"""With every slot of one class taken, other calls are served and refusals are immediate."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Final

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from pocketmq.client import AsyncClient, ClientError, Message, PullQuery
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.own.server import OwnServer
from tests.e2e.daemon import LATE_FACTOR, is_busy
from tests.kit.store_broker import StoreBroker, running, store_broker

SLOTS: Final = 8
REFUSALS: Final = 100
REFUSED_S: Final = 0.005
"""A refusal, there and back; as the median, since the cores are shared."""


@asynccontextmanager
async def full_of_polls() -> AsyncIterator[tuple[StoreBroker, str]]:
    """Serves a broker all of whose slots for polls are taken by parked ones."""
    limits = {**DEFAULT_LIMITS, CallClass.POLL: SLOTS}
    async with (
        store_broker() as broker,
        running(OwnServer(broker.services(), limits=limits)) as address,
        AsyncClient(address, retry_ms=0) as parked,
    ):
        polls = [
            asyncio.ensure_future(parked.pull(PullQuery("orders", 0, 0, wait_ms=20_000)))
            for _ in range(SLOTS)
        ]
        while broker.pull.waiter_count < SLOTS:  # noqa: ASYNC110 - the server runs on this loop
            await asyncio.sleep(0)
        yield broker, address
        broker.pull.drain()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_a_poll_too_many_is_told_to_come_again_at_once() -> None:
    async with full_of_polls() as (_, address), AsyncClient(address, retry_ms=0) as client:
        seconds = []
        for _ in range(REFUSALS):
            begun = perf_counter()
            with pytest.raises(ClientError) as caught:
                await client.pull(PullQuery("orders", 0, 0, wait_ms=20_000))
            seconds.append(perf_counter() - begun)
            assert (caught.value.status, caught.value.reason) == (
                "RESOURCE_EXHAUSTED", "TooManyRequests",
            )  # fmt: skip
            assert caught.value.retryable
        assert median(seconds) <= REFUSED_S * (LATE_FACTOR if is_busy() else 1)


async def test_sends_queries_and_health_are_served_meanwhile() -> None:
    async with full_of_polls() as (broker, address), AsyncClient(address, retry_ms=0) as client:
        for queue_id in (0, 1):
            (receipt,) = await client.send_many([Message("orders", b"x", queue_id=queue_id)])
            assert receipt.queue_id == queue_id
        await broker.talking.settled()
        assert (await client.query_offsets("orders", 1)).max_offset == 1
        assert (await client.admin.store_status()).state == "running"
        async with grpc.aio.insecure_channel(address) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                HealthCheckRequest.SerializeToString,
                HealthCheckResponse.FromString,
            )
            answer: HealthCheckResponse = await check(HealthCheckRequest(), timeout=5)
            assert answer.status is not None
        assert broker.store.appended > 0
