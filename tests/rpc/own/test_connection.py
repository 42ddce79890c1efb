"""A connection of our own transport: how calls end, and what slow or greedy clients cost."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from pocketmq.model.errors import FsyncFailed
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.own import connection, memory, server
from pocketmq.rpc.own.server import Lifetime
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Handler, Metadata, Method, MethodKind, Service, Shortcut
from pocketmq.rpc.serving import Serving
from pocketmq.rpc.v1.status import refuse
from pocketmq.store.write.flush_group import FlushGroup
from pocketmq.wire.connection import Connection
from tests.kit.store_language import turns, until
from tests.rpc.own.pair import Pair

LARGE = 256 * 1024


class Handlers:
    """Handlers on bytes: what they were given, and how they ended."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.ended: list[str] = []
        self.given = 0
        self.go_on = asyncio.Event()
        self.rooms: list[int] = []
        self.last: Call | None = None
        self.flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.group = FlushGroup(self.flushed, 0)
        self.quick_late = Late(lambda: self.group, bytes.upper)

    def echo(self, raw: bytes, call: Call) -> bytes:
        """Answers at once with what came."""
        self.seen.append(raw)
        return raw

    def large(self, raw: bytes, call: Call) -> bytes:
        """Answers at once with a lot."""
        self.given += 1
        return bytes(LARGE)

    async def step(self, raw: bytes, call: Call) -> bytes:
        """Answers with what came, without waiting for anything."""
        return self.echo(raw, call)

    async def at_last(self, raw: bytes, call: Call) -> bytes:
        """Answers with a lot, without waiting for anything."""
        return self.large(raw, call)

    async def wait(self, raw: bytes, call: Call) -> bytes:
        """Answers when told to, with a lot where that is asked for."""
        try:
            await self.go_on.wait()
            self.ended.append("whole")
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return bytes(LARGE) if raw == b"large" else b"x"

    def late(self, raw: bytes, call: Call) -> PendingReply:
        """Answers with what came once a flush has ended, in capitals where that was late."""
        return Late(lambda: self.group, bytes.upper).reply(raw)

    def echo_shortcut(self, raw: bytes, peer_host: bytes, metadata: Metadata) -> bytes:
        """Answers at once with what came, without a handler."""
        self.seen.append(raw)
        return raw

    def late_shortcut(self, raw: bytes, peer_host: bytes, metadata: Metadata) -> PendingReply:
        """Answers in the same way, without a handler."""
        return self.quick_late.reply(raw)

    def room(self, raw: bytes, call: Call) -> Any:
        """Asks for room, and answers when told to, or at once."""
        self.last = call
        self.rooms.append(call.room(80_000))
        if raw != b"now":
            return self.wait(raw, call)
        self.rooms.append(call.room(500))
        return bytes(500)

    async def park(self, raw: bytes, call: Call) -> bytes:
        """Answers with what came, in a task."""
        self.seen.append(raw)
        return raw

    async def gone(self, raw: bytes, call: Call) -> bytes:
        """Waits for what was given up before."""
        self.flushed.cancel()
        await self.flushed
        return raw

    async def flood(self, raw: bytes, call: Call) -> AsyncIterator[bytes]:
        """Gives a hundred large answers."""
        for _ in range(100):
            self.given += 1
            yield bytes(LARGE)

    async def stream_step(self, raw: bytes, call: Call) -> AsyncIterator[bytes]:
        """Gives what came, without waiting for anything."""
        self.seen.append(raw)
        yield raw

    async def gather(self, requests: AsyncIterator[bytes], call: Call) -> bytes:
        """Answers with all that came."""
        return b"".join([raw async for raw in requests])

    def service(self) -> Service:
        rows: list[tuple[str, Handler, MethodKind]] = [
            ("Echo", self.echo, MethodKind.UNARY),
            ("QuickEcho", self.echo, MethodKind.UNARY),
            ("Large", self.large, MethodKind.UNARY),
            ("Step", self.step, MethodKind.UNARY),
            ("LaterLarge", self.at_last, MethodKind.UNARY),
            ("Wait", self.wait, MethodKind.UNARY),
            ("Parked", self.park, MethodKind.UNARY),
            ("Room", self.room, MethodKind.UNARY),
            ("Late", self.late, MethodKind.UNARY),
            ("Gone", self.gone, MethodKind.UNARY),
            ("QuickLate", self.late, MethodKind.UNARY),
            ("Flood", self.flood, MethodKind.SERVER_STREAM),
            ("StreamStep", self.stream_step, MethodKind.SERVER_STREAM),
            ("Gather", self.gather, MethodKind.CLIENT_STREAM),
        ]
        shortcuts: dict[str, Shortcut] = {
            "QuickEcho": self.echo_shortcut,
            "QuickLate": self.late_shortcut,
        }
        return Service(
            "test.Service",
            tuple(
                Method(
                    *(name, pb.QueryByIdRequest, pb.QueryByIdResponse, handler, CallClass.QUERY),
                    parse=bytes,
                    serialize=bytes,
                    answer=bytes,
                    kind=kind,
                    request_size_max=1 << 20,
                    shortcut=shortcuts.get(name),
                    parks=name == "Parked",
                )
                for name, handler, kind in rows
            ),
            refuse,
        )


