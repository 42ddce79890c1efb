"""Requests of mqadmin and RocketMQ Dashboard that create, change and delete topics and groups."""

import json
from typing import Final

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.classic.admin import change_topics
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker

_TOPIC: Final = {
    "readQueueNums": "4", "perm": "6", "writeQueueNums": "4", "topicFilterType": "SINGLE_TAG",
    "topic": "AdmTopic", "attributes": "", "force": "false", "defaultTopic": "TBW102",
    "order": "false", "topicSysFlag": "0",
}  # fmt: skip
"""Fields of `mqadmin updateTopic`, as recorded."""
_GROUP: Final = (
    b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,'
    b'"consumeFromMinEnable":false,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    b'"groupName":"adm-group","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)
"""Body of `mqadmin updateSubGroup`, as recorded."""


async def test_a_topic_is_created_changed_and_deleted(
    broker: StoreBroker, client: RemotingPair
) -> None:
    find = broker.store.tables.topics.find
    assert (await client.ask(17, _TOPIC)).code == 0
    made = find("AdmTopic")
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count, made.permission) == (4, 4, 6)
    changes = {"perm": "4", "readQueueNums": "6", "attributes": "+message.type=FIFO"}
    assert (await client.ask(17, {**_TOPIC, **changes})).code == 0
    changed = find("AdmTopic")
    assert changed is not None
    assert (changed.read_queue_count, changed.write_queue_count, changed.permission) == (6, 4, 4)
    assert changed.attributes["message.type"] == "FIFO"
    for _ in range(2):
        assert (await client.ask(215, {"topic": "AdmTopic"})).code == 0
        reply = await client.ask(216, {"clusterName": "DefaultCluster", "topic": "AdmTopic"})
        assert reply.code == 0
    assert find("AdmTopic") is None


async def test_a_topic_is_created_with_its_settings_in_one_write(
    broker: StoreBroker, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: object) -> None:
        raise AssertionError("a second write")

    monkeypatch.setattr(change_topics, "update_topic", crash)
    given = {**_TOPIC, "perm": "4", "attributes": "+message.type=DELAY"}
    assert (await client.ask(17, given)).code == 0
    made = broker.store.tables.topics.existing("AdmTopic")
    assert (made.permission, made.attributes["message.type"]) == (4, "DELAY")


@pytest.mark.parametrize(
    "wrong",
    [
        {"writeQueueNums": "0"}, {"perm": "9"}, {"topic": "a/b"}, {"topic": "TBW102"},
        {"attributes": "message.type=FIFO"}, {"attributes": "-message.type"},
        {"attributes": "+colour=red"}, {"readQueueNums": "x"},
    ],
)  # fmt: skip
async def test_a_refused_topic_is_not_made(
    wrong: dict[str, str], broker: StoreBroker, client: RemotingPair
) -> None:
    before = [*broker.store.tables.topics.names()]
    assert (await client.ask(17, {**_TOPIC, **wrong})).code != 0
    assert [*broker.store.tables.topics.names()] == before


async def test_lists_create_topics_and_groups(broker: StoreBroker, client: RemotingPair) -> None:
    rows = [
        {"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "order": False}
        for name in ("a", "b")
    ]
    assert (await client.ask(18, {}, json.dumps({"topicConfigList": rows}).encode())).code == 0
    assert broker.store.tables.topics.existing("b").write_queue_count == 2
    groups: dict[str, list[dict[str, object]]] = {
        "groupConfigList": [{"groupName": "g"}, {"groupName": "h", "retryMaxTimes": -1}]
    }
    assert (await client.ask(225, {}, json.dumps(groups).encode())).code == 0
    assert broker.store.tables.groups.existing("h").name == "h"


async def test_a_group_is_created_and_changed(broker: StoreBroker, client: RemotingPair) -> None:
    for retries in (16, 3):
        body = _GROUP.replace(b'"retryMaxTimes":16', b'"retryMaxTimes":%d' % retries)
        assert (await client.ask(200, {}, body)).code == 0
        shown = json.loads((await client.ask(352, {"group": "adm-group"})).body)
        assert shown["retryMaxTimes"] == retries
        assert (shown["consumeBroadcastEnable"], shown["consumeFromMinEnable"]) == (False, False)
    for wrong in (b'{"groupName":"g","consumeEnable":1}', b'{"groupName":"g","retryMaxTimes":"x"}'):
        assert (await client.ask(200, {}, wrong)).code != 0
    assert broker.store.tables.groups.find("g") is None


@pytest.mark.parametrize(("clean", "left"), [("false", ["orders"]), ("true", [])])
async def test_a_deleted_group_keeps_offsets_unless_they_are_cleaned(
    clean: str, left: list[str], broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.groups.create("adm-group", GroupSettings())
    await broker.add("orders", b"a")
    await broker.store.tables.commit("adm-group", "orders", 0, 1)
    for _ in range(2):
        reply = await client.ask(207, {"groupName": "adm-group", "cleanOffset": clean})
        assert reply.code == 0
    assert broker.store.tables.groups.find("adm-group") is None
    assert [*broker.store.tables.offsets.all_of("adm-group")] == left
