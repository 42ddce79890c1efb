"""Resets by operators: recorded requests, and connected consumers that must move."""

import asyncio
import gc
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.store.tables.offset_resets import KEPT_MS
from pocketmq.wire.remoting import ONE_WAY, RESPONSE, Command
from tests.kit import remoting_pair
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import CALL, StoreBroker
from tests.rpc.classic.consumer import beat, bodies, fields, heartbeat, pull

RECORDED: Final = Path(remoting_pair.__file__).parent / "remoting" / "resets.jsonl"
ROWS: Final = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
ENDS: Final = re.compile(r"}:(\d+)")
WAIT: Final = {"sysFlag": "2"}
KEY: Final = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
QUEUE: Final = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}


@pytest.fixture
async def queue(broker: StoreBroker, client: RemotingPair) -> None:
    """Four messages in a queue, and a consumer that has committed 3."""
    broker.auto_create_groups = True
    await broker.add("orders", b"a", b"b", b"c", b"d")
    await beat(client, "g", "orders")
    await client.ask(15, {**QUEUE, "commitOffset": "3"})


async def reset(client: RemotingPair, offset: str = "1", **changed: str) -> Command:
    """Resets group g in queue 0 of orders."""
    asked = {
        "group": "g", "topic": "orders", "timestamp": "-1", "isForce": "true", "queueId": "0",
        "offset": offset,
    }  # fmt: skip
    return await client.ask(222, asked | changed)


async def committed(client: RemotingPair) -> str:
    return (await client.ask(14, QUEUE)).fields["offset"]


@pytest.mark.parametrize("row", ROWS, ids=[row["recording"] for row in ROWS])
async def test_recorded_resets_have_rocketmqs_replies(
    broker: StoreBroker, client: RemotingPair, row: dict[str, Any]
) -> None:
    broker.auto_create_groups = True
    asked, reply = row["fields"], row["reply"]
    ends = [int(end) for end in ENDS.findall(reply["body"])]
    topic, group = asked["topic"], asked["group"]
    broker.store.tables.topics.adopt(topic, len(ends))
    broker.clock.wall = int(asked["timestamp"]) + 1_000 if int(asked["timestamp"]) > 0 else 5_000
    for queue_id, end in enumerate(ends):
        await broker.add(topic, *[b"x"] * (end or 3), queue_id=queue_id)
    await beat(client, group, topic)
    found = await client.ask(222, asked)
    assert (found.code, found.fields, found.body.decode()) == (
        reply["code"], reply["fields"], reply["body"],
    )  # fmt: skip
    if "pull" in row:
        await broker.add(topic, b"y", queue_id=2)
        moved = await pull(client, group, topic, queueId="2", offset="0")
        assert (moved.code, moved.remark, moved.fields) == (
            row["pull"]["code"], row["pull"]["remark"], row["pull"]["fields"],
        )  # fmt: skip


@pytest.mark.usefixtures("queue")
async def test_the_next_pull_is_answered_with_the_new_offset(client: RemotingPair) -> None:
    await reset(client)
    moved = await pull(client, "g", "orders", offset="3", sysFlag="1", commitOffset="4")
    assert (moved.code, moved.fields["nextBeginOffset"], moved.body) == (21, "1", b"")
    assert await committed(client) == "1"
    assert bodies(await pull(client, "g", "orders", offset="1")) == [b"b", b"c", b"d"]


@pytest.mark.usefixtures("queue")
async def test_a_waiting_pull_is_answered_at_once(client: RemotingPair) -> None:
    number = client.send(11, fields("g", "orders", offset="4", **WAIT))
    await client.settled()
    await reset(client)
    await client.settled()
    reply = client.replies[number]
    assert (reply.code, reply.remark, reply.fields["nextBeginOffset"]) == (21, "OFFSET_RESET", "1")
    assert bodies(await pull(client, "g", "orders", offset="1")) == [b"b", b"c", b"d"]


async def test_pulls_of_others_keep_waiting(broker: StoreBroker, client: RemotingPair) -> None:
    broker.auto_create_groups = True
    await broker.add("orders", b"a")
    broker.store.tables.topics.adopt("bills", 1)
    await broker.add("bills", b"a")
    for group in ("g", "h"):
        await beat(client, group, "orders", "bills")
    asked = (("h", "orders"), ("g", "bills"))
    numbers = [client.send(11, fields(*one, offset="1", **WAIT)) for one in asked]
    await client.settled()
    assert (await reset(client, "0")).code == 0
    await client.settled()
    assert not client.replies.keys() & {*numbers}


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("flag", [0, ONE_WAY])
async def test_commits_of_the_old_position_are_ignored(client: RemotingPair, flag: int) -> None:
    async def commits(queue_offset: str) -> str:
        client.send(15, {**QUEUE, "commitOffset": queue_offset}, flag=flag)
        await client.idle()
        return await committed(client)

    await reset(client)
    assert await commits("4") == "1"
    await pull(client, "g", "orders", offset="3")
    assert await commits("4") == "1", "the client for Java 4 still commits for ten seconds"
    await pull(client, "g", "orders", offset="1")
    assert await commits("2") == "2"


