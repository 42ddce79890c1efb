"""Signed requests of classic consumers need permissions on their group and topic."""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1
from hmac import digest

import pytest

from pocketmq.filter.parsing import parse_filter
from pocketmq.format.receipt_handle import read_handle
from pocketmq.model.access import Grant
from pocketmq.model.consuming import ReceiveRequest
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.signing import signed_by_fields, signed_content
from pocketmq.rpc.guard import Guard
from pocketmq.store.read.cold_read import value_of
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.users import SECRET, access_of, grant_of
from tests.rpc.classic.consumer import fields, heartbeat


@pytest.fixture
async def client(broker: StoreBroker) -> RemotingPair:
    """A client of a broker with the user `app`, who may read `orders` with the group `g`."""
    broker.auto_create_groups = True
    await broker.add("orders", b"x")
    return guarded(
        broker, grant_of("app", "sub", "group:g"), grant_of("app", "sub", "topic:orders")
    )


def guarded(broker: StoreBroker, *grants: Grant) -> RemotingPair:
    """Returns a client of a broker that checks these grants of `app`."""
    guard = Guard(access_of(*grants), None, signed_by_fields)
    return RemotingPair(guard.guarded(broker.classic.service(), TABLE.rules("DefaultCluster")))


async def ask(
    client: RemotingPair, code: int, given: Mapping[str, str] = {}, body: bytes = b""
) -> int:
    """Sends a signed request; returns the code of its answer."""
    signing = {**given, "AccessKey": "app"}
    content = signed_content(Command(code, signing, body))
    signature = b64encode(digest(SECRET.encode(), content, sha1)).decode()
    reply = await client.ask(code, {**signing, "Signature": signature}, body)
    return reply.code


def lock(group: str) -> bytes:
    queue = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
    return json.dumps({"consumerGroup": group, "clientId": "c", "mqSet": [queue]}).encode()


async def test_a_consumer_may_use_its_own_group_and_topic(client: RemotingPair) -> None:
    own = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    assert await ask(client, 34, {}, heartbeat("g", "orders", "%RETRY%g")) == 0
    assert await ask(client, 11, fields("g", "orders")) == 0
    assert await ask(client, 11, fields("g", "%RETRY%g")) == 19
    assert await ask(client, 15, {**own, "commitOffset": "1"}) == 0
    assert await ask(client, 30, own) == 0
    assert await ask(client, 38, own) == 0
    assert await ask(client, 41, {}, lock("g")) == 0
    assert await ask(client, 36, {"group": "g", "offset": "0"}) == 0


async def test_it_may_use_no_other(broker: StoreBroker, client: RemotingPair) -> None:
    broker.store.tables.topics.adopt("secret", 1)
    other = await broker.add("secret", b"x")
    place = str(other.physical_offsets[0])
    own = {"consumerGroup": "h", "topic": "secret", "queueId": "0"}
    assert await ask(client, 34, {}, heartbeat("h", "orders")) == 16
    assert await ask(client, 11, fields("h", "orders")) == 16
    assert await ask(client, 11, fields("g", "secret", sysFlag="4")) == 16
    assert await ask(client, 15, {**own, "commitOffset": "0"}) == 16
    assert await ask(client, 30, own) == 16
    assert await ask(client, 38, own) == 16
    assert await ask(client, 41, {}, lock("h")) == 16
    assert await ask(client, 36, {"group": "h", "offset": "0"}) == 16
    assert await ask(client, 36, {"group": "g", "offset": place}) == 16
    assert await ask(client, 33, {"offset": place}) == 22
    assert (await client.ask(34, {}, heartbeat("g", "orders"))).code == 16


def query(group: str, topic: str) -> bytes:
    asked = {"consumerGroup": group, "topic": topic, "clientId": "c1", "strategyName": "AVG"}
    return json.dumps(asked).encode()


def mode(group: str) -> bytes:
    return json.dumps({"consumerGroup": group, "topic": "orders", "mode": "POP"}).encode()


def acks(*pairs: tuple[str, str]) -> bytes:
    """Returns a request that acknowledges the first message for these groups and topics."""
    rows = [
        {"c": group, "t": topic, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 9, "b": "AQ=="}
        for group, topic in pairs
    ]
    return json.dumps({"brokerName": "broker-a", "acks": rows}).encode()


