"""With access control, a session belongs to the user who opened it, not to its client id."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pocketmq.rpc.guard import Guard
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.service_table import TABLE
from tests.kit.official import OfficialDesk, name
from tests.kit.store_broker import StoreBroker
from tests.kit.users import access_of, grant_of, signed

PUSHED = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER, group=name("g"))
SIMPLE = pb.HeartbeatRequest(client_type=pb.SIMPLE_CONSUMER)
ENDED = pb.NotifyClientTerminationRequest()


class Pair:
    """Two users of a broker whose clients have one id: app's, and a stranger's who may anything."""

    def __init__(self, broker: StoreBroker) -> None:
        access = access_of(
            grant_of("app", "sub", "group:g"), grant_of("app", "sub", "topic:orders")
        )
        access.take(0)
        service = Guard(access).guarded(broker.official.service(), TABLE.rules("C"))
        self.broker = broker
        self.app = OfficialDesk(broker, service=service)
        self.app.metadata |= signed("app")
        self.again = OfficialDesk(broker, service=service)
        self.again.metadata |= signed("app", date="20261123T000000Z")
        self.stranger = OfficialDesk(broker, service=service)
        self.stranger.metadata |= signed("admin")


@pytest.fixture
async def pair(broker: StoreBroker) -> Pair:
    await broker.store.tables.groups.ensure("g")
    await broker.add("orders", b"a", UNIQ_KEY="1")
    return Pair(broker)


@pytest.mark.parametrize("by", ["heartbeat", "goodbye", "settings"])
async def test_a_stranger_changes_nothing_of_what_a_client_is(pair: Pair, by: str) -> None:
    """A push consumer that asks for no pause before a message comes again has one."""
    assert await pair.app.code("Heartbeat", PUSHED) == "OK"
    (got,) = await pair.app.received("g", "orders")
    if by == "heartbeat":
        assert await pair.stranger.code("Heartbeat", SIMPLE) == "OK"
    elif by == "goodbye":
        assert await pair.stranger.code("NotifyClientTermination", ENDED) == "OK"
    else:
        settings = pb.Settings(
            client_type=pb.SIMPLE_CONSUMER, subscription=pb.Subscription(group=name("g"))
        )
        (answer,) = await pair.stranger.all("Telemetry", [pb.TelemetryCommand(settings=settings)])
        assert answer.status.code == pb.OK
    change = pb.ChangeInvisibleDurationRequest(
        group=name("g"), topic=name("orders"), receipt_handle=got.system_properties.receipt_handle
    )
    assert await pair.app.code("ChangeInvisibleDuration", change) == "OK"
    await pair.broker.pass_time(999)
    assert not await pair.app.received("g", "orders")


async def test_a_stranger_neither_ends_nor_keeps_what_a_client_holds(pair: Pair) -> None:
    ended = pb.NotifyClientTerminationRequest(group=name("g"))
    await pair.app.received("g", "orders", auto_renew=True, invisible_s=None)
    assert await pair.stranger.code("NotifyClientTermination", ended) == "OK"
    for _ in range(8):
        await pair.broker.pass_time(29_000)
        assert await pair.again.code("Heartbeat", PUSHED) == "OK"  # Signed anew, the same user.
        assert not await pair.app.received("g", "orders")
    for _ in range(8):
        await pair.broker.pass_time(29_000)
        assert await pair.stranger.code("Heartbeat", PUSHED) == "OK"
    assert len(await pair.stranger.received("g", "orders")) == 1


async def test_the_user_of_a_client_ends_what_it_holds(pair: Pair) -> None:
    await pair.app.received("g", "orders", auto_renew=True, invisible_s=None)
    ended = pb.NotifyClientTerminationRequest(group=name("g"))
    assert await pair.again.code("NotifyClientTermination", ended) == "OK"
    await pair.broker.pass_time(1_001)
    assert len(await pair.app.received("g", "orders")) == 1


async def test_a_stream_of_a_stranger_takes_no_commands_away(pair: Pair) -> None:
    ended = asyncio.Event()

    async def commands() -> AsyncIterator[pb.TelemetryCommand]:
        yield pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing()))
        await ended.wait()

    streams = [
        desk.methods["Telemetry"].handler(commands(), desk.call())
        for desk in (pair.app, pair.stranger)
    ]
    for stream in streams:
        assert (await anext(stream)).status.code == pb.OK
    pair.broker.sessions.drain()
    for stream in streams:
        assert (await anext(stream)).HasField("reconnect_endpoints_command")
    ended.set()
    for stream in streams:
        assert [one async for one in stream] == []