@pytest.mark.usefixtures("queue")
async def test_resets_of_the_api_move_classic_consumers(
    broker: StoreBroker, client: RemotingPair
) -> None:
    asked = pb.ResetOffsetsRequest(group="g", topic="orders", offset=2, queue_ids=[0])
    asked.dry_run = True
    await broker.admin.reset_offsets(asked, CALL)
    assert (await pull(client, "g", "orders", offset="3")).code == 0
    asked.dry_run = False
    await broker.admin.reset_offsets(asked, CALL)
    assert (await pull(client, "g", "orders", offset="3")).fields["nextBeginOffset"] == "2"


@pytest.mark.usefixtures("queue")
async def test_a_reset_is_for_consumers_that_were_connected(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await client.ask(35, {"clientID": "c1", "consumerGroup": "g"})
    await reset(client)
    await beat(client, "g", "orders")
    assert (await pull(client, "g", "orders", offset="3")).code == 0
    await reset(client)
    broker.clock.advance(KEPT_MS)
    await client.ask(15, {**QUEUE, "commitOffset": "4"})
    broker.clock.advance(KEPT_MS)
    assert (await pull(client, "g", "orders", offset="3")).code == 21
    await reset(client)
    broker.clock.advance(KEPT_MS + 1)
    assert (await pull(client, "g", "orders", offset="3")).code == 0


@pytest.mark.usefixtures("queue")
async def test_a_pending_reset_ends_with_its_topic(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await reset(client)
    await broker.store.tables.offsets.remove_topic("orders")
    assert (await pull(client, "g", "orders", offset="3")).code == 0


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group": "absent"}, 26), ({"topic": "absent"}, 17), ({"queueId": "9"}, 1),
        ({"offset": "5"}, 1), ({"timestamp": "x"}, 1), ({"group": "a b"}, 1),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("queue")
async def test_a_wrong_reset_changes_nothing(
    client: RemotingPair, changed: dict[str, str], code: int
) -> None:
    assert (await reset(client, **changed)).code == code
    assert await committed(client) == "3"
    assert (await pull(client, "g", "orders", offset="3")).code == 0


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("JAVA", f'{{"offsetTable":{{{KEY}:1}}}}'),
        ("CPP", f'{{"offsetTable":[{KEY[:-1]},"offset":1}}]}}'),
    ],
)  # fmt: skip
async def test_members_that_broadcast_are_notified(
    broker: StoreBroker, client: RemotingPair, language: str, body: str
) -> None:
    broker.auto_create_groups = True
    await broker.add("orders", b"a", b"b")
    told_by = heartbeat("g", "orders", model="BROADCASTING")
    await client.ask(34, {}, told_by, language=language)
    await reset(client)
    told = next(one for one in client.asked if one.code == 220)
    assert told.is_one_way
    assert (told.fields["group"], told.fields["topic"]) == ("g", "orders")
    assert told.body.decode() == body
    assert (await pull(client, "g", "orders")).code == 0


async def test_the_status_of_consumers_is_what_they_report(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = True
    await broker.add("orders", b"a", b"b")
    asked = {"group": "g", "topic": "orders"}
    reply = await client.ask(223, asked)
    assert (reply.code, reply.remark) == (1, "No Any Consumer online in the consumer group: [g]")
    await beat(client, "g", "orders")
    for told, shown in (
        (f'{{"messageQueueTable":{{{KEY}:2}}}}', f'"c1":{{{KEY}:2}}'),
        ('{"messageQueueTable":{}}', '"c1":{}'),
        ('{"messageQueueTable":[]}', ""),
        ("{", ""),
        (f'{{"messageQueueTable":{{{KEY}:"2"}}}}', ""),
    ):
        number = client.send(223, {**asked, "clientAddr": "c1"})
        await client.settled()
        question = client.asked.pop()
        assert (question.code, question.fields) == (221, asked)
        client.put(Command(0, {}, told.encode(), question.opaque, flag=RESPONSE))
        await client.settled()
        expected = f'{{"consumerTable":{{{shown}}},"messageQueueTable":{{}}}}'
        assert (client.replies[number].code, client.replies[number].body.decode()) == (0, expected)
    assert (await client.ask(223, {**asked, "clientAddr": "other"})).code == 1


async def test_an_operator_who_is_gone_leaves_no_error_behind(
    broker: StoreBroker, client: RemotingPair
) -> None:
    """The consumer is asked, and no operator waits for its answer any more."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    broker.auto_create_groups = True
    await broker.add("orders", b"a")
    await beat(client, "g", "orders")
    operator = RemotingPair(edge=client.edge)
    operator.send(223, {"group": "g", "topic": "orders"})
    await operator.settled()
    operator.lose()
    await operator.idle()
    gc.collect()
    assert errors == []


@pytest.mark.usefixtures("queue")
async def test_offsets_are_cloned_in_one_topic_or_in_all(
    broker: StoreBroker, client: RemotingPair
) -> None:
    find = broker.store.tables.offsets.find
    asked = {"srcGroup": "g", "destGroup": "h", "topic": "orders", "offline": "true"}
    reply = await client.ask(314, asked)
    assert (reply.code, reply.body, find("h", "orders", 0)) == (0, b"", 3)
    assert (await client.ask(314, {"srcGroup": "g", "destGroup": "i"})).code == 0
    assert find("i", "orders", 0) == 3
    for changed, code in (({"srcGroup": "none"}, 26), ({"topic": "none"}, 17)):
        assert (await client.ask(314, asked | {"destGroup": "j"} | changed)).code == code
    assert (await client.ask(314, asked | {"destGroup": "g"})).code == 1
    assert broker.store.tables.groups.find("j") is None
