"""Calls of a shortcut whose replies wait for a flush: those of one read, and what ends alone."""

import asyncio

import pytest

from pocketmq.model.errors import FsyncFailed
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own import memory
from pocketmq.rpc.own.server_state import LARGE_REPLY
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Metadata, Method, Service
from pocketmq.rpc.v1.status import refuse
from pocketmq.store.write.flush_group import FlushGroup
from tests.kit.store_language import turns, until
from tests.rpc.own.pair import Pair

LARGE = bytes(LARGE_REPLY + 1)


class Flushes:
    """Two methods whose replies wait, for flushes that end when told to.

    Send     says so in capitals where its flush was late
    Decide   waits on then
    """

    def __init__(self) -> None:
        self.groups: list[FlushGroup] = []
        self.next()
        self.pair = Pair(
            Service(
                "test.Service",
                (
                    self._row("Send", Late(self.group, bytes.upper)),
                    self._row("Decide", Late(self.group, None)),
                ),
                refuse,
            )
        )
        self.gate = self.pair.edge.serving.admission.gate(CallClass.SEND)

    def _row(self, name: str, late: Late) -> Method:
        def shortcut(raw: bytes, peer_host: bytes, metadata: Metadata) -> PendingReply:
            return late.reply(LARGE if raw == b"large" else raw)

        return Method(
            *(name, pb.QueryByIdRequest, pb.QueryByIdResponse, _unused, CallClass.SEND),
            parse=bytes, serialize=bytes, answer=bytes, request_size_max=1_000, shortcut=shortcut,
        )  # fmt: skip

    def group(self) -> FlushGroup:
        return self.groups[-1]

    def next(self) -> None:
        """Closes the group of the current flush; later sends wait for another flush."""
        if self.groups:
            self.group().is_open = False
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.groups.append(FlushGroup(future, 0, is_open=True))

    def begin(self, *raw: bytes, name: str = "Send", timeout: str = "") -> list[int]:
        """Sends calls that are read together; returns their streams."""
        extra = [("grpc-timeout", timeout)] if timeout else []
        streams = [self.pair.begin(name, *extra) for _ in raw]
        for stream, message in zip(streams, raw, strict=True):
            self.pair.send(stream, message)
        return streams

    async def end(self, number: int, *, in_time: bool = True) -> None:
        """Ends a flush, and delivers the replies to the client."""
        self.groups[number].future.set_result(in_time)
        await turns()
        await self.pair.settled()

    def outcomes(self, streams: list[int]) -> list[bytes | str | None]:
        """Returns how calls ended: their answers, or their statuses; None: not yet."""
        answers = [self.pair.answers[stream] for stream in streams]
        return [one.messages[0] if one.status == "0" else one.status for one in answers]


def _unused(raw: bytes, call: Call) -> bytes:
    raise AssertionError("the shortcut takes all")


@pytest.fixture
async def flushes() -> Flushes:
    return Flushes()


async def test_calls_of_one_read_wait_as_one_and_are_answered_by_one_write(
    flushes: Flushes,
) -> None:
    streams = flushes.begin(b"a", b"b", b"c")
    flushes.pair.exchange()
    assert len(flushes.pair.server.calls) == 1
    assert (flushes.gate.count, flushes.group().count) == (3, 2)
    flushes.pair.wire.written.clear()
    flushes.group().future.set_result(True)
    await turns()
    assert len(flushes.pair.wire.written) == 1
    await flushes.pair.settled()
    assert flushes.outcomes(streams) == [b"a", b"b", b"c"]
    served = flushes.pair.edge.methods[b"/test.Service/Send"]
    assert sum(served.stats.waited.counts) == 3
    assert (flushes.gate.count, served.stats.under_way) == (0, 0)
    assert not flushes.pair.server.is_busy


async def test_who_comes_behind_a_flush_that_began_waits_for_the_next(flushes: Flushes) -> None:
    first = flushes.begin(b"a", b"b")
    flushes.pair.exchange()
    flushes.next()
    second = flushes.begin(b"c")
    flushes.pair.exchange()
    await flushes.end(0)
    assert flushes.outcomes(first + second) == [b"a", b"b", None]
    await flushes.end(1, in_time=False)
    assert flushes.outcomes(second) == [b"C"]


async def test_what_may_not_be_said_late_waits_on(flushes: Flushes) -> None:
    streams = flushes.begin(b"a", name="Decide") + flushes.begin(b"b")
    flushes.pair.exchange()
    flushes.next()
    await flushes.end(0, in_time=False)
    assert flushes.outcomes(streams) == [None, b"B"]
    await flushes.end(1)
    assert flushes.outcomes(streams) == [b"a", b"B"]
    assert flushes.gate.count == 0


async def test_a_failed_flush_answers_none(flushes: Flushes) -> None:
    streams = flushes.begin(b"a", b"b") + flushes.begin(b"c", name="Decide")
    flushes.pair.exchange()
    flushes.group().future.set_exception(FsyncFailed(why="EIO"))
    await turns()
    await flushes.pair.settled()
    assert all(isinstance(one, str) and one != "0" for one in flushes.outcomes(streams))
    assert flushes.gate.count == 0


