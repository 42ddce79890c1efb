"""Methods of every kind over a real connection: streams, how they end, and faces of their own."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from pocketmq.model.errors import BrokerError, TopicNotFound
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Handler, Method, MethodKind, Service, WireStatus
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_broker import ServerClass, connected, running
from tests.kit.store_language import turns

Request, Response = pb.QueryOffsetsRequest, pb.QueryOffsetsResponse
NAME = "test.Numbers"
ERROR = Response(min_offset=-1)
"""How the face that answers in band shows an error."""


class Numbers:
    """A service of streams; `up` gives numbers, `total` adds them, `doubled` does so one by one."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        """How each of its calls ended, as its handler saw it."""
        self.waits, self.go_on = asyncio.Event(), asyncio.Event()

    async def up(self, request: pb.QueryOffsetsRequest, call: Call) -> AsyncIterator[Any]:
        """Gives so many numbers; behind the topic "fail" an error, behind "wait" nothing more."""
        try:
            for number in range(request.queue_id):
                yield Response(max_offset=number)
            if request.topic == "fail":
                raise TopicNotFound(topic="fail")
            if request.topic == "bug":
                raise ValueError("secret")
            if request.topic == "wait":
                self.waits.set()
                await self.go_on.wait()
            self.ended.append("whole")
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise

    async def total(self, requests: AsyncIterator[Any], call: Call) -> Any:
        """Adds up what comes."""
        numbers = [request.queue_id async for request in requests]
        return Response(max_offset=sum(numbers))

    async def doubled(self, requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        """Answers each number; "fail" with an error."""
        async for request in requests:
            if request.topic == "fail":
                raise TopicNotFound(topic="fail")
            yield Response(max_offset=2 * request.queue_id)
        self.ended.append("whole")

    def service(self, refuse: Any) -> Service:
        """Returns the table of methods."""
        rows: list[tuple[str, Handler, MethodKind]] = [
            ("Up", self.up, MethodKind.SERVER_STREAM),
            ("Total", self.total, MethodKind.CLIENT_STREAM),
            ("Doubled", self.doubled, MethodKind.BIDI),
        ]
        return Service(
            NAME,
            tuple(
                Method(name, Request, Response, handler, CallClass.POLL, kind=kind)
                for name, handler, kind in rows
            ),
            refuse,
        )


class Desk:
    """The service on a port, and a client of it."""

    def __init__(self, numbers: Numbers, server: Any, channel: grpc.aio.Channel) -> None:
        self.numbers = numbers
        self.server = server
        self.channel = channel

    def up(self, count: int, then: str = "", **options: Any) -> Any:
        """Asks for numbers."""
        call = self.channel.unary_stream(f"/{NAME}/Up", response_deserializer=Response.FromString)
        request = Request(topic=then, queue_id=count).SerializeToString()
        return call(request, **{"timeout": 20, **options})

    def total(self, raws: Iterable[bytes]) -> Any:
        """Sends numbers to be added."""
        call = self.channel.stream_unary(
            f"/{NAME}/Total", response_deserializer=Response.FromString
        )
        return call(iter(raws), timeout=20)

    def doubled(self) -> Any:
        """Begins to send numbers that are answered one by one."""
        return self.channel.stream_stream(
            f"/{NAME}/Doubled",
            request_serializer=Request.SerializeToString,
            response_deserializer=Response.FromString,
        )(timeout=20)

    def under_way(self, name: str = "Up") -> int:
        """Returns how many calls of a method are under way."""
        stat: Any = next(s for s in self.server.stats if s.name == "pocketmq_inflight_requests")
        return int(stat.read().get((f"{NAME}/{name}",), 0))

    async def until_ended(self) -> None:
        """Returns when no call is under way."""
        async with asyncio.timeout(20):
            while any(self.under_way(name) for name in ("Up", "Total", "Doubled")):
                await turns()


def in_band(error: BrokerError, method: Method) -> Any:
    return ERROR


@asynccontextmanager
async def served(
    server_class: ServerClass, refuse: Any = refuse, poll_limit: int = 10
) -> AsyncIterator[Desk]:
    numbers = Numbers()
    server = server_class(
        [numbers.service(refuse)], limits={**DEFAULT_LIMITS, CallClass.POLL: poll_limit}
    )
    async with running(server) as address, connected(address) as channel:
        yield Desk(numbers, server, channel)


@pytest.fixture
async def desk(server_class: ServerClass) -> AsyncIterator[Desk]:
    async with served(server_class) as opened:
        yield opened


async def received(call: Any) -> tuple[list[int], grpc.aio.AioRpcError | None]:
    """Returns the numbers of a stream, and the error at its end."""
    numbers: list[int] = []
    try:
        while (answer := await call.read()) is not grpc.aio.EOF:
            numbers.append(-1 if answer == ERROR else answer.max_offset)
    except grpc.aio.AioRpcError as error:
        return numbers, error
    return numbers, None


def request(number: int, topic: str = "") -> bytes:
    return Request(queue_id=number, topic=topic).SerializeToString()


# -- streams that end well -------------------------------------------------------------------------


async def test_answers_come_one_by_one_to_the_end(desk: Desk) -> None:
    assert await received(desk.up(3)) == ([0, 1, 2], None)
    assert await received(desk.up(0)) == ([], None)
    await desk.until_ended()
    assert desk.numbers.ended == ["whole", "whole"]


async def test_many_requests_have_one_answer(desk: Desk) -> None:
    assert (await desk.total(map(request, range(100)))).max_offset == 4950
    assert (await desk.total([])).max_offset == 0


async def test_requests_are_answered_while_more_come(desk: Desk) -> None:
    call = desk.doubled()
    for number in (4, 5):
        await call.write(Request(queue_id=number))
        assert (await call.read()).max_offset == 2 * number
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    await desk.until_ended()
    assert desk.numbers.ended == ["whole"]


# -- and badly -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "code"), [("fail", grpc.StatusCode.NOT_FOUND), ("bug", grpc.StatusCode.INTERNAL)]
)
async def test_an_error_in_mid_stream_follows_what_was_sent(
    desk: Desk, then: str, code: grpc.StatusCode
) -> None:
    numbers, error = await received(desk.up(2, then))
    assert numbers == [0, 1]
    assert error is not None
    assert error.code() is code
    assert "secret" not in (error.details() or "")
    await desk.until_ended()


async def test_a_request_that_cannot_be_read_ends_the_stream(desk: Desk) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await desk.total([request(1), b"\xff\xff"])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await desk.until_ended()


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_client_that_goes_ends_the_handler(desk: Desk, is_cancelled: bool) -> None:
    call = desk.up(1, "wait", timeout=20 if is_cancelled else 0.3)
    assert (await call.read()).max_offset == 0
    await desk.numbers.waits.wait()
    if is_cancelled:
        call.cancel()
    await desk.until_ended()
    assert desk.numbers.ended == ["CancelledError"]
    latency: Any = next(s for s in desk.server.stats if s.name.startswith("rocketmq_rpc_latency"))
    assert sum(latency.at(("grpc", "up", "none", "true", "cancelled")).counts) == 1
    code = grpc.StatusCode.CANCELLED if is_cancelled else grpc.StatusCode.DEADLINE_EXCEEDED
    assert await call.code() is code


async def test_a_client_that_goes_in_the_midst_of_its_requests(desk: Desk) -> None:
    call = desk.doubled()
    await call.write(Request(queue_id=1))
    assert (await call.read()).max_offset == 2
    call.cancel()
    await desk.until_ended()
    # grpc.aio may show the cancellation as a whole end.
    assert desk.numbers.ended in ([], [] if isinstance(desk.server, OwnServer) else ["whole"])


# -- admission and drain ---------------------------------------------------------------------------


async def test_streams_hold_their_class_and_the_next_call_is_refused_unread(
    server_class: ServerClass,
) -> None:
    async with served(server_class, poll_limit=1) as desk:
        first = desk.up(1, "wait")
        await first.read()
        for call in (desk.up(1), desk.doubled()):
            numbers, error = await received(call)
            assert numbers == []
            assert error is not None
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        desk.numbers.go_on.set()
        assert await received(first) == ([], None)
        await desk.until_ended()
        assert await received(desk.up(1)) == ([0], None)


async def test_a_drain_ends_requests_and_lets_answers_come_to_their_end(desk: Desk) -> None:
    answers, call = desk.up(1, "wait"), desk.doubled()
    await answers.read()
    await call.write(Request(queue_id=1))
    await call.read()
    desk.server.drain()
    assert await call.read() is grpc.aio.EOF
    assert desk.numbers.ended == ["whole"]
    assert desk.under_way() == 1
    desk.numbers.go_on.set()
    assert await received(answers) == ([], None)
    assert await desk.doubled().read() is grpc.aio.EOF  # One that begins now ends at once.


async def test_a_stop_cancels_what_does_not_end(desk: Desk) -> None:
    call = desk.up(1, "wait")
    await desk.numbers.waits.wait()
    desk.server.drain()
    await desk.server.stop(0)
    assert desk.numbers.ended == ["CancelledError"]
    assert (await received(call))[1] is not None


# -- faces -----------------------------------------------------------------------------------------


async def test_a_face_may_answer_errors_in_band(server_class: ServerClass) -> None:
    async with served(server_class, in_band, poll_limit=1) as desk:
        assert await received(desk.up(2, "fail")) == ([0, 1, -1], None)
        await desk.until_ended()
        assert await desk.total([b"\xff\xff"]) == ERROR
        await desk.until_ended()
        first = desk.up(1, "wait")
        await first.read()
        call = desk.up(1, metadata=(("x-request-id", "mine"),))
        assert await received(call) == ([-1], None)
        assert dict(await call.trailing_metadata())["x-request-id"] == "mine"
        assert await desk.total([]) == ERROR
        rejected: Any = next(s for s in desk.server.stats if s.name == "pocketmq_rejected_total")
        assert rejected.values == {
            ("TopicNotFound",): 1,
            ("MalformedRequest",): 1,
            ("TooManyRequests",): 2,
        }


def test_a_status_has_the_number_of_a_grpc_code() -> None:
    shown = refuse(TopicNotFound(topic="t"), Numbers().service(refuse).methods[0])
    assert isinstance(shown, WireStatus)
    assert shown.code == grpc.StatusCode.NOT_FOUND.value[0]


async def test_an_answer_that_was_cancelled_is_known_to_be_lost(server_class: ServerClass) -> None:
    lost: list[str] = []
    begun = asyncio.Event()

    async def wait(request: pb.QueryOffsetsRequest, call: Call) -> Any:
        call.if_lost(lambda: lost.append(request.topic))
        if request.topic == "late":
            begun.set()
            await asyncio.Event().wait()
        return Response(max_offset=1)

    row = Method("Wait", Request, Response, wait, CallClass.POLL)
    server = server_class([Service(NAME, (row,), refuse)])
    async with running(server) as address, connected(address) as channel:
        ask = channel.unary_unary(f"/{NAME}/Wait", Request.SerializeToString, Response.FromString)
        assert (await ask(Request(topic="quick"), timeout=20)).max_offset == 1
        call = ask(Request(topic="late"), timeout=20)
        await begun.wait()
        call.cancel()
        async with asyncio.timeout(20):
            while not lost:
                await turns()
    assert lost == ["late"]