@pytest.fixture
async def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
async def pair(handlers: Handlers) -> Pair:
    return Pair(handlers.service())


# -- calls -----------------------------------------------------------------------------------------


async def test_calls_that_come_together_are_answered_by_one_write(pair: Pair) -> None:
    streams = [pair.begin("Echo") for _ in range(5)]
    for stream in streams:
        pair.send(stream, b"x%d" % stream)
    pair.server.data_received(pair.client.data_to_send())
    assert len(pair.wire.written) == 1
    pair.exchange()
    assert [pair.answers[stream].messages for stream in streams] == [[b"x%d" % s] for s in streams]
    assert {pair.answers[stream].status for stream in streams} == {"0"}


async def test_many_calls_in_one_read_are_served_in_turns(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TURN_S", 0.0)
    streams = [pair.begin("Echo") for _ in range(500)]
    for number, stream in enumerate(streams):
        pair.client.send_data(stream, b"\0\0\0\0\x64" + b"%03d" % number + bytes(97), True)
    pair.server.data_received(pair.client.data_to_send())
    served = len(handlers.seen)
    assert (0 < served < 300, pair.wire.reads) == (True, False)
    pair.server.pause_writing()
    await turns()
    assert len(handlers.seen) == served
    pair.server.resume_writing()
    await pair.settled()
    assert [int(raw[:3]) for raw in handlers.seen] == [*range(500)]
    assert (pair.wire.reads, len(streams)) == (True, len(handlers.seen))
    assert {pair.answers[stream].status for stream in streams} == {"0"}


async def test_large_calls_in_one_read_are_served_in_turns_too(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SPARSE_TURN_S", 0.0)
    for number in range(3):
        stream = pair.begin("Echo")
        for part in (b"\0\0\0\x3a\x98" + b"%d" % number + bytes(14_999 - 5), bytes(5)):
            pair.client.send_data(stream, part, part == bytes(5))
    pair.server.data_received(pair.client.data_to_send())
    served = len(handlers.seen)
    assert (served, pair.wire.reads) == (0, False)
    await pair.settled()
    assert [int(raw[:1]) for raw in handlers.seen] == [0, 1, 2]
    assert pair.wire.reads


async def test_answers_that_were_waited_for_are_written_together(
    pair: Pair, handlers: Handlers
) -> None:
    for _ in range(5):
        pair.call("Wait", b"")
    await pair.settled()
    handlers.go_on.set()
    await turns()
    assert len(pair.wire.written) == 1


async def test_a_request_in_pieces_is_served_when_it_is_whole(
    pair: Pair, handlers: Handlers
) -> None:
    stream = pair.begin("Echo")
    pair.exchange()
    pair.client.send_data(stream, b"\0\0\0\0\3a")
    pair.exchange()
    assert handlers.seen == []
    pair.client.send_data(stream, b"bc", end_stream=True)
    pair.exchange()
    assert handlers.seen == [b"abc"]


async def test_a_unary_call_has_one_request(pair: Pair) -> None:
    for messages in ([], [b"a", b"b"]):
        answer = pair.answers[pair.call("Echo", *messages)]
        assert answer.status == "3"  # INVALID_ARGUMENT


async def test_a_compressed_request_is_opened(pair: Pair) -> None:
    stream = pair.begin("Echo", ("grpc-encoding", "gzip"))
    pair.send(stream, gzip.compress(b"zipped"), flag=1)
    pair.exchange()
    assert pair.answers[stream].messages == [b"zipped"]


async def test_what_is_not_served_is_unimplemented(pair: Pair) -> None:
    assert pair.answers[pair.call("Nothing", b"")].status == "12"


async def test_no_time_left_ends_a_call_whatever_its_client_does(
    pair: Pair, handlers: Handlers
) -> None:
    stream = pair.call("Wait", b"", extra=[("grpc-timeout", "10m")])
    await until(lambda: bool(handlers.ended))
    await pair.settled()
    assert (pair.answers[stream].status, handlers.ended) == ("4", ["cancelled"])


@pytest.mark.parametrize("how", ["reset", "lost"])
async def test_a_client_that_goes_cancels_its_calls(
    pair: Pair, handlers: Handlers, how: str
) -> None:
    stream = pair.call("Wait", b"", extra=[("grpc-timeout", "1H")])
    await pair.settled()
    if how == "reset":
        pair.client.reset_stream(stream)
        pair.exchange()
    else:
        pair.lose()
    await turns()
    assert handlers.ended == ["cancelled"]
    assert not pair.server.calls
    assert pair.edge.serving.admission.inflight_count() == 0


async def test_what_a_call_waits_for_may_have_been_given_up_before(pair: Pair) -> None:
    streams = [pair.begin(name) for name in ("Echo", "Gone", "Echo")]
    for stream in streams:
        pair.send(stream, b"x")
    pair.exchange()
    await pair.settled()
    assert [pair.answers[stream].status for stream in streams] == ["0", "1", "0"]
    assert pair.edge.serving.admission.inflight_count() == 0


# -- replies that wait for a flush -----------------------------------------------------------------


LATE = pytest.mark.parametrize("name", ["Late", "QuickLate"])


@LATE
@pytest.mark.parametrize(("in_time", "answer"), [(True, b"sent"), (False, b"SENT")])
async def test_replies_that_wait_for_one_flush_are_written_together(
    pair: Pair, handlers: Handlers, name: str, in_time: bool, answer: bytes
) -> None:
    streams = [pair.call(name, b"sent") for _ in range(3)]
    await pair.settled()
    assert [pair.answers[stream].messages for stream in streams] == [[], [], []]
    assert pair.edge.serving.admission.inflight_count() == 3
    pair.wire.written.clear()
    handlers.flushed.set_result(in_time)
    await turns()
    assert len(pair.wire.written) == 1
    await pair.settled()
    assert [pair.answers[stream].messages for stream in streams] == [[answer]] * 3
    assert not pair.server.calls
    assert pair.edge.serving.admission.inflight_count() == 0


@LATE
async def test_a_flush_that_fails_fails_the_calls_that_wait_for_it(
    pair: Pair, handlers: Handlers, name: str
) -> None:
    stream = pair.call(name, b"sent")
    await pair.settled()
    handlers.flushed.set_exception(FsyncFailed(why="EIO"))
    await pair.settled()
    assert pair.answers[stream].status not in (None, "0")
    assert pair.answers[stream].messages == []
    assert not pair.server.calls


@LATE
@pytest.mark.parametrize("how", ["reset", "lost", "time"])
async def test_who_waits_no_more_for_a_flush_leaves_it_to_the_others(
    pair: Pair, handlers: Handlers, name: str, how: str
) -> None:
    timeout = "10m" if how == "time" else "1H"
    stream = pair.call(name, b"sent", extra=[("grpc-timeout", timeout)])
    await pair.settled()
    if how == "reset":
        pair.client.reset_stream(stream)
        pair.exchange()
    elif how == "lost":
        pair.lose()
    await until(lambda: not pair.server.calls)
    assert pair.edge.serving.admission.inflight_count() == 0
    assert not handlers.flushed.done()
    handlers.flushed.set_result(True)
    await turns()
    if how != "lost":
        await pair.settled()
        assert pair.answers[stream].messages == []
        assert pair.answers[stream].status == ("4" if how == "time" else None)


async def test_a_late_reply_can_be_awaited_and_given_up(handlers: Handlers) -> None:
    first, second = (asyncio.ensure_future(_of(handlers.group, name)) for name in (b"a", b"b"))
    await turns()
    first.cancel()
    await turns()
    handlers.flushed.set_result(True)
    assert await second == b"b"
    assert first.cancelled()


async def _of(group: FlushGroup, reply: bytes) -> bytes:
    return await Late(lambda: group, bytes.upper).reply(reply)


async def test_a_refused_call_asks_for_no_more_of_its_request(pair: Pair) -> None:
    gate = pair.edge.serving.admission.gate(CallClass.QUERY)
    gate.enter((), gate.limit)
    stream = pair.begin("Echo")
    pair.exchange()
    assert (pair.answers[stream].status, pair.answers[stream].reset_code) == ("8", 0)


# -- clients that do not read ----------------------------------------------------------------------


async def test_a_stream_of_answers_waits_for_its_client(pair: Pair, handlers: Handlers) -> None:
    pair.reads = False
    stream = pair.call("Flood", b"")
    await pair.settled()
    assert handlers.given < 5
    got = len(pair.answers[stream].raw)
    pair.reads = True
    while pair.answers[stream].status is None:
        pair.client.increment_flow_control_window(1 << 20)
        pair.client.increment_flow_control_window(1 << 20, stream)
        await pair.settled()
    assert len(pair.answers[stream].messages) == handlers.given == 100
    assert got < LARGE


async def test_many_streams_of_answers_together_wait_for_their_client(
    pair: Pair, handlers: Handlers
) -> None:
    pair.reads = False
    streams = [pair.call("Flood", b"") for _ in range(50)]
    await pair.settled()
    assert handlers.given < 8
    assert pair.edge.memory.unread < 2 << 20
    pair.client.reset_stream(streams[-1])  # one that waits
    for _ in range(200):
        for stream in streams[:-1]:
            pair.client.increment_flow_control_window(1 << 18, stream)
        pair.client.increment_flow_control_window(1 << 20)
        await pair.settled()
    assert all(len(pair.answers[one].messages) > 0 for one in streams[:-1])
    assert pair.edge.memory.unread < 2 << 20


async def test_calls_wait_while_their_client_has_much_to_read(
    pair: Pair, handlers: Handlers
) -> None:
    pair.reads = False
    streams = [pair.call("Large", b"") for _ in range(40)]
    assert handlers.given < 10
    pair.client.reset_stream(streams[-1])  # one that waits
    for stream in streams[:-1]:
        pair.client.increment_flow_control_window(LARGE, stream)
    while handlers.given < 39:
        pair.client.increment_flow_control_window(1 << 20)
        pair.exchange()
    pair.client.increment_flow_control_window(1 << 24)
    pair.exchange()
    assert all(len(pair.answers[s].messages) == 1 for s in streams[:-1])
    assert handlers.given == 39


async def test_calls_that_wait_and_are_taken_back_keep_nothing(
    pair: Pair, handlers: Handlers
) -> None:
    pair.reads = False
    while pair.edge.memory.unread < 1 << 20:
        pair.call("Large", b"")
    tracemalloc.start()
    try:
        for _ in range(300):
            stream = pair.call("Echo", bytes(16_000))
            pair.client.reset_stream(stream)
            pair.exchange()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert handlers.seen == []
    assert kept < 1_000_000


async def test_while_the_socket_takes_no_more_nothing_is_read_or_begun(
    pair: Pair, handlers: Handlers
) -> None:
    pair.server.pause_writing()
    assert not pair.wire.reads
    pair.call("Echo", b"x")
    assert handlers.seen == []
    pair.server.resume_writing()
    pair.exchange()
    assert handlers.seen == [b"x"]


async def test_large_answers_find_no_room_where_all_clients_keep_too_much(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STALLED_S", 0.2)
    pair.reads = False
    pair.edge.memory.unread_max = LARGE * 2 // 3
    waiting = pair.call("Wait", b"large")
    await pair.settled()
    pair.call("Large", b"")
    pair.call("Large", b"")
    assert handlers.given == 1
    handlers.go_on.set()
    await pair.settled()
    assert pair.answers[waiting].status == "8"
    assert pair.edge.memory.unread > LARGE * 2 // 3
    await until(lambda: pair.wire.is_aborted)  # It read nothing for so long.
    assert pair.edge.memory.unread == 0


async def test_who_keeps_little_is_answered_while_others_keep_too_much(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "UNREAD_FACTOR", 4)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    edge.memory.unread_max = 150_000
    greedy, modest = Pair(edge=edge), Pair(edge=edge)
    greedy.reads = False
    stream = modest.call("Wait", b"large")
    await modest.settled()
    greedy.call("Large", b"")
    assert edge.memory.unread > edge.memory.unread_max
    handlers.go_on.set()
    await modest.settled()
    assert modest.answers[stream].status == "0"
    assert not greedy.wire.is_aborted


async def test_who_keeps_most_unread_is_cut_off_when_all_together_keep_far_too_much(
    handlers: Handlers,
) -> None:
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    edge.memory.unread_max = 200_000
    pairs = [Pair(edge=edge) for _ in range(5)]
    for one in pairs:
        one.reads = False
        one.call("Large", b"")
    assert [one.wire.is_aborted for one in pairs].count(True) == 4
    assert edge.memory.unread <= 2 * edge.memory.unread_max


@pytest.mark.parametrize("name", ["Large", "LaterLarge"])
async def test_of_who_is_cut_off_no_further_call_is_begun(
    pair: Pair, handlers: Handlers, name: str
) -> None:
    pair.edge.memory.unread_max = LARGE // 4
    for one in (name, "Echo", "Large", "Wait"):
        pair.send(pair.begin(one), b"")
    pair.server.data_received(pair.client.data_to_send())
    assert not pair.server.is_open
    await turns()
    assert (handlers.given, handlers.seen, handlers.ended) == (1, [], [])
    assert pair.server.wire.pending == Connection().pending
    assert pair.edge.serving.admission.inflight_count() == 0


async def test_who_reads_a_little_now_and_then_is_cut_off_too(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STALLED_S", 0.2)
    pair.reads = False
    pair.edge.memory.unread_max = LARGE * 2 // 3
    pair.call("Large", b"")
    for _ in range(20):
        pair.client.ping(b"12345678")
        pair.client.increment_flow_control_window(1)
        pair.exchange()
    assert pair.server.is_open
    await until(lambda: pair.wire.is_aborted)
    assert pair.edge.memory.unread == 0


async def test_the_client_with_most_unfinished_requests_is_cut_off(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 60_000)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    small, large = Pair(edge=edge), Pair(edge=edge)
    for one, size in ((small, 15_000), (large, 30_000), (large, 30_000)):
        stream = one.begin("Echo")
        one.client.send_data(stream, b"\0\0\1\0\0" + bytes(16_000 if size > 16_000 else size))
        one.client.send_data(stream, bytes(max(0, size - 16_000)))
        one.exchange()
    assert (small.wire.is_aborted, large.wire.is_aborted) == (False, True)
    assert edge.memory.held == small.server.held < 18_000
    assert [record.getMessage() for record in caplog.records] == ["rpc.cut_off"]
    small.lose()
    assert edge.memory.held == 0


def upload(pair: Pair, size: int) -> None:
    """Sends so many bytes of a request that is not whole then."""
    stream = pair.begin("Echo")
    pair.client.send_data(stream, b"\0" + (1 << 20).to_bytes(4, "big"))
    while size > 0:
        pair.client.send_data(stream, bytes(min(size, 16_000)))
        size -= 16_000
        pair.exchange()


async def test_who_rests_on_little_is_cut_off_before_who_goes_on_with_much(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 300_000)
    now_s = 0.0
    edge = ServerState(
        asyncio.get_running_loop(), Serving([handlers.service()]), lambda: 1e9 + now_s
    )
    idle = [Pair(edge=edge) for _ in range(9)]
    for one in idle:
        upload(one, 16_000)
    now_s = 20.0
    large = Pair(edge=edge)
    upload(large, 200_000)
    assert [one.wire.is_aborted for one in idle].count(True) == 4
    assert not large.wire.is_aborted


async def test_of_those_who_go_on_who_holds_most_is_cut_off(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 100_000)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]), lambda: 1e9)
    small, large = Pair(edge=edge), Pair(edge=edge)
    upload(small, 32_000)
    upload(large, 96_000)
    assert (small.wire.is_aborted, large.wire.is_aborted) == (False, True)


async def test_metadata_and_calls_that_were_only_begun_count_too(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 400_000)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    listing, modest = Pair(edge=edge), Pair(edge=edge)
    for n in range(50):
        listing.begin("Echo", (f"x-{n}", "v" * 5_000))
        modest.call("Wait", b"")
    listing.exchange()
    await until(lambda: edge.memory.held > 250_000)  # A long read is taken in turns.
    assert edge.memory.held < 350_000
    await modest.settled()
    many = Pair(edge=edge)
    for _ in range(100):
        many.begin("Echo")
    many.exchange()
    await until(lambda: listing.wire.is_aborted or many.wire.is_aborted)
    assert (listing.wire.is_aborted, many.wire.is_aborted) == (True, False)
    await until(lambda: many.server.held > 100_000)
    assert many.server.held < 110_000
    assert edge.memory.held < 120_000
    assert modest.server.held < 10_000


async def test_requests_that_do_not_go_on_are_given_up(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LOOK_S", 0.02)
    upload(pair, 50_000)
    waiting = pair.call("Wait", b"")

    def is_given_up() -> bool:
        pair.exchange()
        return pair.answers[1].status is not None

    await until(is_given_up)
    assert pair.answers[1].status == "4"  # DEADLINE_EXCEEDED
    assert pair.edge.memory.held < 1_000
    handlers.go_on.set()
    await pair.settled()
    assert pair.answers[waiting].status == "0"


async def test_the_log_names_one_of_many_that_are_cut_off(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 50_000)
    now_s = 1e9
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]), lambda: now_s)
    for _ in range(9):
        upload(Pair(edge=edge), 60_000)
    now_s += memory.QUIET_S
    upload(Pair(edge=edge), 60_000)
    assert not edge.connections
    assert [record.__dict__["left_out"] for record in caplog.records] == [0, 8]


