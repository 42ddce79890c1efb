"""Operators ask official clients: what their threads do, what becomes of a message."""

import asyncio
from typing import Any

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import (
    BrokerError,
    ClientNotFound,
    ClientSilent,
    GroupNotFound,
    IllegalNumber,
    MessageNotFound,
    TooManyRequests,
)
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.client_stream import UNREAD_MAX
from tests.kit.call import FakeCall
from tests.kit.official import OfficialDesk
from tests.kit.official_stream import OfficialStream, subscribing

CLIENT_ID = "host@1@2@x"


def stack(wait_ms: int = 30_000, **fields: Any) -> admin_pb2.PrintClientStackRequest:
    named = {"group": "g", "client_id": CLIENT_ID, **fields}
    return admin_pb2.PrintClientStackRequest(**named, wait_ms=wait_ms)


def verify(message_id: str, wait_ms: int = 30_000) -> admin_pb2.VerifyMessageRequest:
    return admin_pb2.VerifyMessageRequest(
        group="g", client_id=CLIENT_ID, topic="orders", message_id=message_id, wait_ms=wait_ms
    )


def asking(desk: OfficialDesk, request: Any) -> "asyncio.Task[admin_pb2.AskClientResponse]":
    name = "PrintClientStack" if "Stack" in type(request).__name__ else "VerifyMessage"
    method = desk.broker.methods[f"Admin/{name}"]
    return asyncio.ensure_future(method.handler(request, desk.call()))


async def listening(stream: OfficialStream) -> None:
    assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK


async def test_a_client_prints_its_stack(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, stack())
        command = (await stream.read()).print_thread_stack_trace_command
        assert command.nonce
        trace = pb.ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main: waits")
        stream.say(pb.TelemetryCommand(status=pb.Status(code=pb.OK), thread_stack_trace=trace))
        answer = await asked
        assert (answer.status, answer.stack) == ("OK", "main: waits")


async def test_a_client_verifies_a_message_that_stays_as_it_was(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", b"body", UNIQ_KEY="K", TAGS="t", own="v")
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, verify("K"))
        command = (await stream.read()).verify_message_command
        message, system = command.message, command.message.system_properties
        assert (message.topic.name, message.body, system.message_id) == ("orders", b"body", "K")
        assert dict(message.user_properties) == {"own": "v"}
        assert (system.body_encoding, system.delivery_attempt) == (pb.IDENTITY, 1)
        assert system.body_digest.checksum
        assert system.HasField("born_timestamp")
        result = pb.VerifyMessageResult(nonce=command.nonce)
        status = pb.Status(code=pb.FAILED_TO_CONSUME_MESSAGE, message="said no")
        stream.say(pb.TelemetryCommand(status=status, verify_message_result=result))
        answer = await asked
        assert (answer.status, answer.text) == ("FAILED_TO_CONSUME_MESSAGE", "said no")
    (got,) = await desk.received("g", "orders")
    assert got.system_properties.delivery_attempt == 1


async def test_a_message_that_does_not_fit_into_memory_is_not_read(desk: OfficialDesk) -> None:
    await desk.broker.add("orders", bytes(2_000), UNIQ_KEY="K")
    async with OfficialStream(desk) as stream:
        await listening(stream)
        handler = desk.broker.methods["Admin/VerifyMessage"].handler
        with pytest.raises(TooManyRequests):
            await handler(verify("K"), FakeCall(kept=1_000))


async def test_a_client_in_a_namespace_verifies_what_it_knows_by_its_own_name(
    desk: OfficialDesk,
) -> None:
    await desk.broker.store.tables.topics.create("shop%orders", queue_count=1)
    await desk.broker.add("shop%orders", b"body", UNIQ_KEY="K")
    await desk.broker.store.tables.groups.create("shop%g", GroupSettings())
    desk.metadata["x-mq-namespace"] = "shop"
    async with OfficialStream(desk) as stream:
        await listening(stream)
        request = verify("K")
        request.group, request.topic = "shop%g", "shop%orders"
        asked = asking(desk, request)
        command = (await stream.read()).verify_message_command
        topic = command.message.topic
        assert (topic.resource_namespace, topic.name) == ("shop", "orders")
        stream.say(
            pb.TelemetryCommand(
                status=pb.Status(code=pb.OK),
                verify_message_result=pb.VerifyMessageResult(nonce=command.nonce),
            )
        )
        assert (await asked).status == "OK"


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        (pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace()), "OK", ""),
        (
            pb.TelemetryCommand(status=pb.Status(code=pb.UNSUPPORTED, message="cannot")),
            "UNSUPPORTED",
            "cannot",
        ),
        (pb.TelemetryCommand(status=pb.Status(code=99)), "99", ""),  # type: ignore[arg-type]
    ],
    ids=["without a status", "a status alone", "a status of another version"],
)
async def test_answers_that_leave_things_out(
    desk: OfficialDesk, command: pb.TelemetryCommand, status: str, text: str
) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, stack())
        nonce = (await stream.read()).print_thread_stack_trace_command.nonce
        if command.HasField("thread_stack_trace"):
            command.thread_stack_trace.nonce = nonce
        stream.say(command)
        answer = await asked
        assert (answer.status, answer.text, answer.stack) == (status, text, "")


