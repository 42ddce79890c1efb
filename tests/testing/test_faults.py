"""Faults around services: which calls they hit, and what becomes of those."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.model.errors import BrokerError, Code
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import MalformedRequest, Service, method, refuse_plainly
from pocketmq.rpc.v1.service_table import BROKER
from pocketmq.rpc.v2.service_table import MESSAGING, NAME
from pocketmq.rpc.v2.status import refuse
from pocketmq.testing.controlled import MovableClock
from pocketmq.testing.faults import OWN, CallFault, Faults, FillableDisk, injected_error
from tests.kit.call import FakeCall

SENT = pb.SendMessageRequest()
RECEIVED = [pb.ReceiveMessageResponse(), pb.ReceiveMessageResponse()]


class Faulty:
    """A service with a unary method, a stream and a shortcut, faults around them."""

    def __init__(self) -> None:
        self.cuts = 0
        self.calls = 0
        self.faults = Faults(self._cut_off)
        send = method(MESSAGING, "SendMessage", self._send, CallClass.SEND)
        rows = (
            replace(send, shortcut=lambda raw, host, metadata: b"short"),
            method(MESSAGING, "ReceiveMessage", self._receive, CallClass.POLL),
            method(MESSAGING, "Telemetry", self._receive, CallClass.SESSION),
        )
        (self.service,) = self.faults.around([Service(NAME, rows, refuse)])

    def _cut_off(self) -> None:
        self.cuts += 1

    def _send(self, request: Any, call: Any) -> pb.SendMessageResponse:
        self.calls += 1
        return pb.SendMessageResponse()

    async def _receive(self, request: Any, call: Any) -> AsyncIterator[Any]:
        self.calls += 1
        for one in RECEIVED:
            yield one

    async def send(self) -> Any:
        """Calls the unary method; an answer that is there at once is one."""
        answer = self.service.methods[0].handler(SENT, FakeCall())
        return await answer if isinstance(answer, Awaitable) else answer

    async def receive(self, name: str = "ReceiveMessage") -> list[Any]:
        """Calls a method with many answers."""
        (row,) = [row for row in self.service.methods if row.name == name]
        return [one async for one in row.handler(None, FakeCall())]

    def short(self) -> object:
        """Asks the shortcut."""
        shortcut = self.service.methods[0].shortcut
        assert shortcut is not None
        return shortcut(b"", b"", lambda name: None)


@pytest.fixture
def faulty() -> Faulty:
    return Faulty()


async def test_without_faults_all_is_as_it_was(faulty: Faulty) -> None:
    assert await faulty.send() == pb.SendMessageResponse()
    assert await faulty.receive() == RECEIVED
    assert faulty.short() == b"short"


async def test_calls_are_refused_with_a_code_so_many_times(faulty: Faulty) -> None:
    fault = CallFault("refuse", frozenset({"SendMessage"}), code="FORBIDDEN", left=2)
    number = faulty.faults.add(fault)
    assert faulty.short() is None
    for _ in range(2):
        with pytest.raises(BrokerError) as caught:
            await faulty.send()
        assert caught.value.code is Code.FORBIDDEN
        assert "a fault of the test, with FORBIDDEN" in str(caught.value)
    await faulty.send()
    assert faulty.short() == b"short"
    assert await faulty.receive() == RECEIVED
    assert (faulty.faults.hits(number), faulty.calls) == (2, 2)


async def test_streams_are_refused_too_and_telemetry_where_it_is_named_alone(
    faulty: Faulty,
) -> None:
    number = faulty.faults.add(CallFault("refuse"))
    with pytest.raises(BrokerError):
        await faulty.receive()
    assert await faulty.receive("Telemetry") == RECEIVED
    faulty.faults.clear(number)
    assert await faulty.receive() == RECEIVED
    faulty.faults.add(CallFault("refuse", frozenset({"Telemetry"})))
    with pytest.raises(BrokerError):
        await faulty.receive("Telemetry")


async def test_a_lost_answer_is_of_a_call_that_was_served(faulty: Faulty) -> None:
    faulty.faults.add(CallFault("lose_answer", left=2))
    await faulty.send()
    assert (faulty.calls, faulty.cuts) == (1, 1)
    await faulty.receive()
    assert (faulty.calls, faulty.cuts) == (2, 3)


async def test_a_delayed_call_waits_before_it_is_served(faulty: Faulty) -> None:
    faulty.faults.add(CallFault("delay", seconds=3600.0, left=1))
    waiting = asyncio.ensure_future(faulty.send())
    await asyncio.sleep(0)
    assert (faulty.calls, waiting.done()) == (0, False)
    waiting.cancel()
    faulty.faults.add(CallFault("delay", seconds=0.0, left=1))
    await faulty.send()
    assert faulty.calls == 1


async def test_the_oldest_fault_that_wants_a_call_gets_it(faulty: Faulty) -> None:
    first = faulty.faults.add(CallFault("refuse", code="FORBIDDEN", left=1))
    second = faulty.faults.add(CallFault("refuse", code="BAD_REQUEST", left=1))
    for code in (Code.FORBIDDEN, Code.BAD_REQUEST):
        with pytest.raises(BrokerError) as caught:
            await faulty.send()
        assert caught.value.code is code
    assert [faulty.faults.hits(number) for number in (first, second)] == [1, 1]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            CallFault("explode"),
            "'explode'; there are delay, disk_full, lose_answer, refuse",
        ),
        (CallFault("refuse", code="SUNDAY"), "no code 'SUNDAY'; there are BAD_REQUEST, "),
        (CallFault("delay", frozenset({"Sned"})), "no method 'Sned'; there are ReceiveMessage, "),
    ],
)
def test_what_does_not_exist_is_told(faulty: Faulty, fault: CallFault, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        faulty.faults.add(fault)


@pytest.mark.parametrize(("code", "status"), [("FORBIDDEN", 7), ("TOPIC_NOT_FOUND", 5)])
def test_a_face_with_codes_of_grpc_answers_with_the_nearest(code: str, status: int) -> None:
    row = method(BROKER, "QueryById", lambda request, call: None, CallClass.QUERY)
    (own,) = Faults(lambda: None).around([Service(OWN, (row,), refuse_plainly)])
    assert own.refuse(injected_error(code), row).code == status
    assert own.refuse(MalformedRequest(why="x"), row) == refuse_plainly(
        MalformedRequest(why="x"), row
    )


def test_administration_is_never_at_fault() -> None:
    row = method(BROKER, "QueryById", lambda request, call: None, CallClass.QUERY)
    admin = Service("pocketmq.v1.Admin", (row,), refuse)
    assert Faults(lambda: None).around([admin]) == [admin]


def test_a_full_disk_has_no_byte_left(tmp_path: Path) -> None:
    disk = FillableDisk()
    used, usable = disk.space(tmp_path)
    assert used > 0
    assert usable > 0
    disk.is_full = True
    assert disk.space(tmp_path)[1] == 0


def test_both_clocks_move_together() -> None:
    clock = MovableClock(5_000)
    lead_ms = clock.wall_ms() - clock.monotonic_ms()
    before_ms = clock.monotonic_ms()
    clock.advance(3_600_000)
    assert clock.monotonic_ms() >= before_ms + 3_600_000
    assert abs(clock.wall_ms() - clock.monotonic_ms() - lead_ms) <= 1
    assert clock.ahead_ms == 3_605_000