async def test_the_log_tells_of_all_that_are_cut_off_though_no_other_follows(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "HELD_MAX", 50_000)
    monkeypatch.setattr(memory, "QUIET_S", 0.02)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    for _ in range(5):
        upload(Pair(edge=edge), 60_000)
    await until(lambda: sum(1 + one.__dict__["left_out"] for one in caplog.records) == 5)


async def test_answers_that_are_being_made_leave_less_room_for_others(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "REPLY_MAX", 30_000)
    monkeypatch.setattr(memory, "TIGHT_REPLY_MAX", 10_000)
    pair.edge.memory.unread_max = 100_000
    for number in range(3):
        pair.call("Room", b"%d" % number)
    await pair.settled()
    assert handlers.rooms == [80_000, 30_000, 10_000]
    assert pair.edge.memory.reserved == 120_000
    pair.client.reset_stream(1)
    pair.exchange()
    await pair.settled()
    assert pair.edge.memory.reserved == 40_000
    handlers.go_on.set()
    await pair.settled()
    assert pair.edge.memory.reserved == 0
    pair.call("Room", b"now")
    assert (handlers.rooms[3:], pair.edge.memory.reserved) == ([80_000, 500], 0)


async def test_who_reads_on_for_a_call_that_is_over_sets_nothing_aside(
    pair: Pair, handlers: Handlers
) -> None:
    stream = pair.call("Room", b"0")
    await pair.settled()
    assert pair.edge.memory.reserved == 80_000
    pair.client.reset_stream(stream)
    pair.exchange()
    await pair.settled()
    assert handlers.last is not None
    assert (handlers.last.room(70_000), pair.edge.memory.reserved) == (70_000, 0)


