"""A classic client's connection: pieces, order, limits, errors, drain and end."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from pocketmq.model.errors import Draining, GroupNotFound
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.classic.status import refuse
from pocketmq.rpc.own import remoting_connection
from pocketmq.rpc.own.server_state import ServerState
from pocketmq.rpc.service import ANY_CODE, REMOTING, Method, Service
from pocketmq.rpc.serving import ServedMethod, Serving
from pocketmq.wire.remoting import BINARY, RESPONSE, Command, encode
from tests.kit.remoting_pair import RemotingPair

ECHO, WAIT, FAIL, PARK, BREAK = 1, 2, 3, 4, 5


class Desk:
    """Handlers of a few codes, and what they were asked."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[Command]] = []
        self.undone = 0

    def echo(self, request: Command, call: Any) -> Command:
        return Command(0, request.fields, request.body)

    async def wait(self, request: Command, call: Any) -> Command:
        call.if_lost(self.undo)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return await future

    def undo(self) -> None:
        self.undone += 1

    def fail(self, request: Command, call: Any) -> Awaitable[Command]:
        raise GroupNotFound(group=request.body.decode("ascii", "surrogateescape") or "g")

    def crash(self, request: Command, call: Any) -> Command:
        raise KeyError("a defect")

    def service(self) -> Service:
        def made(number: int, handler: Any, kind: CallClass = CallClass.SEND) -> Method:
            return Method(
                f"M{number}", Command, Command, handler, kind, number=number, parse=lambda one: one,
                serialize=encode, request_size_max=1_000,
            )  # fmt: skip

        methods = (
            made(ECHO, self.echo), made(WAIT, self.wait), made(FAIL, self.fail),
            made(PARK, self.wait, CallClass.POLL), made(BREAK, self.crash),
            made(ANY_CODE, self.fail, CallClass.QUERY),
        )  # fmt: skip
        return Service("remoting", methods, refuse, REMOTING)


def reads(client: RemotingPair) -> bool:
    """Returns whether the server reads."""
    return client.wire.reads


def is_closed(client: RemotingPair) -> bool:
    """Returns whether the server has closed the connection."""
    return client.wire.is_closed


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def client(desk: Desk) -> RemotingPair:
    return RemotingPair(desk.service())


async def test_replies_have_number_and_serialization_of_their_requests(
    client: RemotingPair,
) -> None:
    reply = await client.ask(ECHO, {"größe": "1"}, b"body", serialization=BINARY)
    assert (reply.fields, reply.body, reply.serialization) == ({"größe": "1"}, b"body", BINARY)
    assert (await client.ask(ECHO)).serialization != BINARY
    client.lose()


async def test_requests_of_one_read_are_answered_with_one_write(
    client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_connection, "TURN_S", 60.0)
    requests = [Command(ECHO, opaque=number) for number in range(50)]
    client.server.data_received(b"".join(map(encode, requests)))
    assert len(client.wire.written) == 1
    client.take()
    assert [*client.replies] == [*range(50)]
    client.lose()


async def test_bytes_in_pieces_are_as_good(client: RemotingPair) -> None:
    raw = encode(Command(ECHO, body=bytes(500), opaque=1))
    for begin in range(0, len(raw), 7):
        client.feed(raw[begin : begin + 7])
    assert client.replies[1].body == bytes(500)
    assert client.edge.memory.held == 0
    client.lose()


async def test_a_slow_request_delays_no_other(desk: Desk, client: RemotingPair) -> None:
    slow, quick = client.send(WAIT), client.send(ECHO)
    assert quick in client.replies
    desk.waiting[0].set_result(Command(0))
    await client.settled()
    assert slow in client.replies
    assert client.edge.serving.admission.inflight_count() == 0
    client.lose()


@pytest.mark.parametrize(("code", "answer"), [(FAIL, 26), (BREAK, 1), (77, 26)])
async def test_errors_have_code_remark_and_request_id(
    client: RemotingPair, code: int, answer: int
) -> None:
    reply = await client.ask(code)
    assert reply.code == answer
    assert reply.remark
    assert "defect" not in reply.remark
    assert reply.fields["x-request-id"]
    client.lose()


