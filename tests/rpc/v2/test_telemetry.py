"""Clients come with their settings, stay, and go."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from google.protobuf.duration_pb2 import Duration

from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import TooManyElements
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from tests.kit.official import OfficialDesk, name, raw_of
from tests.kit.official_stream import OfficialStream, publishing, subscribing


async def answered(desk: OfficialDesk, *commands: pb.TelemetryCommand) -> list[pb.TelemetryCommand]:
    return await desk.all("Telemetry", commands)


def numbered(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


async def test_streams_keep_no_other_call_out(desk: OfficialDesk) -> None:
    classes = {name: method.call_class for name, method in desk.methods.items()}
    streams = {name for name, found in classes.items() if found is CallClass.STREAM}
    assert streams == {"Telemetry"}


async def test_a_producer_gets_its_settings_with_the_brokers(desk: OfficialDesk) -> None:
    first, second = await answered(desk, publishing("orders"), publishing("orders", "more"))
    assert first.status.code == second.status.code == pb.OK
    settings = first.settings
    assert [topic.name for topic in settings.publishing.topics] == ["orders"]
    assert settings.publishing.max_body_size == 4 << 20
    assert settings.publishing.validate_message_type
    policy = settings.backoff_policy
    assert (policy.max_attempts, policy.exponential_backoff.multiplier) == (3, 2)
    assert policy.exponential_backoff.initial == Duration(nanos=10_000_000)
    assert policy.exponential_backoff.max == Duration(seconds=1)
    assert settings.HasField("metric")
    assert not settings.metric.HasField("endpoints")
    assert [topic.name for topic in second.settings.publishing.topics] == ["orders", "more"]


async def test_a_push_consumer_gets_its_groups_settings(desk: OfficialDesk) -> None:
    await desk.broker.store.tables.groups.update("g", GroupSettings(max_attempts=3))
    (answer,) = await answered(desk, subscribing("g", "orders"))
    policy, subscription = answer.settings.backoff_policy, answer.settings.subscription
    assert policy.max_attempts == 3
    pauses = [pause.seconds for pause in policy.customized_backoff.next]
    assert pauses[:5] == [1, 5, 10, 30, 60]
    assert pauses[5:14] == [minutes * 60 for minutes in range(2, 11)]
    assert pauses[14:] == [20 * 60, 30 * 60, 3_600, 7_200]
    assert {pause.nanos for pause in policy.customized_backoff.next} == {0}
    assert (subscription.fifo, subscription.receive_batch_size) == (False, 32)
    assert subscription.long_polling_timeout.seconds == 20
    assert (subscription.lite_subscription_quota, subscription.max_lite_topic_size) == (2_000, 64)


@pytest.mark.parametrize("by", ["group", "topic"])
async def test_order_comes_of_the_group_or_of_a_topic(desk: OfficialDesk, by: str) -> None:
    tables = desk.broker.store.tables
    if by == "group":
        await tables.groups.update("g", GroupSettings(fifo=True))
    kind = {"message.type": "FIFO"} if by == "topic" else {}
    await tables.topics.create("t", queue_count=1, attributes=kind)
    (answer,) = await answered(desk, subscribing("g", "orders", "t"))
    assert answer.settings.subscription.fifo


@pytest.mark.parametrize(
    ("language", "is_ordered", "size"), [("GO", True, 1), ("GO", False, 32), ("JAVA", True, 32)]
)
async def test_go_gets_ordered_messages_one_by_one(
    desk: OfficialDesk, language: str, is_ordered: bool, size: int
) -> None:
    await desk.broker.store.tables.groups.update("g", GroupSettings(fifo=is_ordered))
    client = OfficialDesk(desk.broker, language=language)
    (answer,) = await answered(client, subscribing("g", "orders"))
    assert answer.settings.subscription.receive_batch_size == size


async def test_the_client_for_node_gets_no_list_of_pauses(desk: OfficialDesk) -> None:
    node = OfficialDesk(desk.broker, language="HTTP")
    (answer,) = await answered(node, subscribing("g", "orders"))
    backoff = answer.settings.backoff_policy.exponential_backoff
    assert (backoff.initial, backoff.max) == (Duration(seconds=5), Duration(seconds=7_200))
    assert backoff.multiplier == 2


async def test_a_simple_consumer_keeps_its_poll_time(desk: OfficialDesk) -> None:
    (kept,) = await answered(
        desk,
        subscribing(
            "g", "orders", client_type=pb.SIMPLE_CONSUMER, long_polling_timeout=Duration(seconds=5)
        ),
    )
    (given,) = await answered(desk, subscribing("g", client_type=pb.SIMPLE_CONSUMER))
    assert kept.settings.subscription.long_polling_timeout.seconds == 5
    assert given.settings.subscription.long_polling_timeout.seconds == 20


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (pb.TelemetryCommand(settings=pb.Settings()), "BAD_REQUEST"),
        (subscribing("bad group!", "orders"), "ILLEGAL_CONSUMER_GROUP"),
        (subscribing("nobody", "orders"), "CONSUMER_GROUP_NOT_FOUND"),
        (publishing("bad topic!"), "ILLEGAL_TOPIC"),
        (publishing(*numbered(1_025)), "BAD_REQUEST"),
        (subscribing("g", *numbered(1_025)), "BAD_REQUEST"),
        (subscribing("g", "orders", client_type=pb.LITE_PUSH_CONSUMER), "UNSUPPORTED"),
        (subscribing("g", "orders", client_type=pb.LITE_SIMPLE_CONSUMER), "UNSUPPORTED"),
    ],
)
async def test_settings_that_make_no_sense_are_told_so_and_the_stream_goes_on(
    desk: OfficialDesk, command: pb.TelemetryCommand, code: str
) -> None:
    refused, answer = await answered(desk, command, publishing("orders"))
    assert pb.Code.Name(refused.status.code) == code
    assert not refused.HasField("settings")
    assert answer.status.code == pb.OK


async def test_1024_topics_are_as_many_as_a_client_may_have(desk: OfficialDesk) -> None:
    topics = numbered(1_024)
    for command in (publishing(*topics), subscribing("g", *topics)):
        (answer,) = await answered(desk, command)
        assert answer.status.code == pb.OK


async def test_a_command_of_far_too_many_topics_is_not_read(desk: OfficialDesk) -> None:
    (answer,) = await answered(desk, publishing(*numbered(2_048)))
    assert pb.Code.Name(answer.status.code) == "BAD_REQUEST"
    with pytest.raises(TooManyElements) as caught:
        desk.methods["Telemetry"].reader()(raw_of(publishing(*numbered(2_049))))
    assert caught.value.limit == 2_048


async def test_producers_that_hold_a_stream_are_counted_by_what_they_are(
    desk: OfficialDesk,
) -> None:
    (connections,) = desk.broker.sessions.stats
    unsaid = publishing("orders")
    unsaid.settings.client_type = pb.CLIENT_TYPE_UNSPECIFIED
    neighbour = OfficialDesk(desk.broker, "neighbour", language="GO")
    consumer = OfficialDesk(desk.broker, "consumer")
    async with (
        OfficialStream(desk) as one, OfficialStream(neighbour) as other,
        OfficialStream(consumer) as beside,
    ):  # fmt: skip
        await one.asked(publishing("orders"))
        await other.asked(unsaid)
        await beside.asked(subscribing("g", "orders"))
        assert connections.read() == {
            ("JAVA", "5.2.0", "grpc"): 1, ("GO", "5.2.0", "grpc"): 1,
        }  # fmt: skip
    assert connections.read() == {}


async def test_a_consumer_that_does_not_say_how_it_consumes_is_no_push_consumer(
    desk: OfficialDesk,
) -> None:
    async with OfficialStream(desk) as stream:
        for kind, is_push in ((0, False), (pb.PUSH_CONSUMER, True), (pb.SIMPLE_CONSUMER, False)):
            command = subscribing("g", "orders", client_type=kind)  # type: ignore[arg-type]
            assert (await stream.asked(command)).status.code == pb.OK
            assert desk.broker.sessions.is_push_consumer("host@1@2@x") is is_push


async def test_a_stream_that_breaks_says_why(desk: OfficialDesk) -> None:
    async def commands() -> AsyncIterator[pb.TelemetryCommand]:
        yield publishing("orders")
        raise MalformedRequest(why="it is none")

    stream = desk.methods["Telemetry"].handler(commands(), desk.call())
    assert (await anext(stream)).status.code == pb.OK
    with pytest.raises(MalformedRequest):
        await anext(stream)
    assert not desk.broker.sessions.has_stream("host@1@2@x")


async def test_a_group_is_made_by_asking_where_that_is_on(desk: OfficialDesk) -> None:
    desk.broker.auto_create_groups = True
    (answer,) = await answered(desk, subscribing("fresh", "orders"))
    assert answer.status.code == pb.OK
    assert desk.broker.store.tables.groups.find("fresh") is not None


async def test_a_stream_needs_a_client(desk: OfficialDesk) -> None:
    call = desk.call(x_mq_client_id="")
    (answer,) = await desk.all("Telemetry", [publishing("orders")], call)
    assert pb.Code.Name(answer.status.code) == "CLIENT_ID_REQUIRED"


async def test_a_broker_that_ends_asks_clients_to_dial_again(desk: OfficialDesk) -> None:
    async with OfficialStream(desk) as stream:
        assert (await stream.asked(publishing("orders"))).status.code == pb.OK
        desk.broker.sessions.drain()
        assert (await stream.read()).HasField("reconnect_endpoints_command")
        stream.say(None)
        with pytest.raises(StopAsyncIteration):
            await stream.read()


async def test_who_is_unknown_may_beat_and_leave(desk: OfficialDesk) -> None:
    assert await desk.code("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER)) == "OK"
    beat = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER, group=name("g"))
    assert await desk.code("Heartbeat", beat) == "OK"
    assert await desk.code("NotifyClientTermination", pb.NotifyClientTerminationRequest()) == "OK"
    beat = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER, group=name("nobody"))
    assert await desk.code("Heartbeat", beat) == "CONSUMER_GROUP_NOT_FOUND"


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO"])
async def test_what_a_client_held_that_ends_others_have_soon(desk: OfficialDesk, kind: str) -> None:
    topics, broker = desk.broker.store.tables.topics, desk.broker
    await topics.create("t", queue_count=1, attributes={"message.type": kind})
    await broker.add("t", b"a", b"b", UNIQ_KEY="1", __SHARDINGKEY="m")
    (first, second) = await desk.received("g", "t", auto_renew=True, invisible_s=None)
    other = OfficialDesk(broker, "other")
    handle = first.system_properties.receipt_handle
    entry = pb.AckMessageEntry(receipt_handle=handle)
    ack = pb.AckMessageRequest(group=name("g"), topic=name("t"), entries=[entry])
    assert await desk.code("AckMessage", ack) == "OK"
    await broker.store.tables.groups.ensure("other")
    for ends, of in ((other, "g"), (desk, ""), (desk, "other"), (desk, "nobody")):
        ended = pb.NotifyClientTerminationRequest(group=name(of))
        assert await ends.code("NotifyClientTermination", ended) == "OK"
    assert await desk.code("NotifyClientTermination", pb.NotifyClientTerminationRequest()) == "OK"
    for _ in range(4):  # Nothing of that ends what renews itself.
        await broker.pass_time(29_000)
        beat = pb.HeartbeatRequest(group=name("g"))
        assert await desk.code("Heartbeat", beat) == "OK"
        assert not await other.received("g", "t")
    ended = pb.NotifyClientTerminationRequest(group=name("g"))
    assert await desk.code("NotifyClientTermination", ended) == "OK"
    await broker.pass_time(1_001)
    (got,) = await other.received("g", "t")
    assert got.body == second.body


async def test_a_stream_that_is_opened_behind_a_goodbye_ends_at_once(desk: OfficialDesk) -> None:
    """The client for Java opens one, and waits for its end."""
    elsewhere = desk.call()
    elsewhere.peer = "ipv4:10.0.0.7:4712"
    assert await desk.code("NotifyClientTermination", pb.NotifyClientTerminationRequest()) == "OK"
    assert await answered(desk, publishing("orders")) == []
    assert len(await desk.all("Telemetry", [publishing("orders")], elsewhere)) == 1
    assert len(await answered(OfficialDesk(desk.broker, "neighbour"), publishing("orders"))) == 1


async def test_where_connections_are_not_told_apart_a_stream_stays(desk: OfficialDesk) -> None:
    ends, comes = desk.call(), desk.call()
    ends.peer = comes.peer = "unix:"
    ended = pb.NotifyClientTerminationRequest()
    assert await desk.code("NotifyClientTermination", ended, ends) == "OK"
    assert len(await desk.all("Telemetry", [publishing("orders")], comes)) == 1


async def test_of_goodbyes_the_last_thousand_are_remembered(desk: OfficialDesk) -> None:
    ended = pb.NotifyClientTerminationRequest()
    clients = [OfficialDesk(desk.broker, f"c{number}") for number in range(1_001)]
    for each in clients:
        assert await each.code("NotifyClientTermination", ended) == "OK"
    answers = [await answered(each, publishing("orders")) for each in clients[:2]]
    assert [len(each) for each in answers] == [1, 0]


async def test_who_names_a_client_ends_nothing_that_it_holds_for_other_groups(
    desk: OfficialDesk,
) -> None:
    """Client ids are no secret, and a call is authorised for the group that it names."""
    broker = desk.broker
    await broker.store.tables.groups.ensure("other")
    await broker.add("orders", b"a", UNIQ_KEY="1")
    await desk.received("g", "orders", auto_renew=True, invisible_s=None)
    neighbour = OfficialDesk(broker, "neighbour")
    for _ in range(60):
        await broker.pass_time(1_000)
        ended = pb.NotifyClientTerminationRequest(group=name("other"))
        assert await desk.code("NotifyClientTermination", ended) == "OK"
    await broker.pass_time(10)
    assert not await neighbour.received("g", "orders")


async def test_a_bad_name_of_a_group_ends_nothing(desk: OfficialDesk) -> None:
    ended = pb.NotifyClientTerminationRequest(group=name("bad group!"))
    assert await desk.code("NotifyClientTermination", ended) == "ILLEGAL_CONSUMER_GROUP"


async def test_a_lease_renews_itself_as_long_as_its_client_is_heard_of(
    desk: OfficialDesk,
) -> None:
    broker = desk.broker
    await broker.add("orders", b"a", UNIQ_KEY="1")
    await desk.received("g", "orders", auto_renew=True, invisible_s=None)
    other, beat = OfficialDesk(broker, "other"), pb.HeartbeatRequest(group=name("g"))
    for _ in range(4):
        await broker.pass_time(50_000)
        assert await desk.code("Heartbeat", beat) == "OK"
        assert not await other.received("g", "orders")
    for _ in range(4):
        await broker.pass_time(50_000)
    assert len(await other.received("g", "orders")) == 1


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO"])
async def test_who_names_a_client_keeps_nothing_leased_that_it_holds_for_other_groups(
    desk: OfficialDesk, kind: str
) -> None:
    """The client is gone, and another user who may not consume for its group gives its id."""
    broker, beat = desk.broker, pb.HeartbeatRequest(group=name("other"))
    await broker.store.tables.groups.ensure("other")
    await broker.store.tables.topics.create("t", queue_count=1, attributes={"message.type": kind})
    await broker.add("t", b"a", UNIQ_KEY="1", __SHARDINGKEY="m")
    await desk.received("g", "t", auto_renew=True, invisible_s=None)
    for _ in range(8):
        await broker.pass_time(29_000)
        assert await desk.code("Heartbeat", beat) == "OK"
        assert await desk.code("Heartbeat", pb.HeartbeatRequest()) == "OK"
        (answer,) = await answered(desk, publishing("orders"))
        assert answer.status.code == pb.OK
    assert len(await OfficialDesk(broker, "neighbour").received("g", "t")) == 1


async def test_nothing_stays_of_a_client_that_reads_no_answers(desk: OfficialDesk) -> None:
    said: list[pb.TelemetryCommand] = []

    async def commands() -> AsyncIterator[pb.TelemetryCommand]:
        while True:
            said.append(publishing("orders"))
            yield said[-1]

    before = asyncio.all_tasks()
    stream = desk.methods["Telemetry"].handler(commands(), desk.call())
    await anext(stream)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(said) < 20
    await stream.aclose()
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
