"""Every setting of the broker itself, its limits and its ports, turned: what clients then see."""

import asyncio
from pathlib import Path

import grpc
import pytest

from pocketmq.app.stage import Stage
from pocketmq.client import AsyncClient, ClientError, Message, ReceiveQuery
from pocketmq.config.addresses import held_port, split_address
from pocketmq.rpc.pb import messaging_pb2 as pb
from tests.kit.store_language import until
from tests.running_broker import broker_with
from tests.sim.quick_disk import QuickDisk

HELLO = [Message("orders", b"hello", keys=["k"])]


@pytest.mark.knob("broker.name")
@pytest.mark.knob("broker.cluster")
async def test_a_broker_has_its_name_and_its_cluster(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.name=b7", "broker.cluster=c7") as broker:
        status = await broker.client.admin.store_status()
        (receipt,) = await broker.client.send_many(HELLO)
        message = await broker.client.query_by_id("orders", receipt.message_id)
    assert (status.broker, status.cluster) == ("b7", "c7")
    assert message.properties["CLUSTER"] == "c7"


@pytest.mark.knob("broker.advertised_host")
@pytest.mark.knob("broker.advertised_port")
async def test_messages_carry_the_address_to_tell(tmp_path: Path) -> None:
    advertised = ("broker.advertised_host=10.0.0.7", "broker.advertised_port=10911")
    given = (*advertised, "access.check=off")
    async with broker_with(tmp_path, *given) as broker:
        (receipt,) = await broker.client.send_many(HELLO)
    assert receipt.offset_message_id == f"0A000007{10_911:08X}{0:016X}"


NEXT_CENTURY_MS = 4_102_444_800_000


@pytest.mark.knob("broker.permission", "broker.accept_from_ms", "limits.max_message_size_bytes")
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("broker.permission=4", "permission is 4"),
        (f"broker.accept_from_ms={NEXT_CENTURY_MS}", "accepted from 2100-01-01"),
        ("limits.max_message_size_bytes=4", "limit of 4"),
    ],
)
async def test_sends_are_refused(tmp_path: Path, setting: str, told: str) -> None:
    async with broker_with(tmp_path, setting) as broker:
        with pytest.raises(ClientError, match=told):
            await broker.client.send_many(HELLO)


