"""Open calls of a user that is disabled, removed or recreated, or loses a secret or grant."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pocketmq.model.access import User
from pocketmq.model.errors import AccessDenied, BrokerError, Unauthenticated
from pocketmq.model.step import Now
from pocketmq.model.transaction import Check
from pocketmq.rpc.pb import broker_pb2
from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.authorised import CHANGES, AuthorisedBroker, authorised_broker
from tests.kit.official import OfficialDesk
from tests.kit.official_stream import OfficialStream, publishing, subscribing
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import turns

GRANTS = ("pub,sub topic:orders", "pub topic:billing", "sub group:g", "pub group:orders")
GONE = [change for change in CHANGES if change != "grants"]
WAIT_MS = 20_000


@pytest.fixture
async def desk() -> AsyncIterator[AuthorisedBroker]:
    """Serves a user who sends and receives orders."""
    async with authorised_broker(*GRANTS) as desk:
        await desk.store.tables.groups.ensure("g")
        yield desk


def open_stream(desk: AuthorisedBroker) -> OfficialStream:
    official = OfficialDesk(desk.broker, service=desk.broker.official.service())
    official.methods = {"Telemetry": desk.methods["MessagingService/Telemetry"]}
    return OfficialStream(official, call=desk.call())


POLLS: dict[str, dict[str, Any]] = {
    "Broker/Receive": {"group": "g", "topic": "orders", "wait_ms": WAIT_MS},
    "Broker/PullMessage": {"group": "g", "topic": "orders", "wait_ms": WAIT_MS},
    "MessagingService/ReceiveMessage": {
        "group": {"name": "g"},
        "message_queue": {"topic": {"name": "orders"}},
        "batch_size": 1,
        "invisible_duration": {"seconds": 30},
        "long_polling_timeout": {"seconds": 20},
    },
    "MessagingService/PullMessage": {
        "group": {"name": "g"},
        "message_queue": {"topic": {"name": "orders"}},
        "batch_size": 1,
        "long_polling_timeout": {"seconds": 20},
    },
    "Broker/CheckTransactions": {"group": "orders", "wait_ms": WAIT_MS},
}


async def waiting(desk: AuthorisedBroker, name: str) -> "tuple[asyncio.Task[Any], Any]":
    """Returns a poll that waits, and its call."""
    method = desk.methods[name]
    call = desk.call(time_left_ms=WAIT_MS * 2)
    poll = asyncio.ensure_future(desk.serve(method, method.request(**POLLS[name]), call))
    await turns()
    assert not poll.done()
    return poll, call


def question(topic: str = "orders", group: str = "orders") -> Check:
    return Check("id", group, b"", 1, topic)


async def half(broker: StoreBroker, topic: str = "orders") -> None:
    """Stores a half message of a topic, and runs the check with its producers."""
    message = {"topic": topic, "body": b"half", "transactional": True, "first_check_ms": 1_000}
    request = broker_pb2.SendMessageRequest(messages=[message])
    await broker.answer("SendMessage", request)
    for _ in range(4):
        broker.clock.advance(31_000)
        step = broker.transactions.step
        following = step(Now(broker.clock.monotonic_ms(), broker.clock.wall_ms()))
        await turns()
        del following
        await broker.talking.settled()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [name for name in POLLS if name != "Broker/CheckTransactions"])
async def test_a_poll_of_who_is_gone_gets_no_message(
    desk: AuthorisedBroker, name: str, change: str
) -> None:
    poll, call = await waiting(desk, name)
    desk.change(change)
    await desk.broker.add("orders", b"later")
    with pytest.raises(AccessDenied if change == "grants" else Unauthenticated):
        await poll
    for undo in call.undone:  # as a transport does with an answer that does not leave
        undo()
    answer = await desk.ask("Broker/PullMessage", "admin", group="g", topic="orders")
    assert [message.body for message in answer.messages] == [b"later"]
    if "Receive" in name:
        await desk.broker.pass_time(2_000)
        answer = await desk.ask("Broker/Receive", "admin", group="g", topic="orders")
        assert [message.body for message in answer.messages] == [b"later"]


@pytest.mark.parametrize("change", GONE)
async def test_a_stream_of_who_is_gone_ends_at_once(desk: AuthorisedBroker, change: str) -> None:
    async with open_stream(desk) as stream:
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK
        assert await stream.is_quiet()
        desk.change(change)
        with pytest.raises(Unauthenticated):
            await stream.read()
    assert not desk.broker.sessions.has_stream("app c@1")
    assert not desk.access._open


async def test_a_stream_that_ends_by_itself_is_forgotten(desk: AuthorisedBroker) -> None:
    async with open_stream(desk) as stream:
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK
        stream.say(None)
        with pytest.raises(StopAsyncIteration):
            await stream.read()
    assert not desk.access._open


@pytest.mark.parametrize("change", ["new grants", "another user"])
async def test_a_stream_stays_as_its_user_does(desk: AuthorisedBroker, change: str) -> None:
    async with open_stream(desk) as stream:
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK
        if change == "new grants":
            desk.grant("pub topic:more")
        else:
            desk.access.table.roster.add(User("another", "another-secret"))
            desk.access.refresh()
        assert await stream.is_quiet()
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK


async def test_a_producer_is_asked_of_topics_it_may_publish_to_by_now(
    desk: AuthorisedBroker,
) -> None:
    producers = desk.broker.transactions._producers
    async with open_stream(desk) as stream:
        for settings in (publishing("orders", "billing"), subscribing("g", "orders")):
            assert (await stream.asked(settings)).status.code == pb.OK
        await half(desk.broker)
        command = (await stream.read()).recover_orphaned_transaction_command
        assert command.message.body == b"half"
        desk.revoke("pub topic:orders")
        before = desk.broker.transactions
        assert not producers.ask(question())
        await half(desk.broker)
        assert await stream.is_quiet()
        assert before.producer_count("orders") == 1


async def test_a_question_that_waits_to_be_read_is_looked_at_again(desk: AuthorisedBroker) -> None:
    async with open_stream(desk) as stream:
        for settings in (publishing("orders"), subscribing("g", "orders")):
            assert (await stream.asked(settings)).status.code == pb.OK
        await half(desk.broker)
        desk.revoke("pub topic:orders")
        assert await stream.is_quiet()
        desk.grant("pub topic:orders")
        await half(desk.broker)
        command = (await stream.read()).recover_orphaned_transaction_command
        assert command.message.body == b"half"


async def test_a_question_is_of_its_message_s_topic_too(desk: AuthorisedBroker) -> None:
    producers = desk.broker.transactions._producers
    poll, _ = await waiting(desk, "Broker/CheckTransactions")
    async with open_stream(desk) as stream:
        assert (await stream.asked(publishing("orders"))).status.code == pb.OK
        assert not producers.ask(question("secrets"))
        assert await stream.is_quiet()
    assert not poll.done()
    poll.cancel()


@pytest.mark.parametrize("change", CHANGES)
async def test_who_is_gone_is_asked_nothing_by_our_own_api(
    desk: AuthorisedBroker, change: str
) -> None:
    poll, _ = await waiting(desk, "Broker/CheckTransactions")
    producers = desk.broker.transactions._producers
    desk.change(change)
    assert not producers.ask(question())
    desk.broker.transactions.drain()
    with pytest.raises(BrokerError):
        await poll


@pytest.mark.parametrize("name", ["PrintClientStack", "VerifyMessage"])
@pytest.mark.parametrize("lost", ["sub group:g", "sub topic:orders", "off"])
async def test_an_operator_s_question_needs_what_its_client_may_by_now(
    desk: AuthorisedBroker, name: str, lost: str
) -> None:
    await desk.broker.add("orders", b"body", UNIQ_KEY="K")
    fields = {"group": "g", "client_id": "c@1"}
    if name == "VerifyMessage":
        fields |= {"topic": "orders", "message_id": "K"}
    async with open_stream(desk) as stream:
        assert (await stream.asked(subscribing("g", "orders"))).status.code == pb.OK
        desk.grant("pub topic:more")
        asking = asyncio.ensure_future(desk.ask(f"Admin/{name}", "admin", **fields, wait_ms=1))
        if lost == "off":
            desk.change("off")
        else:
            desk.revoke(lost)
        reason = await desk.refusal(f"Admin/{name}", "admin", **fields, wait_ms=1)
        if lost == "sub topic:orders" and name == "PrintClientStack":
            assert reason == "ClientSilent"
        else:
            assert reason in ("ClientSilent", "ClientNotFound")
            with pytest.raises((AccessDenied, Unauthenticated)):
                await stream.asked(subscribing("g", "orders"))
        await asyncio.gather(asking, return_exceptions=True)
