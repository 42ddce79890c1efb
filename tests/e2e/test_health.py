"""Supervisors of the daemon learn its health over HTTP, over gRPC, and from its log."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tests.e2e.daemon import Daemon

NAMES = ("", "pocketmq.v1.Broker", "pocketmq.v1.Admin", "store.write")
SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


class Asker:
    """Asks for health over a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        read, write = HealthCheckResponse.FromString, HealthCheckRequest.SerializeToString
        self._check = channel.unary_unary("/grpc.health.v1.Health/Check", write, read)
        self._watch = channel.unary_stream("/grpc.health.v1.Health/Watch", write, read)

    async def statuses(self) -> list[int]:
        """Returns what every name is."""
        asked = [self._check(HealthCheckRequest(service=name), timeout=20) for name in NAMES]
        return [int((await answer).status) for answer in asked]

    async def watched(self, name: str) -> AsyncIterator[int]:
        """Yields what a name is, and becomes."""
        async for answer in self._watch(HealthCheckRequest(service=name), timeout=60):
            yield int(answer.status)


@asynccontextmanager
async def asker_of(broker: Daemon) -> AsyncIterator[Asker]:
    async with grpc.aio.insecure_channel(broker.endpoint) as channel:
        yield Asker(channel)


async def test_a_broker_that_runs_serves_everything(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        async with asker_of(broker) as asker:
            assert await asker.statuses() == [SERVING] * 4
        assert {broker.page(f"/{name}z").status for name in ("live", "ready", "startup")} == {200}


async def test_a_broker_without_permission_to_write_says_so(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store", "--set", "brokerPermission=4") as broker:
        async with asker_of(broker) as asker:
            assert await asker.statuses() == [SERVING, SERVING, SERVING, NOT_SERVING]
        assert broker.page("/readyz").status == 200


async def test_who_watches_learns_that_the_broker_stops(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        async with asker_of(broker) as asker:
            statuses = []
            async for status in asker.watched("store.write"):
                statuses.append(status)
                if status == SERVING:
                    broker.signal(signal.SIGTERM)
            assert statuses == [SERVING, NOT_SERVING]
        assert broker.wait() == 0


def test_the_log_is_one_json_object_a_line(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        assert broker.stop() == 0
        lines = [json.loads(line) for line in broker.log.read_text("utf-8").splitlines()]
    events = [line["event"] for line in lines]
    assert events[-1] == "broker.stopped"
    assert {"time", "level", "event", "logger"} <= set.intersection(*(set(x) for x in lines))