async def test_one_that_is_reset_leaves_the_others(flushes: Flushes) -> None:
    streams = flushes.begin(b"a", b"b", b"c")
    flushes.pair.exchange()
    flushes.pair.client.reset_stream(streams[1])
    flushes.pair.exchange()
    assert flushes.gate.count == 2
    await flushes.end(0)
    assert flushes.outcomes([streams[0], streams[2]]) == [b"a", b"c"]
    assert flushes.gate.count == 0


async def test_each_has_its_own_time(flushes: Flushes) -> None:
    patient = flushes.begin(b"a", timeout="1H")
    hasty = flushes.begin(b"b", b"c", timeout="10m")
    endless = flushes.begin(b"d")
    flushes.pair.exchange()
    assert len(flushes.pair.server.calls) == 1
    await until(lambda: flushes.gate.count == 2)
    await flushes.pair.settled()
    assert flushes.outcomes(hasty) == ["4", "4"]
    await flushes.end(0)
    assert flushes.outcomes(patient + endless) == [b"a", b"d"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("order", [("10m", "300m", "1H", ""), ("1H", "300m", "10m", "")])
async def test_each_deadline_holds_in_whatever_order_they_are_read(
    flushes: Flushes, order: tuple[str, ...]
) -> None:
    streams = [flushes.begin(b"a", timeout=timeout)[0] for timeout in order]
    flushes.pair.exchange()
    assert len(flushes.pair.server.calls) == 1
    await until(lambda: flushes.gate.count == 2)
    await flushes.pair.settled()
    ended = dict(zip(order, flushes.outcomes(streams), strict=True))
    assert ended == {"10m": "4", "300m": "4", "1H": None, "": None}
    await flushes.end(0)
    ended = dict(zip(order, flushes.outcomes(streams), strict=True))
    assert ended == {"10m": "4", "300m": "4", "1H": b"a", "": b"a"}
    assert flushes.gate.count == 0


async def test_no_more_wait_than_may(flushes: Flushes) -> None:
    flushes.gate.enter((), flushes.gate.limit - 3)
    streams = flushes.begin(b"a", b"b") + flushes.begin(b"c", name="Decide")
    streams += flushes.begin(b"d", b"e")
    flushes.pair.exchange()
    assert flushes.outcomes(streams) == [None, None, None, "8", "8"]
    await flushes.end(0)
    assert flushes.outcomes(streams[:3]) == [b"a", b"b", b"c"]
    more = flushes.begin(b"f")
    flushes.next()
    flushes.pair.exchange()
    await flushes.end(1)
    assert flushes.outcomes(more) == [b"f"]


async def test_what_waits_for_a_slow_disk_is_not_what_its_client_left_unfinished(
    flushes: Flushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 3_500)
    streams = flushes.begin(bytes(1_000), bytes(1_000), bytes(1_000))
    flushes.pair.exchange()
    assert not flushes.pair.wire.is_aborted
    assert flushes.pair.server.wire.held > 3_000, "so much less may its client send meanwhile"
    await flushes.end(0)
    assert flushes.outcomes(streams) == [bytes(1_000)] * 3
    assert (flushes.pair.server.wire.held, flushes.pair.edge.memory.held) == (0, 0)


async def test_a_large_reply_waits_by_itself(flushes: Flushes) -> None:
    streams = flushes.begin(b"a", b"large", b"b")
    flushes.pair.exchange()
    assert flushes.gate.count == 3
    await flushes.end(0)
    assert flushes.outcomes([streams[0], streams[2]]) == [b"a", b"b"]
    answer = flushes.pair.answers[streams[1]]
    while answer.status is None:
        flushes.pair.client.increment_flow_control_window(1 << 20)
        flushes.pair.client.increment_flow_control_window(1 << 20, streams[1])
        await flushes.pair.settled()
    assert answer.messages == [LARGE]


async def test_of_a_connection_that_is_gone_nothing_waits(flushes: Flushes) -> None:
    flushes.begin(b"a", b"b", timeout="1H")
    flushes.begin(b"c", name="Decide")
    flushes.pair.exchange()
    flushes.pair.lose()
    assert (flushes.gate.count, flushes.pair.edge.memory.held) == (0, 0)
    await flushes.end(0)
    served = flushes.pair.edge.methods[b"/test.Service/Send"]
    assert (served.stats.under_way, sum(served.stats.waited.counts)) == (0, 0)


async def test_a_connection_that_is_old_ends_what_waits_on_it(flushes: Flushes) -> None:
    streams = flushes.begin(b"a", b"b")
    flushes.pair.exchange()
    for calls in [*flushes.pair.server.calls]:
        calls.give_up()
    await flushes.pair.settled()
    assert flushes.outcomes(streams) == ["14", "14"]
    assert flushes.gate.count == 0
    await flushes.end(0)