@pytest.mark.knob("broker.auto_create_topics")
async def test_a_topic_has_to_exist_where_none_is_made(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.auto_create_topics=off") as broker:
        with pytest.raises(ClientError, match="does not exist"):
            await broker.client.send_many(HELLO)
        await broker.client.admin.create_topic("orders", queue_count=1)
        assert await broker.client.send_many(HELLO)


@pytest.mark.knob("broker.default_topic_type")
async def test_a_topic_made_by_a_send_has_this_type(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.default_topic_type=mixed") as broker:
        await broker.client.send_many(HELLO)
        assert (await broker.client.admin.describe_topic("orders")).type == "MIXED"


@pytest.mark.knob("broker.auto_create_groups")
@pytest.mark.parametrize(("setting", "code"), [("on", pb.OK), ("off", pb.CONSUMER_GROUP_NOT_FOUND)])
async def test_an_official_clients_group_is_made_or_not(
    tmp_path: Path, setting: str, code: int
) -> None:
    async with broker_with(tmp_path, f"broker.auto_create_groups={setting}") as broker:
        async with grpc.aio.insecure_channel(broker.addresses["grpc"]) as channel:
            beat = channel.unary_unary(
                "/apache.rocketmq.v2.MessagingService/Heartbeat",
                pb.HeartbeatRequest.SerializeToString,
                pb.HeartbeatResponse.FromString,
            )
            request = pb.HeartbeatRequest(group=pb.Resource(name="fresh"))
            answer = await beat(request, metadata=(("x-mq-client-id", "c"),))
        assert answer.status.code == code


@pytest.mark.knob("broker.group_begin")
async def test_new_groups_begin_as_the_broker_states(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.group_begin=max") as broker:
        await broker.client.send_many(HELLO)
        made = await broker.client.admin.create_group("late")
        assert await broker.client.receive(ReceiveQuery("late", "orders")) == []
    assert (made.settings.begin, made.settings.begins_at_min) == ("max", False)


@pytest.mark.knob("broker.default_queue_count")
async def test_a_topic_is_made_with_so_many_queues(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.default_queue_count=3") as broker:
        await broker.client.send_many(HELLO)
        assert len((await broker.client.admin.describe_topic("orders")).queues) == 3


@pytest.mark.knob("limits.delay_max_ms")
async def test_a_message_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "limits.delay_max_ms=1h") as broker:
        assert await broker.client.send(Message("orders", b"x", delay_ms=3_600_000))
        with pytest.raises(ClientError, match="exceeds the limit of 1h"):
            await broker.client.send(Message("orders", b"x", delay_ms=3_600_001))


@pytest.mark.knob("broker.dedupe_window_ms")
async def test_what_is_sent_again_is_stored_once_for_a_while(tmp_path: Path) -> None:
    async with broker_with(tmp_path, "broker.dedupe_window_ms=1h") as broker:
        message = Message("orders", b"x", message_id="ID1")
        first, again = [await broker.client.send(message) for _ in range(2)]
        assert first == again


@pytest.mark.knob("broker.check_message_types")
@pytest.mark.parametrize("is_on", [True, False])
async def test_a_topic_takes_messages_of_its_type_where_that_is_checked(
    tmp_path: Path, is_on: bool
) -> None:
    async with broker_with(tmp_path, f"broker.check_message_types={is_on}".lower()) as broker:
        await broker.client.admin.create_topic("later", queue_count=1, type_name="delay")
        if is_on:
            with pytest.raises(ClientError, match="accepts 'DELAY' messages"):
                await broker.client.send(Message("later", b"x"))
        else:
            assert await broker.client.send(Message("later", b"x"))


@pytest.mark.knob("rpc.listen")
async def test_grpc_is_served_where_it_is_told(tmp_path: Path) -> None:
    with held_port("127.0.0.2:0") as free:
        given = f"rpc.listen={free}"
    async with broker_with(tmp_path, given) as broker:
        assert broker.addresses["grpc"] == free
        assert await broker.client.send_many(HELLO)


@pytest.mark.knob("http.listen")
async def test_http_is_served_where_it_is_told(tmp_path: Path) -> None:
    with held_port("127.0.0.2:0") as free:
        given = f"http.listen={free}"
    async with broker_with(tmp_path, given) as broker:
        assert broker.addresses["http"] == free
        _, writer = await asyncio.open_connection(*split_address(free))
        writer.close()
        await writer.wait_closed()


@pytest.mark.knob("rpc.shutdown_grace_ms")
@pytest.mark.parametrize(("grace", "is_answered"), [("1ms", False), ("60s", True)])
async def test_calls_may_finish_for_so_long(
    tmp_path: Path, grace: str, *, is_answered: bool
) -> None:
    disk = QuickDisk()
    given = f"rpc.shutdown_grace_ms={grace}"
    async with broker_with(tmp_path, given, stage=Stage(disk=disk)) as broker:
        await broker.client.send_many(HELLO)
        disk.synced.clear()
        with disk.held():
            sending = asyncio.create_task(broker.client.send_many(HELLO))
            await until(lambda: any("commitlog" in path.parts for path in disk.synced))
            broker.stop.set_result("test")
            if not is_answered:
                with pytest.raises(ClientError):
                    await sending
            else:
                await _draining(broker.client)
                assert not sending.done()
        if is_answered:
            assert len(await sending) == 1


async def _draining(client: AsyncClient) -> None:
    """Returns when new calls are refused."""
    with pytest.raises(ClientError):
        while True:
            await client.admin.store_status()
