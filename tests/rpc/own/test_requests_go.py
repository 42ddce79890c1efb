"""Nothing of a request outlives its call, however that ends: the collector counts no bytes."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pocketmq.model.errors import TopicNotFound
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Method, MethodKind, Service
from pocketmq.rpc.v1.status import refuse
from tests.kit.authorised import CLIENT, AuthorisedBroker, authorised_broker
from tests.kit.store_language import turns
from tests.kit.users import signed
from tests.rpc.own.pair import Pair

SIZE_MAX = 96 * 1024
CALLS = 3
SPARE = 48 * 1024
"""What text, counts and caches may take."""
GRANTS = ("all topic:*", "all group:*")
HEADERS = tuple({**CLIENT, **signed(), "x-mq-client-id": "c@1"}.items())


def unreadable(size: int) -> bytes:
    """Returns bytes that are no message of any kind."""
    return b"\x0b" * size


def padded(size: int) -> bytes:
    """Returns a message without a name, with an unknown field."""
    head = b"\xfa\xff\x07"  # number 16,383, bytes
    length = size - 8
    return head + bytes((length & 127 | 128, length >> 7 & 127 | 128, length >> 14)) + bytes(length)


@contextmanager
def uncollected() -> Iterator[Callable[[], int]]:
    """Yields what returns by how many bytes memory has grown, while no circle is found."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()


async def called(pair: Pair, service: str, method: Method, raw: bytes) -> None:
    """Begins a call, sends a request, and cuts off calls that would not end."""
    stream = pair.begin(method.name, *HEADERS, service=service)
    pair.send_large(stream, raw)
    if not method.kind.has_requests and pair.answers[stream].reset_code is None:
        pair.client.end_stream(stream)
        pair.exchange()
    if pair.answers[stream].status is None:
        await pair.settled()
        pair.reset(stream)
    await turns()
    del pair.answers[stream]


@pytest.fixture
async def desk() -> AsyncIterator[AuthorisedBroker]:
    async with authorised_broker(*GRANTS) as opened:
        yield opened


@pytest.mark.parametrize("request_of", [unreadable, padded])
async def test_no_method_keeps_what_it_refused(
    desk: AuthorisedBroker, request_of: Callable[[int], bytes]
) -> None:
    kept: list[str] = []
    for service in desk.services:
        for method in service.methods:
            raw = request_of(min(method.request_size_max, SIZE_MAX))
            pair = Pair(service)
            await called(pair, service.name, method, raw)
            with uncollected() as grown:
                for _ in range(CALLS):
                    await called(pair, service.name, method, raw)
                if grown() > len(raw) + SPARE:
                    kept.append(f"{method.name} keeps {grown()} of {CALLS} x {len(raw)}")
            pair.lose()
    assert not kept, "\n".join(kept)


async def large_after_a_turn(request: Any, call: Call) -> bytes:
    """Answers with as much as came."""
    await asyncio.sleep(0)
    return bytes(request)


async def failed_after_a_turn(request: Any, call: Call) -> bytes:
    """Fails with a request in hand, by an error that came of another."""
    await asyncio.sleep(0)
    try:
        raise ValueError(request[:1])
    except ValueError as error:
        raise TopicNotFound(topic="orders") from error


async def never(request: Any, call: Call) -> bytes:
    """Waits until the client is gone, with a task that knows itself."""
    task = asyncio.current_task()
    await asyncio.Event().wait()
    return bytes(request + str(task).encode())


HANDLERS = [large_after_a_turn, failed_after_a_turn, never]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("parks", [False, True])
async def test_an_ended_call_keeps_neither_request_nor_answer(handler: Any, parks: bool) -> None:
    row = Method(
        "Ask", pb.QueryOffsetsRequest, pb.QueryOffsetsResponse, handler, CallClass.QUERY,
        parse=bytes, serialize=bytes, answer=bytes, request_size_max=SIZE_MAX, parks=parks,
    )  # fmt: skip
    service = Service("test.Service", (row,), refuse)
    pair, raw = Pair(service), unreadable(SIZE_MAX)
    await called(pair, service.name, row, raw)
    with uncollected() as grown:
        for _ in range(CALLS):
            await called(pair, service.name, row, raw)
        assert grown() < len(raw), "an answer or a request is kept"
    pair.lose()


async def test_a_request_counts_as_held_until_the_next_is_asked_for() -> None:
    go_on, taken = asyncio.Event(), list[int]()

    async def slow(requests: AsyncIterator[bytes], call: Call) -> bytes:
        async for request in requests:
            taken.append(len(request))
            await go_on.wait()
        return b""

    row = Method(
        "Take", pb.QueryOffsetsRequest, pb.QueryOffsetsResponse, slow, CallClass.QUERY,
        parse=bytes, serialize=bytes, answer=bytes, request_size_max=SIZE_MAX,
        kind=MethodKind.CLIENT_STREAM,
    )  # fmt: skip
    pair = Pair(Service("test.Service", (row,), refuse))
    stream = pair.begin("Take")
    pair.send_large(stream, bytes(SIZE_MAX))
    await pair.settled()
    assert taken == [SIZE_MAX]
    assert pair.server.held >= SIZE_MAX
    go_on.set()
    await pair.settled()
    assert pair.server.held < SIZE_MAX
    pair.client.end_stream(stream)
    pair.exchange()
    await pair.settled()
    assert pair.answers[stream].status == "0"
    pair.lose()