async def test_a_large_answer_that_is_there_at_once_needs_room_too(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "REPLY_MAX", 10_000)
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    edge.memory.unread_max = LARGE * 2 // 3
    greedy, other = Pair(edge=edge), Pair(edge=edge)
    greedy.reads = False
    greedy.call("Large", b"")
    assert other.answers[other.call("Large", b"")].status == "8"
    assert edge.memory.unread < LARGE
    assert other.answers[other.call("Echo", b"x")].messages == [b"x"]


# -- turns of the loop -----------------------------------------------------------------------------


def give_time(edge: ServerState, seconds: float) -> None:
    """Sets the time of the turn that begins now, and of those after it."""
    edge.turn_s = seconds
    edge.begin_turn()


async def test_connections_share_the_time_of_a_turn(handlers: Handlers) -> None:
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    pairs = [Pair(edge=edge) for _ in range(4)]
    give_time(edge, 0.0)
    sizes = (20_000, 20_000, 100, 40_000)
    for one, size in zip(pairs, sizes, strict=True):
        stream = one.begin("Echo")
        one.client.send_data(stream, b"\0" + (size).to_bytes(4, "big") + bytes(size)[:16_000])
        one.client.send_data(stream, bytes(max(size - 16_000, 0))[:16_000])
        one.client.send_data(stream, bytes(max(size - 32_000, 0)), end_stream=True)
        one.server.data_received(one.client.data_to_send())
    assert handlers.seen == []
    assert all(one.server.is_busy for one in pairs)
    counts = [0]
    while counts[-1] < 4:
        await turns(1)
        counts.append(len(handlers.seen))
    assert max(after - before for before, after in pairwise(counts)) == 1
    assert sorted(map(len, handlers.seen)) == sorted(sizes)


