"""Members of classic groups: heartbeats, notifications, leaving, silence, locks."""

import json
from collections.abc import Mapping

import pytest

from pocketmq.model.errors import GroupInUse
from pocketmq.model.step import Now
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.services.sessions.classic_groups import SILENCE_MS
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat, heartbeat, pull


def another(broker: StoreBroker) -> RemotingPair:
    """Returns another connected client."""
    return RemotingPair(broker.classic.service())


async def ids(client: RemotingPair, group: str = "g") -> list[str]:
    reply = await client.ask(38, {"consumerGroup": group})
    found: list[str] = json.loads(reply.body)["consumerIdList"]
    return found


async def test_a_heartbeat_creates_group_and_retry_topic_and_is_notified(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = True
    assert (await client.ask(105, {"topic": "%RETRY%g"})).code == 17
    assert (await beat(client, "g", "orders", "%RETRY%g")).code == 0
    assert [(one.code, one.fields, one.flag) for one in client.asked] == [
        (40, {"consumerGroup": "g"}, 2)
    ]
    route = json.loads((await client.ask(105, {"topic": "%RETRY%g"})).body)
    assert route["queueDatas"][0]["readQueueNums"] == 1
    reply = await client.ask(38, {"consumerGroup": "g"})
    assert reply.body == b'{"consumerIdList":["c1"]}'
    await beat(client, "g", "orders", "%RETRY%g")
    assert len(client.asked) == 1


async def test_groups_that_are_not_created_are_refused_alone(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.ensure("g")
    one, two = (json.loads(heartbeat(name, "orders")) for name in ("absent", "g"))
    one["consumerDataSet"] += two["consumerDataSet"]
    reply = await client.ask(34, {}, json.dumps(one).encode())
    assert reply.code == 26
    assert await ids(client) == ["c1"]


async def test_members_hear_of_each_that_joins_leaves_or_goes_away(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = True
    await beat(client, "g", "orders")
    other, third = another(broker), another(broker)
    await beat(other, "g", "orders", id="c2")
    await beat(third, "g", "orders", id="c3")
    await client.settled()
    assert (len(client.asked), await ids(client)) == (3, ["c1", "c2", "c3"])
    left = {"clientID": "c2", "consumerGroup": "g"}
    assert (await other.ask(35, left)).code == 0
    await client.settled()
    assert (len(client.asked), await ids(client)) == (4, ["c1", "c3"])
    third.lose()
    await client.settled()
    assert (len(client.asked), await ids(client)) == (5, ["c1"])
    other.server.cut_off()


async def test_broadcast_members_are_not_notified(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = True
    await beat(client, "g", "orders", model="BROADCASTING")
    assert client.asked == []
    assert await ids(client) == ["c1"]


async def test_a_silent_member_is_removed(broker: StoreBroker, client: RemotingPair) -> None:
    broker.auto_create_groups = True
    other = another(broker)
    await beat(client, "g", "orders")
    await beat(other, "g", "orders", id="c2")
    broker.clock.advance(SILENCE_MS)
    await beat(client, "g", "orders")
    broker.clock.advance(1)
    broker.sessions.step(Now(broker.clock.monotonic_ms(), broker.clock.wall_ms()))
    await client.settled()
    assert (len(client.asked), await ids(client)) == (3, ["c1"])
    other.server.cut_off()


async def test_an_unknown_group_has_no_members(broker: StoreBroker, client: RemotingPair) -> None:
    reply = await client.ask(38, {"consumerGroup": "g"})
    assert (reply.code, reply.remark) == (1, "no consumer for this group, g")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"clientID":""}', b'{"clientID":7}',
     b'{"clientID":"c","consumerDataSet":7}', b'{"clientID":"c","consumerDataSet":[7]}',
     b'{"clientID":"c","consumerDataSet":[{"subscriptionDataSet":[{"subVersion":-1}]}]}'],
)  # fmt: skip
async def test_a_body_that_is_no_heartbeat_is_refused(client: RemotingPair, body: bytes) -> None:
    reply = await client.ask(34, {}, body)
    assert reply.code == 1
    assert "Traceback" not in reply.remark


@pytest.mark.parametrize("text", [b"x\\ud800y", "x\ud800y".encode("utf-8", "surrogatepass")])
@pytest.mark.parametrize("code", [34, 41, 46])
async def test_half_a_surrogate_pair_in_a_body_harms_no_other_client(
    broker: StoreBroker, client: RemotingPair, code: int, text: bytes
) -> None:
    await broker.store.tables.groups.ensure("g")
    await beat(client, "g", "orders", id="good")
    bodies = {
        34: heartbeat("g", "orders", id="BAD", type="BAD"),
        41: b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"BAD","queueId":0}]}',
        46: b'{"group":"g","subscriptionData":{"topic":"orders","expressionType":"BAD"}}',
    }
    reply = await client.ask(code, {}, bodies[code].replace(b"BAD", text))
    assert (reply.code, "no JSON" in reply.remark) == (1, True)
    assert await ids(client) == ["good"]
    assert (await pull(client, "g", "orders")).code != 1


