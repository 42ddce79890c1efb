"""A handler is told when its answer does not leave, once, and only then."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from pocketmq.model.errors import TopicNotFound
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Method, MethodKind, Service
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_language import turns
from tests.rpc.own.pair import Pair

LARGE = 256 * 1024
"""More than a client's window."""


class Giver:
    """Answers that are counted when they are lost."""

    def __init__(self) -> None:
        self.lost = 0
        self.go_on = asyncio.Event()
        self.cut_off: Callable[[], None] = lambda: None

    def _lose(self) -> None:
        self.lost += 1

    def at_once(self, raw: bytes, call: Call) -> bytes:
        """Answers with as many bytes as asked for."""
        call.if_lost(self._lose)
        return bytes(int(raw))

    async def later(self, raw: bytes, call: Call) -> bytes:
        """Answers when told to; "0" is an error."""
        call.if_lost(self._lose)
        await self.go_on.wait()
        if raw == b"0":
            raise TopicNotFound(topic="x")
        return bytes(int(raw))

    async def severed(self, raw: bytes, call: Call) -> bytes:
        """Answers without waiting, but breaks the connection before."""
        call.if_lost(self._lose)
        call.room(int(raw))
        self.cut_off()
        return bytes(int(raw))

    async def stream(self, raw: bytes, call: Call) -> AsyncIterator[bytes]:
        """Gives several answers when told to."""
        call.if_lost(self._lose)
        await self.go_on.wait()
        for _ in range(3):
            yield bytes(int(raw))


@pytest.fixture
async def giver() -> Giver:
    return Giver()


@pytest.fixture
async def pair(giver: Giver) -> Pair:
    def row(name: str, handler: object, kind: MethodKind = MethodKind.UNARY) -> Method:
        return Method(
            *(name, pb.QueryByIdRequest, pb.QueryByIdResponse, handler, CallClass.QUERY),  # type: ignore[arg-type]
            parse=bytes,
            serialize=bytes,
            answer=bytes,
            kind=kind,
        )

    rows = (
        row("AtOnce", giver.at_once),
        row("Later", giver.later),
        row("Severed", giver.severed),
        row("Stream", giver.stream, MethodKind.SERVER_STREAM),
    )
    return Pair(Service("test.Service", rows, refuse))


async def answered(pair: Pair, giver: Giver, name: str, size: int) -> int:
    """Asks, and lets the answer leave as far as it can; returns the stream."""
    stream = pair.call(name, b"%d" % size)
    giver.go_on.set()
    await pair.settled()
    return stream


both = pytest.mark.parametrize("name", ["AtOnce", "Later"])


@pytest.mark.parametrize(
    ("name", "size"),
    [("AtOnce", 1), ("AtOnce", LARGE), ("Later", 1), ("Later", LARGE), ("Stream", 1)],
)
async def test_what_was_written_is_not_lost(pair: Pair, giver: Giver, name: str, size: int) -> None:
    stream = await answered(pair, giver, name, size)
    assert pair.answers[stream].status == "0"
    pair.lose()
    assert giver.lost == 0


@both
@pytest.mark.parametrize("is_reset", [True, False])
async def test_what_its_client_did_not_read_is_lost(
    pair: Pair, giver: Giver, name: str, is_reset: bool
) -> None:
    pair.reads = False
    stream = await answered(pair, giver, name, LARGE)
    assert giver.lost == 0
    if is_reset:
        pair.client.reset_stream(stream)
        pair.exchange()
        assert giver.lost == 1
    pair.lose()
    assert giver.lost == 1


@pytest.mark.parametrize("name", ["Later", "Stream"])
async def test_what_was_not_written_yet_is_lost_with_its_connection(
    pair: Pair, giver: Giver, name: str
) -> None:
    pair.call(name, b"1")
    await turns()
    giver.go_on.set()
    pair.server.pause_writing()
    await turns()
    pair.lose()
    await turns()
    assert giver.lost == 1


@pytest.mark.parametrize("is_reset", [True, False])
async def test_the_answer_of_a_call_that_ends_before_it_is_lost(
    pair: Pair, giver: Giver, is_reset: bool
) -> None:
    stream = pair.call("Later", b"1")
    await turns()
    if is_reset:
        pair.client.reset_stream(stream)
        pair.exchange()
    else:
        pair.lose()
    await turns()
    assert giver.lost == 1


async def test_an_error_takes_the_place_of_the_answer(pair: Pair, giver: Giver) -> None:
    stream = await answered(pair, giver, "Later", 0)
    assert (pair.answers[stream].status, giver.lost) == ("5", 1)


async def test_an_answer_there_is_no_room_for_is_lost(pair: Pair, giver: Giver) -> None:
    pair.edge.memory.unread = pair.edge.memory.unread_max + 1  # other clients' answers
    stream = await answered(pair, giver, "Later", 9 * 1024 * 1024)
    assert (pair.answers[stream].status, giver.lost) == ("8", 1)


async def test_the_answer_of_a_call_that_breaks_its_connection_is_lost_without_an_error(
    pair: Pair, giver: Giver
) -> None:
    giver.cut_off = pair.server.cut_off
    first, second = (pair.begin("Severed") for _ in range(2))
    for stream in (first, second):
        pair.send(stream, b"1")
    pair.exchange()
    await turns()
    assert not pair.server.is_open
    assert (giver.lost, pair.edge.memory.reserved) == (1, 0)