async def test_who_says_little_does_not_wait_for_who_says_much(handlers: Handlers) -> None:
    edge = ServerState(asyncio.get_running_loop(), Serving([handlers.service()]))
    much, more, little = (Pair(edge=edge) for _ in range(3))
    give_time(edge, 0.0)
    much.send(much.begin("Echo"), bytes(9_000))
    much.server.data_received(much.client.data_to_send())
    give_time(edge, 60.0)
    for one, size in ((more, 9_000), (little, 100)):
        one.send(one.begin("Echo"), bytes(size))
        one.server.data_received(one.client.data_to_send())
    assert [len(raw) for raw in handlers.seen] == [100]
    await turns()
    assert [len(raw) for raw in handlers.seen] == [100, 9_000, 9_000]


async def test_while_many_wait_little_is_read_of_them(pair: Pair, handlers: Handlers) -> None:
    give_time(pair.edge, 0.0)
    for _ in range(6):
        stream = pair.begin("Echo")
        pair.send(stream, bytes(15_000))
        pair.server.data_received(pair.client.data_to_send())
    assert (handlers.seen, pair.wire.reads) == ([], False)
    await until(lambda: len(handlers.seen) == 6)
    assert pair.wire.reads


async def test_many_large_answers_are_made_in_turns(pair: Pair, handlers: Handlers) -> None:
    pair.client.increment_flow_control_window(1 << 24)
    pair.exchange()
    await turns()
    pair.edge.turn_s = -1.0  # over when the first one is there
    streams = [pair.begin("Large") for _ in range(5)]
    for stream in streams:
        pair.send(stream, b"")
        pair.client.increment_flow_control_window(1 << 20, stream)
    pair.server.data_received(pair.client.data_to_send())
    made = [handlers.given]
    while handlers.given < 5:
        await turns(1)
        made.append(handlers.given)
    assert made[0] <= 1
    assert max(after - before for before, after in pairwise(made)) == 1
    await pair.settled()
    assert {pair.answers[stream].status for stream in streams} == {"0"}