async def test_queues_are_locked_for_one_client(broker: StoreBroker, client: RemotingPair) -> None:
    queues = [{"topic": "orders", "brokerName": "broker-a", "queueId": n} for n in (0, 1)]

    def body(client_id: str, *wanted: Mapping[str, object]) -> bytes:
        content = {"consumerGroup": "g", "clientId": client_id, "mqSet": [*wanted]}
        return json.dumps(content).encode()

    reply = await client.ask(41, {}, body("c1", queues[0]))
    held = b'{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
    assert reply.body == b'{"lockOKMQSet":[' + held + b"]}"
    reply = await client.ask(41, {}, body("c2", *queues))
    assert json.loads(reply.body) == {"lockOKMQSet": [queues[1]]}
    assert (await client.ask(42, {}, body("c1", queues[0]))).code == 0
    reply = await client.ask(41, {}, body("c2", *queues))
    assert json.loads(reply.body) == {"lockOKMQSet": queues}


async def test_a_subscription_is_checked(client: RemotingPair) -> None:
    def body(expression: str) -> bytes:
        data = {"topic": "orders", "subString": expression, "expressionType": "SQL92"}
        return json.dumps({"clientId": "c", "group": "g", "subscriptionData": data}).encode()

    assert (await client.ask(46, {}, body("a > 1"))).code == 0
    assert (await client.ask(46, {}, body("a >"))).code == 23


# -- a group has classic clients or pop clients --------------------------------------------------


async def test_a_classic_group_gives_no_leases(broker: StoreBroker, client: RemotingPair) -> None:
    broker.auto_create_groups = True
    await beat(client, "g", "orders")
    request = pb.ReceiveRequest(group="g", topic="orders", max_messages=1)
    with pytest.raises(GroupInUse) as refusal:
        await broker.answer("Receive", request)
    assert "classic" in str(refusal.value)
    client.lose()
    await broker.answer("Receive", request)


async def test_a_group_of_pop_clients_is_refused_until_they_are_gone(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.ensure("g")
    await broker.add("orders", b"x")
    request = pb.ReceiveRequest(
        group="g", topic="orders", max_messages=1, client_id="pop", invisible_ms=200_000
    )
    await broker.answer("Receive", request)
    reply = await beat(client, "g", "orders")
    assert (reply.code, "pop clients" in reply.remark) == (1, True)
    with_filter = {"sysFlag": "4", "subscription": "*"}
    assert (await pull(client, "g", "orders", **with_filter)).code == 1
    await broker.pass_time(150_000)
    assert (await beat(client, "g", "orders")).code == 1  # Its lease is still open.
    await broker.pass_time(60_000)
    assert (await beat(client, "g", "orders")).code == 0