async def test_a_command_that_says_nothing_answers_nothing(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, stack())
        nonce = (await stream.read()).print_thread_stack_trace_command.nonce
        for nothing in (pb.TelemetryCommand(), pb.TelemetryCommand(status=pb.Status(code=pb.OK))):
            stream.say(nothing)
            assert await stream.is_quiet()
            assert not asked.done()
        trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: waits")
        stream.say(pb.TelemetryCommand(thread_stack_trace=trace))
        assert (await asked).stack == "main: waits"


async def test_each_question_gets_its_own_answer(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = [asking(desk, stack()) for _ in range(3)]
        nonces = [(await stream.read()).print_thread_stack_trace_command.nonce for _ in range(3)]
        for nonce in reversed(nonces):
            trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace=nonce)
            stream.say(pb.TelemetryCommand(thread_stack_trace=trace))
        assert [(await one).stack for one in asked] == nonces


async def test_nobody_answers_for_another_client(desk: OfficialDesk) -> None:
    stranger = OfficialDesk(desk.broker, "stranger")
    async with OfficialStream(desk) as stream, OfficialStream(stranger) as other:
        await listening(stream)
        await listening(other)
        asked = asking(desk, stack())
        nonce = (await stream.read()).print_thread_stack_trace_command.nonce
        for said, text in ((other, "forged"), (stream, "own"), (stream, "late")):
            trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace=text)
            said.say(pb.TelemetryCommand(thread_stack_trace=trace))
            assert await said.is_quiet()
        assert (await asked).stack == "own"


async def test_a_stream_that_ends_answers_nothing_and_nobody_waits(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, stack())
        await stream.read()
    with pytest.raises(ClientSilent, match="its stream ended meanwhile"):
        await asked


async def test_a_client_that_says_nothing_is_waited_for_so_long(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = asking(desk, stack(wait_ms=1))
        nonce = (await stream.read()).print_thread_stack_trace_command.nonce
        with pytest.raises(ClientSilent, match="within 1ms"):
            await asked
        late = pb.ThreadStackTrace(nonce=nonce)
        stream.say(pb.TelemetryCommand(thread_stack_trace=late))
        assert await stream.is_quiet()


async def test_a_client_that_does_not_read_is_not_asked_more(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        await listening(stream)
        asked = [asking(desk, stack()) for _ in range(UNREAD_MAX + 1)]
        with pytest.raises(ClientSilent, match="has not read"):
            await asked[-1]
    for one in asked[:-1]:
        with pytest.raises(ClientSilent):
            await one


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (stack(client_id="nobody"), ClientNotFound),
        (stack(client_id=""), ClientNotFound),
        (stack(group="other"), ClientNotFound),
        (stack(group="none"), GroupNotFound),
        (stack(wait_ms=30_001), IllegalNumber),
        (stack(wait_ms=-1), IllegalNumber),
        (verify("gone"), MessageNotFound),
    ],
)
async def test_who_is_not_there_is_not_asked(
    desk: OfficialDesk, request_: Any, error: type[BrokerError]
) -> None:
    await desk.broker.store.tables.groups.ensure("other")
    await desk.broker.add("orders", b"a", UNIQ_KEY="1")
    async with OfficialStream(desk) as stream:
        await listening(stream)
        with pytest.raises(error):
            await asking(desk, request_)
        assert await stream.is_quiet()
    with pytest.raises(ClientNotFound):
        await asking(desk, stack())


async def test_a_client_of_a_user_is_found_by_its_own_id(desk: OfficialDesk) -> None:
    stream = OfficialStream(desk, user="ann")
    async with stream:
        await listening(stream)
        asked = asking(desk, stack())
        nonce = (await stream.read()).print_thread_stack_trace_command.nonce
        trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="hers")
        stream.say(pb.TelemetryCommand(thread_stack_trace=trace))
        assert (await asked).stack == "hers"
