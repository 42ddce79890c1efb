"""Calls that end at once run in one loop; all others see no difference."""

import asyncio
from typing import Any

import pytest

from pocketmq.model.errors import TopicNotFound
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own.server_state import LARGE_REPLY
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import Metadata, Method, Service
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_language import turns
from tests.rpc.own.pair import Pair

SIZE_MAX = 1_000
NOT_FOUND, CRASHED = "5", "13"


class Desk:
    """A method with a shortcut, which decides by its request's first byte, and one without."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.usual: list[bytes] = []
        self.later: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        rows = (self._row("Quick"), self._row("Slow"), self._row("Signed", identifies=True))
        self.pair = Pair(Service("test.Service", rows, refuse))

    def _row(self, name: str, *, identifies: bool = False) -> Method:
        return Method(
            *(name, pb.QueryByIdRequest, pb.QueryByIdResponse, self._usually, CallClass.QUERY),
            parse=bytes, serialize=bytes, answer=bytes, request_size_max=SIZE_MAX,
            shortcut=self._shortcut if name != "Slow" else None, identifies=identifies,
        )  # fmt: skip

    def _usually(self, raw: bytes, call: Call) -> bytes:
        self.usual.append(raw)
        return b"usual " + raw

    def _shortcut(self, raw: bytes, peer_host: bytes, metadata: Metadata) -> Any:
        assert peer_host == bytes((192, 0, 2, 1, 0, 0, 0, 7))
        self.asked.append(raw)
        match raw[:1]:
            case b"n":
                return None
            case b"w":
                return self.later
            case b"l":
                return bytes(LARGE_REPLY + 1)
            case b"e":
                raise TopicNotFound(topic="t")
            case b"c":
                raise ValueError("a bug")
        return b"quick " + raw

    def begin(self, raw: bytes, name: str = "Quick") -> int:
        """Sends a call that stays with others until they are read together; returns its stream."""
        stream = self.pair.begin(name)
        self.pair.send(stream, raw)
        return stream

    def outcome(self, stream: int) -> bytes | str:
        """Returns how a call ended: its answer, or its status."""
        answer = self.pair.answers[stream]
        if answer.status == "0":
            return answer.messages[0]
        return answer.status or ""

    @property
    def counted(self) -> int:
        """Calls of the method that went into its histogram as answered at once."""
        served = self.pair.edge.methods[b"/test.Service/Quick"]
        return sum(served.stats.success.counts)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_calls_of_one_read_are_answered_whatever_stands_between_them(desk: Desk) -> None:
    raws = [b"a", b"b", b"never mind", b"c", b"d", b"e", b"f", b"wait", b"g", b"n", b"large", b"h"]
    slow = desk.begin(b"first", "Slow")
    streams = []
    for raw in raws:
        streams.append(desk.begin(raw))
        if raw == b"d":
            streams.append(desk.begin(b"s", "Slow"))
    desk.pair.exchange()
    outcomes = [desk.outcome(stream) for stream in (slow, *streams)]
    assert outcomes == [
        *(b"usual first", b"quick a", b"quick b", b"usual never mind", CRASHED, b"quick d"),
        *(b"usual s", NOT_FOUND, b"quick f", "", b"quick g", b"usual n"),
        *(bytes(LARGE_REPLY + 1), b"quick h"),
    ]
    assert desk.asked == raws
    assert desk.usual == [b"first", b"never mind", b"s", b"n"]
    desk.later.set_result(b"then")
    await turns()
    desk.pair.exchange()
    assert desk.outcome(streams[raws.index(b"wait") + 1]) == b"then"
    assert desk.pair.edge.connections == {desk.pair.server}


async def test_what_is_answered_at_once_is_counted(desk: Desk) -> None:
    for raw in (b"a", b"b", b"n", b"e", b"x"):
        desk.begin(raw)
    desk.pair.exchange()
    assert desk.counted == 4
    desk.begin(b"y")
    desk.pair.exchange()
    assert desk.counted == 5


async def test_a_request_that_is_too_large_is_not_asked_about(desk: Desk) -> None:
    stream = desk.begin(bytes(SIZE_MAX + 1))
    other = desk.begin(b"x")
    desk.pair.exchange()
    assert desk.outcome(stream) != "0"
    assert desk.outcome(other) == b"quick x"
    assert desk.asked == [b"x"]


async def test_no_call_is_quick_that_is_refused(desk: Desk) -> None:
    gate = desk.pair.edge.serving.admission.gate(CallClass.QUERY)
    gate.enter((), gate.limit)
    stream = desk.begin(b"x")
    desk.pair.exchange()
    assert desk.outcome(stream) == "8"
    assert desk.asked == []


@pytest.mark.parametrize(("name", "way"), [("Quick", b"quick x"), ("Signed", b"usual x")])
async def test_where_shares_may_bind_a_shortcut_that_says_who_calls_is_not_asked(
    desk: Desk, name: str, way: bytes
) -> None:
    gate = desk.pair.edge.serving.admission.gate(CallClass.QUERY)
    gate.enter((), gate.tight)
    stream = desk.begin(b"x", name)
    desk.pair.exchange()
    await desk.pair.settled()
    assert desk.outcome(stream) == way
