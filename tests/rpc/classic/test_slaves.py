"""Slave brokers that register: the recorded session of a real one, and who is refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.model.step import Now
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.methods import ClassicAdmin
from pocketmq.rpc.classic.messaging import ClassicMethods
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.services.sessions.slaves import SILENCE_MS, SLAVES_MAX
from pocketmq.wire.remoting import Command
from tests.kit import remoting_pair
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker

RECORDED: Final = Path(remoting_pair.__file__).parent / "remoting" / "slave.jsonl"
ROWS: Final = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
SLAVE: Final = {
    "brokerName": "tiny-a", "clusterName": "DefaultCluster", "brokerAddr": "127.0.0.1:24821",
    "brokerId": "1",
}  # fmt: skip
MASTER_ADDRESS: Final = "127.0.0.1:34911"


def pair(broker: StoreBroker, peer: str = "ipv4:127.0.0.1:7", **changed: Any) -> RemotingPair:
    """Returns a connection to a broker that is the recorded master."""
    rules = ClassicRules(
        "tiny-a", "DefaultCluster", MASTER_ADDRESS, MASTER_ADDRESS, permission=lambda: 6,
        auto_create_topics=lambda: True, queue_count=lambda: 2, auto_create_groups=lambda: True,
        ha_port=lambda: 34_912,
    )._replace(**changed)  # fmt: skip
    admin = ClassicAdmin(broker.backing, rules, Controls())
    made = RemotingPair(ClassicMethods(broker.backing, rules, admin).service())
    made.server.peer = peer
    return made


@pytest.fixture
async def slave(broker: StoreBroker) -> AsyncIterator[RemotingPair]:
    """A connection from loopback."""
    made = pair(broker)
    yield made
    made.server.cut_off()


async def registered(client: RemotingPair, body: bytes = b"", /, **changed: str) -> Command:
    return await client.ask(103, SLAVE | changed, body)


async def listed(client: RemotingPair) -> Any:
    """Returns the addresses of the cluster's brokers by id."""
    table = json.loads((await client.ask(106)).body)["brokerAddrTable"]
    return table["tiny-a"]["brokerAddrs"]


async def test_a_recorded_slave_gets_rocketmqs_replies(slave: RemotingPair) -> None:
    for row in ROWS:
        reply = await slave.ask(row["code"], row["fields"], row["body"].encode())
        told = row["reply"]
        # RocketMQ writes ids as numbers, which only fastjson reads; PocketMQ quotes them.
        expected = told["body"].replace("{0:", '{"0":').replace(",1:", ',"1":')
        assert (reply.code, reply.fields, reply.body.decode()) == (
            told["code"], told["fields"], expected,
        )  # fmt: skip
    assert await listed(slave) == {"0": MASTER_ADDRESS}


async def test_a_slave_is_listed_until_its_connection_ends(
    broker: StoreBroker, slave: RemotingPair
) -> None:
    other = pair(broker)
    await registered(slave, brokerId="2")
    await registered(other, brokerId="1", brokerAddr="127.0.0.1:9")
    expected = {"0": MASTER_ADDRESS, "1": "127.0.0.1:9", "2": SLAVE["brokerAddr"]}
    assert await listed(slave) == expected
    assert [*await listed(slave)] == ["0", "1", "2"]
    other.lose()
    assert await listed(slave) == {"0": MASTER_ADDRESS, "2": SLAVE["brokerAddr"]}
    route = json.loads((await slave.ask(105, {"topic": "TBW102"})).body)
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": MASTER_ADDRESS}


async def test_an_old_connection_does_not_remove_a_slave_that_came_back(
    broker: StoreBroker, slave: RemotingPair
) -> None:
    old = pair(broker)
    await registered(old)
    await registered(slave)
    old.lose()
    assert len(await listed(slave)) == 2
    await slave.ask(104, {**SLAVE, "brokerAddr": "127.0.0.1:1"})
    assert len(await listed(slave)) == 2
    await slave.ask(104, SLAVE)
    assert len(await listed(slave)) == 1


async def test_a_silent_slave_is_removed(broker: StoreBroker, slave: RemotingPair) -> None:
    async def after(passed_ms: int) -> int:
        broker.clock.advance(passed_ms)
        broker.sessions.step(Now(broker.clock.monotonic_ms(), broker.clock.wall_ms()))
        return len(await listed(slave))

    await registered(slave)
    assert await after(SILENCE_MS) == 2
    await registered(slave)
    assert await after(SILENCE_MS) == 2
    assert await after(1) == 1


