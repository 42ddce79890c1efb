"""Settings of the name server, and its switch for routes without queues for sends."""

import json
from pathlib import Path

import pytest

from pocketmq.store.tables import name_settings
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker, store_broker

ORDER = "ORDER_TOPIC_CONFIG"


async def put(client: RemotingPair, namespace: str, key: str, value: str) -> Command:
    """Sends a setting."""
    return await client.ask(100, {"namespace": namespace, "key": key, "value": value})


async def got(client: RemotingPair, namespace: str, key: str) -> tuple[int, str]:
    """Returns code and value of a setting."""
    reply = await client.ask(101, {"namespace": namespace, "key": key})
    return reply.code, reply.fields.get("value", "")


async def test_a_setting_is_kept_until_it_is_deleted(client: RemotingPair) -> None:
    assert await got(client, "ns1", "k1") == (22, "")
    assert (await put(client, "ns1", "k1", "v1")).code == 0
    assert (await put(client, "ns1", "k2", "vä")).code == 0
    assert await got(client, "ns1", "k1") == (0, "v1")
    listed = await client.ask(219, {"namespace": "ns1"})
    assert json.loads(listed.body) == {"table": {"k1": "v1", "k2": "vä"}}
    for key in ("k1", "k2", "k2"):
        assert (await client.ask(102, {"namespace": "ns1", "key": key})).code == 0
    assert await got(client, "ns1", "k2") == (22, "")
    assert (await client.ask(219, {"namespace": "ns1"})).code == 22


async def test_settings_are_in_rocketmqs_file_and_read_again(tmp_path: Path) -> None:
    async with store_broker(tmp_path) as broker:
        client = RemotingPair(broker.classic.service())
        assert (await put(client, "ns1", "k1", "v1")).code == 0
        client.server.cut_off()
    written = json.loads((tmp_path / "config" / "kvConfig.json").read_text())
    assert written["configTable"] == {"ns1": {"k1": "v1"}}
    async with store_broker(tmp_path) as broker:
        client = RemotingPair(broker.classic.service())
        assert await got(client, "ns1", "k1") == (0, "v1")
        client.server.cut_off()


async def test_routes_have_the_queues_of_topics_in_order(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert await got(client, ORDER, "orders") == (22, "")
    assert (await put(client, ORDER, "orders", "broker-a:1;broker-b:4")).code == 0
    route = json.loads((await client.ask(105, {"topic": "orders"})).body)
    assert route["orderTopicConf"] == "broker-a:1;broker-b:4"
    assert await got(client, ORDER, "orders") == (0, "broker-a:1;broker-b:4")
    listed = json.loads((await client.ask(219, {"namespace": ORDER})).body)
    assert listed == {"table": {"orders": "broker-a:1;broker-b:4"}}
    await client.ask(102, {"namespace": ORDER, "key": "orders"})
    assert "orderTopicConf" not in json.loads((await client.ask(105, {"topic": "orders"})).body)


@pytest.mark.parametrize(
    "value", ["", "4", "broker-a", "broker-a:", "broker-a:0", "broker-a:x", ";"]
)
async def test_queues_in_order_that_no_client_can_read_are_refused(
    client: RemotingPair, value: str
) -> None:
    reply = await put(client, ORDER, "orders", value)
    assert (reply.code, "broker:queues" in reply.remark) == (1, True)
    assert await got(client, ORDER, "orders") == (22, "")


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [
        ("", "k", "v"), ("n", "", "v"), ("n" * 256, "k", "v"), ("n", "a\nb", "v"),
        ("n", "k", "v" * 32_768),
    ],
)  # fmt: skip
async def test_illegal_names_and_long_values_are_refused(
    client: RemotingPair, namespace: str, key: str, value: str
) -> None:
    assert (await put(client, namespace, key, value)).code == 1
    assert (await client.ask(219, {"namespace": namespace})).code == 22


async def test_settings_have_an_upper_limit(
    client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_settings, "SETTINGS_MAX", 2)
    for key in ("a", "b", "a"):
        assert (await put(client, f"ns-{key}", key, "v")).code == 0
    refused = await put(client, "ns-c", "c", "v")
    assert (refused.code, "at most 2 settings" in refused.remark) == (2, True)


# -- write permission of routes --------------------------------------------------------------------
async def test_routes_offer_no_queue_for_sends_while_their_write_permission_is_wiped(
    client: RemotingPair,
) -> None:
    async def permission() -> int:
        route = json.loads((await client.ask(105, {"topic": "orders"})).body)
        found: int = route["queueDatas"][0]["perm"]
        return found

    assert await permission() == 6
    assert (await client.ask(205, {"brokerName": "other"})).fields == {"wipeTopicCount": "0"}
    assert await permission() == 6
    assert (await client.ask(205, {"brokerName": "broker-a"})).fields == {"wipeTopicCount": "1"}
    assert await permission() == 4
    assert (await client.ask(327, {"brokerName": "broker-a"})).fields == {"addTopicCount": "1"}
    assert await permission() == 6