async def test_an_answer_that_cannot_be_encoded_is_an_error_and_undone(
    desk: Desk, client: RemotingPair
) -> None:
    broken, next_one = client.send(WAIT), client.send(ECHO)
    desk.waiting[0].set_result(Command(0, {"name": "\ud800"}))
    await client.settled()
    assert (client.replies[broken].code, desk.undone) == (1, 1)
    assert next_one in client.replies
    client.lose()


async def test_an_error_may_quote_what_cannot_be_encoded(client: RemotingPair) -> None:
    reply = await client.ask(FAIL, {}, b"\xff")
    assert (reply.code, "\\udcff" in reply.remark) == (26, True)
    client.lose()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_effects_that_cannot_be_undone_leave_no_call_behind(
    desk: Desk,
    client: RemotingPair,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_cancelled: bool,
) -> None:
    monkeypatch.setattr(desk, "undo", lambda: next(iter(())))
    number = client.send(WAIT)
    if is_cancelled:
        desk.waiting[0].cancel()
    else:
        desk.waiting[0].set_exception(GroupNotFound(group="g"))
    await client.settled()
    assert [record.message for record in caplog.records] == ["rpc.failed"]
    assert client.replies[number].code == (14 if is_cancelled else 26)
    assert not client.server.is_busy
    assert client.edge.serving.admission.inflight_count() == 0
    client.lose()


async def test_an_error_without_a_form_is_told_as_a_defect(
    client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupNotFound, "message", "{unknown}")
    reply = await client.ask(FAIL)
    assert (reply.code, "unknown" in reply.remark) == (1, False)
    client.lose()