async def test_unchanged_topics_are_a_heartbeat(broker: StoreBroker, slave: RemotingPair) -> None:
    version = {"counter": 2, "stateVersion": 0, "timestamp": 5}
    body = json.dumps({"topicConfigSerializeWrapper": {"dataVersion": version}}).encode()

    async def changed(**own: int) -> str:
        content = json.dumps(version | own).encode()
        return (await slave.ask(322, SLAVE, content)).fields["changed"]

    assert await changed() == "true"
    await registered(slave, body)
    assert await changed() == "false"
    reply = await slave.ask(322, SLAVE, json.dumps(version).encode())
    assert json.loads(reply.body) == version
    assert await changed(counter=3) == "true"
    broker.clock.advance(SILENCE_MS)
    await changed()
    broker.clock.advance(1)
    broker.sessions.step(Now(broker.clock.monotonic_ms(), broker.clock.wall_ms()))
    assert len(await listed(slave)) == 2


@pytest.mark.parametrize(
    ("changed", "code", "told"),
    [
        ({"brokerId": "0"}, 3, "the master 'tiny-a' of cluster 'DefaultCluster': this name serv"),
        ({"brokerId": "0", "brokerName": "other"}, 3, "the master 'other'"),
        ({"brokerName": "other"}, 3, "start a name server of RocketMQ for other brokers"),
        ({"clusterName": "Other"}, 3, "cluster 'Other'"),
        ({"brokerId": "-1"}, 1, "brokerId"), ({"brokerId": "x"}, 1, "brokerId"),
        ({"brokerId": "2147483648"}, 1, "brokerId"), ({"bodyCrc32": "7"}, 1, "bodyCrc32"),
        ({"brokerAddr": "host"}, 1, "HOST:PORT"), ({"brokerAddr": "a b:1"}, 1, "HOST:PORT"),
        ({"brokerAddr": "h:65536"}, 1, "HOST:PORT"), ({"brokerAddr": "h" * 300 + ":1"}, 1, "HOST"),
    ],
)  # fmt: skip
async def test_other_registrations_are_refused(
    slave: RemotingPair, changed: dict[str, str], code: int, told: str
) -> None:
    reply = await registered(slave, **changed)
    assert reply.code == code
    assert told in reply.remark
    assert await listed(slave) == {"0": MASTER_ADDRESS}


@pytest.mark.parametrize("code", [103, 104, 322])
async def test_strangers_register_only_signed(
    broker: StoreBroker, slave: RemotingPair, code: int
) -> None:
    await registered(slave)
    for peer in ("ipv4:192.0.2.1:7", "ipv6:%5B2001:db8::1%5D:7", "odd"):
        stranger = pair(broker, peer)
        reply = await stranger.ask(code, {**SLAVE, "brokerAddr": "192.0.2.1:9"}, b"{}")
        assert (reply.code, "loopback" in reply.remark) == (16, True)
        stranger.server.cut_off()
    assert (await listed(slave))["1"] == SLAVE["brokerAddr"]
    near = pair(broker, "ipv6:%5B::1%5D:7")
    assert (await near.ask(code, SLAVE, b"{}")).code == 0
    signed = pair(broker, "ipv4:192.0.2.1:7", is_signed=True)
    assert (await signed.ask(code, SLAVE, b"{}")).code == 0


async def test_slaves_are_counted_and_one_address_is_one_slave(slave: RemotingPair) -> None:
    for number in range(1, SLAVES_MAX + 1):
        reply = await registered(slave, brokerId=str(number), brokerAddr=f"127.0.0.1:{number}")
        assert reply.code == 0
    assert (await registered(slave, brokerId="99", brokerAddr="127.0.0.1:99")).code != 0
    assert (await registered(slave, brokerId="99", brokerAddr="127.0.0.1:3")).code == 0
    assert "3" not in await listed(slave)
    assert len(await listed(slave)) == SLAVES_MAX + 1


async def test_a_master_without_replication_names_no_address_for_it(
    broker: StoreBroker, slave: RemotingPair
) -> None:
    client = pair(broker, ha_port=int)
    await broker.store.tables.topics.create("steps", queue_count=2)
    await broker.store.tables.topics.update("steps", order=True)
    reply = await registered(client, compressed="true")
    assert reply.fields == {"masterAddr": MASTER_ADDRESS}
    assert json.loads(reply.body) == {"table": {"steps": "tiny-a:2"}}
