"""A stop lets calls that may store something end, and waits no longer for anything else.

That is calls that store nothing, and clients that do not read what they asked for.
"""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own import server
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Method, MethodKind, Service
from pocketmq.rpc.v1.status import refuse
from tests.kit.raw_http2 import RawClient
from tests.kit.store_broker import connected, running

LARGE = 3 << 20


class Slow:
    """Methods that answer when told to: one that stores, one that does not."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    def service(self) -> Service:
        rows = [self._row("Store", CallClass.SEND), self._row("Ask", CallClass.QUERY)]
        return Service("test.Service", tuple(rows), refuse)

    def _row(self, name: str, call_class: CallClass) -> Method:
        return Method(name, pb.QueryByIdRequest, pb.QueryByIdResponse, self._serve, call_class)

    async def _serve(self, request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
        self.begun += 1
        await self.go_on.wait()
        return pb.QueryByIdResponse()


async def test_a_query_that_does_not_end_holds_no_stop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_GRACE_S", 0.05)
    slow = Slow()
    own = OwnServer([slow.service()])
    async with running(own) as address, connected(address) as channel:
        store, ask = (
            channel.unary_unary(f"/test.Service/{name}")(b"") for name in ("Store", "Ask")
        )
        while slow.begun < 2:  # noqa: ASYNC110 - the server runs on this loop
            await asyncio.sleep(0)
        stopping = asyncio.ensure_future(own.stop(600))
        async with asyncio.timeout(20):
            assert await ask.code() is grpc.StatusCode.CANCELLED
            assert not store.done()
            slow.go_on.set()
            assert await store.code() is grpc.StatusCode.OK
            await stopping


class Large:
    """Methods whose answers are larger than what a client that does not read lets go."""

    def __init__(self) -> None:
        self.begun = 0

    def service(self) -> Service:
        kinds = (pb.QueryByIdRequest, pb.QueryByIdResponse)
        rows = (
            Method("One", *kinds, self._one, CallClass.POLL),
            Method("Many", *kinds, self._many, CallClass.POLL, kind=MethodKind.SERVER_STREAM),
        )
        return Service("test.Service", rows, refuse)

    def _one(self, request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
        self.begun += 1
        return _large()

    async def _many(
        self, request: pb.QueryByIdRequest, call: Call
    ) -> AsyncIterator[pb.QueryByIdResponse]:
        while True:
            self.begun += 1
            yield _large()


def _large() -> pb.QueryByIdResponse:
    answer = pb.QueryByIdResponse()
    answer.message.body = bytes(LARGE)
    return answer


@pytest.mark.parametrize(
    "names", [["One"], ["One", "One"], ["Many"]], ids=["an answer", "a call that waits", "a stream"]
)
async def test_a_client_that_reads_nothing_holds_no_stop_up(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_GRACE_S", 0.05)
    monkeypatch.setattr(server, "FLUSH_S", 0.05)
    large = Large()
    own = OwnServer([large.service()])
    async with running(own) as address:
        with RawClient(address) as silent:
            for name in names:
                silent.message(silent.call(f"test.Service/{name}"), b"")
            while not large.begun:  # noqa: ASYNC110 - the server runs on this loop
                await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await own.stop(600)
            assert large.begun == 1