@pytest.mark.parametrize("code", [FAIL, WAIT])
async def test_a_client_that_cannot_be_told_of_an_error_is_disconnected(
    desk: Desk, client: RemotingPair, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(ServedMethod, "shown", lambda *_: Command(1, {"name": "\ud800"}, remark=""))
    other = client.send(WAIT)
    client.send(code)
    if code == WAIT:
        desk.waiting[1].set_exception(GroupNotFound(group="g"))
    await client.settled()
    assert client.wire.is_aborted
    assert other not in client.replies
    assert desk.waiting[0].cancelled()
    assert not client.edge.connections
    assert client.edge.serving.admission.inflight_count() == 0


async def test_a_call_whose_handler_is_cancelled_is_answered(
    desk: Desk, client: RemotingPair
) -> None:
    parked = client.send(PARK)
    desk.waiting[0].cancel()
    await client.settled()
    reply = client.replies[parked]
    assert (reply.code, reply.remark, desk.undone) == (14, str(Draining()), 1)
    client.lose()


async def test_a_one_way_request_to_a_client_that_cannot_be_encoded_is_not_sent(
    client: RemotingPair, caplog: pytest.LogCaptureFixture
) -> None:
    assert not client.server.tell(Command(40, {"consumerGroup": "\ud800"}))
    assert client.server.tell(Command(40, {"consumerGroup": "g"}))
    await client.settled()
    assert [one.code for one in client.asked] == [40]
    assert [record.message for record in caplog.records] == ["rpc.connection_failed"]
    client.lose()


async def test_all_learn_of_a_lost_connection_even_if_one_of_them_fails(
    client: RemotingPair, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[str] = []
    client.server.when_gone(lambda: next(iter(())))
    client.server.when_gone(lambda: ends.append("gone"))
    client.lose()
    assert ends == ["gone"]
    assert [record.message for record in caplog.records] == ["rpc.connection_failed"]


async def test_a_request_to_a_client_that_cannot_be_encoded_waits_for_no_reply(
    client: RemotingPair,
) -> None:
    with pytest.raises(UnicodeEncodeError):
        await client.server.ask(Command(ECHO, {"name": "\ud800"}))
    assert not client.server._asked
    client.lose()


async def test_a_body_above_the_limit_of_its_code_is_refused_and_the_next_served(
    client: RemotingPair,
) -> None:
    large, small = client.send(ECHO, {}, bytes(1_001)), client.send(ECHO, {}, bytes(1_000))
    assert (client.replies[large].code, "1001 bytes" in client.replies[large].remark) == (1, True)
    assert client.replies[small].body == bytes(1_000)
    client.lose()


async def test_bytes_that_are_no_command_end_the_connection(
    desk: Desk, client: RemotingPair
) -> None:
    client.send(WAIT)
    client.feed(b"GET / HTTP/1.1\r\n\r\n")
    await client.settled()
    assert client.wire.is_aborted
    assert desk.waiting[0].cancelled()
    assert not client.edge.connections


async def test_a_lost_connection_cancels_its_calls_but_no_one_way_request(
    desk: Desk, client: RemotingPair
) -> None:
    client.send(WAIT)
    client.send(WAIT, flag=2)
    client.lose()
    await client.settled()
    assert [one.cancelled() for one in desk.waiting] == [True, False]
    assert desk.undone == 1
    assert client.edge.connections  # A stop waits for the other one.
    desk.waiting[1].set_result(Command(0))
    await client.settled()
    assert not client.edge.connections
    assert desk.undone == 2
    assert client.edge.serving.admission.inflight_count() == 0


async def test_a_one_way_poll_ends_with_its_connection(desk: Desk, client: RemotingPair) -> None:
    client.send(PARK, flag=2)
    client.lose()
    await client.settled()
    assert desk.waiting[0].cancelled()
    assert (desk.undone, client.edge.serving.admission.inflight_count()) == (1, 0)
    assert not client.edge.connections


async def test_no_request_begins_while_too_many_are_in_progress(
    desk: Desk, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_connection, "CALLS_MAX", 2)
    for _ in range(5):
        client.send(PARK)  # Parked pulls do not count.
    assert len(desk.waiting) == 5
    for _ in range(4):
        client.send(WAIT)
    assert len(desk.waiting) == 7
    assert not reads(client)
    for future in desk.waiting[5:]:
        future.set_result(Command(0))
    await client.settled()
    assert len(desk.waiting) == 9
    assert reads(client)
    client.lose()


async def test_no_request_begins_while_too_many_bytes_are_in_progress(
    desk: Desk, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_connection, "BODIES_MAX", 1_500)
    for _ in range(4):
        client.send(WAIT, {}, bytes(1_000))
    assert len(desk.waiting) == 1
    assert client.edge.memory.held >= 4_000
    desk.waiting[0].set_result(Command(0))
    await client.settled()
    assert len(desk.waiting) == 2
    client.lose()
    await client.settled()
    assert client.edge.memory.held == 0


async def test_a_large_body_does_not_wait_for_a_parked_pull(
    desk: Desk, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_connection, "BODIES_MAX", 500)
    client.send(PARK)
    large = client.send(ECHO, {}, bytes(1_000))
    assert len(client.replies[large].body) == 1_000
    client.lose()


async def test_a_clients_reply_does_not_wait_for_requests_in_progress(
    desk: Desk, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoting_connection, "BODIES_MAX", 500)
    client.send(WAIT)
    question = client.server.ask(Command(307))
    await client.settled()
    (asked,) = client.asked
    client.put(Command(0, {}, bytes(1_000), asked.opaque, RESPONSE))
    await client.settled()
    assert len(question.result().body) == 1_000
    client.lose()


async def test_a_client_that_does_not_read_is_not_read_from(client: RemotingPair) -> None:
    client.wire.protocol = client.server
    for number in range(10):
        client.server.data_received(encode(Command(ECHO, body=bytes(900), opaque=number)))
    assert len(client.wire.written) == 1
    assert not reads(client)
    assert client.edge.memory.unread > 900
    client.wire.protocol = None
    client.take()
    client.server.resume_writing()
    await client.settled()
    assert len(client.replies) == 10
    assert client.edge.memory.unread == 0
    assert reads(client)
    client.lose()


async def test_a_drained_connection_closes_once_it_is_idle(
    desk: Desk, client: RemotingPair
) -> None:
    client.send(WAIT)
    client.server.drain()
    assert not is_closed(client)
    late = client.send(ECHO)
    assert late in client.replies
    desk.waiting[0].set_result(Command(0))
    await client.settled()
    assert is_closed(client)
    assert not client.wire.is_aborted
    client.lose()


async def test_a_connection_that_came_during_a_drain_has_one_request_served(desk: Desk) -> None:
    edge = ServerState(asyncio.get_running_loop(), Serving([desk.service()]))
    edge.turn_away()
    client = RemotingPair(edge=edge)
    assert not is_closed(client)
    assert client.send(ECHO) in client.replies
    assert is_closed(client)
    client.lose()


async def test_while_a_stop_drains_sends_are_refused_with_14(
    desk: Desk, client: RemotingPair
) -> None:
    client.edge.serving.drain()
    reply = await client.ask(ECHO)
    assert (reply.code, reply.remark) == (14, str(Draining()))
    client.lose()


async def test_a_full_class_is_answered_with_busy(desk: Desk) -> None:
    serving = Serving([desk.service()], {**DEFAULT_LIMITS, CallClass.SEND: 4})
    client = RemotingPair(edge=ServerState(asyncio.get_running_loop(), serving))
    sent = [client.send(WAIT) for _ in range(6)]
    assert [client.replies[one].code for one in sent if one in client.replies] == [2] * (
        6 - len(desk.waiting)
    )
    assert len(desk.waiting) <= 4
    client.lose()
    await client.settled()


async def test_the_end_of_reads_cancels_calls_that_store_nothing(
    desk: Desk, client: RemotingPair
) -> None:
    client.send(WAIT)
    client.server.end_reads()
    await client.settled()
    assert not desk.waiting[0].cancelled()
    assert client.server.is_storing
    client.lose()
    await client.settled()
    assert not client.server.is_storing


async def test_an_unfinished_request_without_progress_ends_the_connection(
    client: RemotingPair,
) -> None:
    raw = encode(Command(ECHO, body=bytes(900)))
    client.feed(raw[:500])
    client.server.give_up_stalled()
    client.feed(raw[500:600])
    client.server.give_up_stalled()
    assert client.server.is_open
    client.server.give_up_stalled()
    assert client.wire.is_aborted


async def test_the_broker_asks_and_tells_its_client(client: RemotingPair) -> None:
    ends: list[str] = []
    forget = client.server.when_gone(lambda: ends.append("forgotten"))
    client.server.when_gone(lambda: ends.append("gone"))
    forget()
    assert client.server.tell(Command(40, {"consumerGroup": "g"}))
    future = client.server.ask(Command(307))
    lost = client.server.ask(Command(307))
    await client.settled()
    told, first, _ = client.asked
    assert (told.code, told.is_one_way, first.code, first.is_one_way) == (40, True, 307, False)
    client.put(Command(0, body=b"{}", opaque=first.opaque, flag=1), Command(0, opaque=999, flag=1))
    assert (await future).body == b"{}"
    client.lose()
    with pytest.raises(ConnectionResetError):
        await lost
    with pytest.raises(ConnectionResetError):
        await client.server.ask(Command(307))
    assert ends == ["gone"]
    assert not client.server.tell(Command(40))


class FakeDeadlines:
    """Deadlines that a test makes due."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def after(self, seconds: float, call_back: Any) -> int:
        self.due.append((seconds, call_back))
        return 0

    def add(self, at_s: float, call_back: Any) -> int:
        return 0


class Timed(RemotingPair):
    """A client of a server whose time a test advances."""

    def __init__(self, desk: Desk, **own: int) -> None:
        self.now_s = 1_000.0
        loop, serving = asyncio.get_running_loop(), Serving([desk.service()])
        edge = ServerState(loop, serving, lambda: self.now_s)
        self.deadlines: Any = FakeDeadlines()
        setattr(edge, "deadlines", self.deadlines)  # noqa: B010 - another type
        super().__init__(edge=edge, **own)

    def wait(self) -> None:
        """Advances the time to the next check of the connection."""
        seconds, look = self.deadlines.due.pop()
        self.now_s += seconds
        look()


async def test_a_silent_connection_is_closed_and_a_heard_one_is_not(desk: Desk) -> None:
    client = Timed(desk)
    for _ in range(6):
        client.send(ECHO)
        client.wait()
        assert client.server.is_open
    for _ in range(3):
        client.wait()
    assert client.server.is_open
    client.wait()
    assert client.wire.is_aborted


async def test_an_old_connection_closes_when_it_is_idle_and_later_at_once(desk: Desk) -> None:
    client = Timed(desk, age_ms=100_000)
    client.send(WAIT)
    for _ in range(4):
        client.wait()
        client.send(ECHO)
    assert client.server.is_draining
    assert not is_closed(client)
    client.wait()
    client.send(ECHO)
    client.wait()
    client.send(ECHO)
    client.wait()
    assert client.wire.is_aborted
    await client.settled()
    assert desk.waiting[0].cancelled()
