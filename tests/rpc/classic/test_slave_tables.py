"""Tables that a slave copies: replies as a real master's, which a real slave recorded."""

import json
from collections.abc import AsyncIterator
from struct import Struct
from typing import Any, Final

import pytest

from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.messaging import ClassicMethods
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.services.replication.leader import SlaveRow
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker

CHECK: Final = Struct(">7q")
REAL: Final = {
    21: '{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1795697817520},'
    '"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1795697737141},'
    '"topicConfigTable":{},"topicQueueMappingDetailMap":{}}',
    43: '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795697737137},'
    '"groupTopicMap":{},"offsetTable":{},"pullOffsetTable":{}}',
    45: '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795697738574},'
    '"offsetTable":{"1":1}}',
    61: '{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1795697801052},'
    '"timingCount":{"TinyTopic":{"count":0,"timeStamp":1795697801052}}}',
    201: '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795697817295},'
    '"forbiddenTable":{},"subscriptionGroupTable":{}}',
    402: '{"messageRequestModeMap":{}}',
}
"""Replies of a real master by code, without the rows of topics and groups."""
LEFT_OUT: Final = {"groupTopicMap", "pullOffsetTable", "topicQueueMappingDetailMap"}
"""Members that a slave does without, and that are empty or derived."""


@pytest.fixture
async def client(broker: StoreBroker) -> AsyncIterator[RemotingPair]:
    """A connection to the broker."""
    made = RemotingPair(broker.classic.service())
    yield made
    made.server.cut_off()


async def body_of(client: RemotingPair, code: int) -> Any:
    reply = await client.ask(code)
    assert reply.code == 0
    assert b" " not in reply.body, "fastjson2 refuses unquoted keys behind white space"
    return json.loads(reply.body)


@pytest.mark.parametrize("code", REAL)
async def test_replies_have_the_members_of_a_real_masters(client: RemotingPair, code: int) -> None:
    ours, real = await body_of(client, code), json.loads(REAL[code])
    assert set(real) - LEFT_OUT <= set(ours) <= set(real)
    for name, value in ours.items():
        assert type(value) is type(real[name]), name
        if name.endswith("ataVersion"):
            assert set(value) == set(real[name])


async def test_offsets_are_copied_with_quoted_queues(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.ensure("g")
    await broker.add("orders", b"a", b"b")
    await broker.store.tables.commit("g", "orders", 0, 2)
    assert (await body_of(client, 43))["offsetTable"] == {"orders@g": {"0": 2}}


async def test_delivered_offsets_of_levels_are_copied(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.delay_offsets.put({1: 28, 2: 8}, 0, {})
    table = await body_of(client, 45)
    assert table["offsetTable"] == {"1": 28, "2": 8}
    assert table["dataVersion"]["counter"] == 1


async def test_modes_of_groups_are_copied(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.store.tables.modes.put("g", "orders", "POP", 3)
    row = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 3, "topic": "orders"}
    assert await body_of(client, 402) == {"messageRequestModeMap": {"orders": {"g": row}}}


async def test_the_timers_progress_is_copied_without_leading_the_slave(
    broker: StoreBroker, client: RemotingPair
) -> None:
    check = broker.store.tables.timer_check
    check.progress = check.progress._replace(
        read_ms=1_000, log_flushed=52, queue_offset=7, queue_limit=9
    )
    reply = await client.ask(60)
    assert CHECK.unpack(reply.body)[:4] == (1_000, 52, 7, 7)


@pytest.mark.parametrize("code", [21, 201])
async def test_a_change_changes_the_version(
    broker: StoreBroker, client: RemotingPair, code: int
) -> None:
    before = (await body_of(client, code))["dataVersion"]
    await broker.store.tables.topics.create("new", queue_count=1)
    await broker.store.tables.groups.ensure("new")
    assert (await body_of(client, code))["dataVersion"]["counter"] > before["counter"]


async def test_the_state_of_replication_lists_slaves(broker: StoreBroker) -> None:
    rules = ClassicRules(
        "broker-a", "DefaultCluster", "", "10.0.0.9:8081", permission=lambda: 6,
        auto_create_topics=lambda: True, queue_count=lambda: 2, auto_create_groups=lambda: True,
    )  # fmt: skip
    rows = [
        SlaveRow("10.0.0.2:4100", 900, 1_000, 100, is_connected=True),
        SlaveRow("10.0.0.3:4100", 0, 1_000, 1 << 30, is_connected=True),
        SlaveRow("10.0.0.4", 5, 5, 995, is_connected=False),
    ]
    admin = ClassicAdmin(broker.backing, rules, Controls(replicas=lambda: rows))
    client = RemotingPair(ClassicMethods(broker.backing, rules, admin).service())
    state = await body_of(client, 907)
    assert state["inSyncSlaveNums"] == 1
    assert [row["addr"] for row in state["haConnectionInfo"]] == ["10.0.0.2:4100", "10.0.0.3:4100"]
    assert state["haConnectionInfo"][0] == {
        "addr": "10.0.0.2:4100", "diff": 100, "inSync": True, "slaveAckOffset": 900,
        "transferFromWhere": 1_000, "transferredByteInSecond": 0,
    }  # fmt: skip
    client.server.cut_off()