async def test_consumers_that_pop_use_their_own_group_and_topic(client: RemotingPair) -> None:
    assert await ask(client, 34, {}, heartbeat("g", "orders")) == 0
    assert await ask(client, 400, {}, query("g", "orders")) == 0
    for group, topic in (("h", "orders"), ("g", "secret"), ("h", "secret")):
        assert await ask(client, 400, {}, query(group, topic)) == 16
    assert (await client.ask(400, {}, query("g", "orders"))).code == 16


async def test_only_users_who_may_change_a_group_set_its_mode(
    broker: StoreBroker, client: RemotingPair
) -> None:
    modes = broker.store.tables.modes
    for group in ("g", "h"):
        assert await ask(client, 401, {}, mode(group)) == 16
    assert (await client.ask(401, {}, mode("g"))).code == 16
    assert not modes.pops("g")
    assert broker.store.tables.groups.find("h") is None
    operator = guarded(broker, grant_of("app", "update", "group:g"))
    assert await ask(operator, 401, {}, mode("h")) == 16
    assert await ask(operator, 401, {}, mode("g")) == 0
    assert modes.pops("g")


async def test_a_batch_with_one_message_of_another_group_acknowledges_none(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.ensure("g")
    wanted = ReceiveRequest("g", "orders", parse_filter("*"), 1, 10_000, 0)
    received = await value_of(broker.consume.receive(wanted))
    assert broker.consume.lease_count == 1
    found = read_handle(received.handles[0])
    assert found is not None
    place, _ = found
    body = json.loads(acks(("g", "orders")))
    (row,) = body["acks"]
    row |= {"so": place.start_offset, "pt": place.popped_at_ms, "it": place.invisible_ms}
    row |= {"rq": place.revive_queue, "q": place.queue_id}
    for other in (("h", "orders"), ("g", "secret")):
        mixed = {**body, "acks": [row, *json.loads(acks(other))["acks"]]}
        assert await ask(client, 200151, {}, json.dumps(mixed).encode()) == 16
        assert broker.consume.lease_count == 1
    unsigned = await client.ask(200151, {}, json.dumps(body).encode())
    assert (unsigned.code, broker.consume.lease_count) == (16, 1)
    assert await ask(client, 200151, {}, json.dumps(body).encode()) == 0
    assert broker.consume.lease_count == 0


# -- operators' requests -----------------------------------------------------------------------
async def test_operators_need_permissions_on_what_they_read(client: RemotingPair) -> None:
    assert await ask(client, 202, {"topic": "orders"}) == 0
    assert await ask(client, 202, {"topic": "secret"}) == 16
    assert await ask(client, 208, {"consumerGroup": "g", "topic": "secret"}) == 16
    assert await ask(client, 203, {"consumerGroup": "h"}) == 16
    assert await ask(client, 307, {"consumerGroup": "h", "clientId": "c"}) == 16
    assert await ask(client, 309, {"consumerGroup": "g", "clientId": "c", "msgId": "m"}) == 16
    assert await ask(client, 204, {"producerGroup": "h"}) == 16
    for code in (21, 26, 28, 201, 319, 328, 907):
        assert await ask(client, code) == 16, code
    assert await ask(client, 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "orders"}) == 16


async def test_operators_need_permissions_on_what_they_change(
    broker: StoreBroker, client: RemotingPair
) -> None:
    topic = {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    for name in ("orders", "new"):
        assert await ask(client, 17, {**topic, "topic": name}) == 16
        rows: dict[str, list[dict[str, str]]] = {"topicConfigList": [{"topicName": name}]}
        assert await ask(client, 18, {}, json.dumps(rows).encode()) == 16
        assert await ask(client, 215, {"topic": name}) == 16
        assert await ask(client, 216, {"topic": name}) == 16
    for name in ("g", "new"):
        assert await ask(client, 200, {}, json.dumps({"groupName": name}).encode()) == 16
        rows = {"groupConfigList": [{"groupName": name}]}
        assert await ask(client, 225, {}, json.dumps(rows).encode()) == 16
        assert await ask(client, 207, {"groupName": name}) == 16
    assert broker.store.tables.topics.find("new") is None


async def test_groups_of_others_are_not_listed(broker: StoreBroker, client: RemotingPair) -> None:
    for group in ("g", "h"):
        await broker.store.tables.commit(group, "orders", 0, 1)
    signing = {"topic": "orders", "AccessKey": "app"}
    content = signed_content(Command(300, signing))
    signature = b64encode(digest(SECRET.encode(), content, sha1)).decode()
    reply = await client.ask(300, {**signing, "Signature": signature})
    assert json.loads(reply.body) == {"groupList": ["g"]}