@pytest.mark.parametrize(
    ("name", "most"),
    [("Step", 1), pytest.param("StreamStep", 2, id="also when the answers before are written")],
)
async def test_steps_that_take_long_are_made_in_turns(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr("pocketmq.rpc.own.call.UNCOUNTED_S", -1.0)
    pair.edge.turn_s = -1.0  # over when the first one is made
    streams = [pair.begin(name) for _ in range(5)]
    for stream in streams:
        pair.send(stream, b"%d" % stream)
    pair.server.data_received(pair.client.data_to_send())
    made = [len(handlers.seen)]
    while made[-1] < 5:
        await turns(1)
        made.append(len(handlers.seen))
    assert max(after - before for before, after in pairwise([0, *made])) == most
    await pair.settled()
    assert [pair.answers[stream].messages for stream in streams] == [[b"%d" % s] for s in streams]


async def test_tasks_of_one_read_make_their_first_steps_in_turns(
    pair: Pair, handlers: Handlers
) -> None:
    pair.edge.turn_s = 0.0
    streams = [pair.begin("Parked") for _ in range(40)]
    for stream in streams:
        pair.send(stream, b"%d" % stream)
    pair.server.data_received(pair.client.data_to_send())
    made = [len(handlers.seen)]
    while made[-1] < 40:
        await turns(1)
        made.append(len(handlers.seen))
    assert max(after - before for before, after in pairwise(made)) <= 8
    await pair.settled()
    assert [pair.answers[stream].messages for stream in streams] == [[b"%d" % s] for s in streams]


@pytest.mark.parametrize("name", ["Echo", "QuickEcho", "Step"])
async def test_calls_that_wait_are_not_overtaken(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("pocketmq.rpc.own.call.UNCOUNTED_S", -1.0)
    pair.edge.turn_s = -1.0  # over when the first step is made
    for number, one in enumerate(("Step", "Step", name, name)):
        pair.send(pair.begin(one), b"%d" % number)
    pair.server.data_received(pair.client.data_to_send())
    await turns(1)
    assert handlers.seen == [b"0", b"1"]
    pair.edge.turn_s = 60.0
    pair.edge.begin_turn()
    pair.send(pair.begin(name), b"4")
    pair.server.data_received(pair.client.data_to_send())
    await turns()
    assert handlers.seen == [b"%d" % number for number in range(5)]


async def test_a_connection_that_ends_while_it_waits_is_left_out(
    pair: Pair, handlers: Handlers
) -> None:
    give_time(pair.edge, 0.0)
    stream = pair.begin("Echo")
    pair.send(stream, b"x")
    pair.server.data_received(pair.client.data_to_send())
    pair.lose()
    await turns()
    assert handlers.seen == []


# -- its life --------------------------------------------------------------------------------------


async def test_a_connection_that_drains_ends_with_its_last_call(
    pair: Pair, handlers: Handlers
) -> None:
    stream = pair.call("Wait", b"")
    await pair.settled()
    pair.server.drain()
    pair.exchange()
    assert len(pair.goaways) == 2  # The second one once the client has answered the ping.
    assert not pair.wire.is_closed
    handlers.go_on.set()
    await pair.settled()
    pair.client.increment_flow_control_window(1 << 20)
    pair.exchange()
    assert pair.answers[stream].status == "0"
    assert pair.wire.is_closed


async def test_a_broken_peer_is_told_so_and_closed(pair: Pair, handlers: Handlers) -> None:
    pair.call("Wait", b"")
    await pair.settled()
    pair.server.data_received(b"\0\0\0\0\0\0\0\0\0")  # DATA on stream 0
    assert pair.wire.is_closed
    pair.exchange()
    assert [event.error_code for event in pair.goaways] == [1]
    handlers.go_on.set()
    await pair.settled()  # Its answer goes nowhere.


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_LOOK_S", 0.02)
    monkeypatch.setattr(server, "KEEPALIVE_S", 0.02)
    monkeypatch.setattr(server, "KEEPALIVE_TIMEOUT_S", 0.02)


@pytest.mark.usefixtures("_hasty")
async def test_a_silent_client_is_pinged_and_stays_if_it_answers(pair: Pair) -> None:
    Lifetime(pair.server, idle_ms=0, age_ms=0)
    while pair.pings < 3:
        await asyncio.sleep(0)
        pair.exchange()
    assert not pair.wire.is_closed
    await until(lambda: pair.wire.is_aborted)  # It answers no more.
    assert not pair.edge.connections


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("limit", [{"age_ms": 30, "idle_ms": 0}, {"age_ms": 0, "idle_ms": 30}])
async def test_an_old_or_idle_connection_is_drained(pair: Pair, limit: Any) -> None:
    pair.call("Echo", b"")
    Lifetime(pair.server, **limit)
    while not pair.wire.is_closed:
        await asyncio.sleep(0)
        if not pair.wire.is_closed:
            pair.exchange()
    assert pair.server.is_draining


@pytest.mark.usefixtures("_hasty")
async def test_a_call_without_end_ends_with_its_old_connection(
    pair: Pair, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AGE_GRACE_S", 0.05)
    stream = pair.call("Wait", b"")
    Lifetime(pair.server, idle_ms=0, age_ms=30)
    while not pair.wire.is_closed:
        await asyncio.sleep(0)
        if not pair.wire.is_closed:
            pair.exchange()
    pair.exchange()
    assert (pair.answers[stream].status, handlers.ended) == ("14", ["cancelled"])
    assert len(pair.goaways) == 2
    assert not pair.wire.is_aborted


@pytest.mark.usefixtures("_hasty")
async def test_an_old_connection_whose_client_reads_nothing_is_cut_off(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AGE_GRACE_S", 0.05)
    pair.reads = False
    pair.call("Large", b"")
    Lifetime(pair.server, idle_ms=0, age_ms=30)
    while not pair.wire.is_aborted:
        await asyncio.sleep(0)
        pair.client.ping(b"12345678")
        pair.exchange()
    assert pair.edge.memory.unread == 0


async def test_streams_of_requests_that_have_only_begun_count_as_held(
    pair: Pair, handlers: Handlers
) -> None:
    streams = [pair.begin("Gather") for _ in range(100)]
    pair.exchange()
    await pair.settled()
    assert pair.server.held >= 100 * connection.SILENT_SIZE
    pair.send(streams[0], b"a", ends=False)
    for stream in streams[1:]:
        pair.client.reset_stream(stream)
    pair.exchange()
    await pair.settled()
    assert pair.server.silent_count == 0
    assert pair.server.held < connection.SILENT_SIZE
