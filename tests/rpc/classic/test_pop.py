"""Classic clients that pop: modes, assignments, leases, receipt handles, retries."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import pytest

from pocketmq.format.record import decode_record
from pocketmq.format.record_heads import split_pieces
from pocketmq.model.topic import TYPE_ATTRIBUTE
from pocketmq.rpc.classic.message_text import SET_BY_BROKER
from pocketmq.services.consume import position
from pocketmq.wire.remoting import BINARY, Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import until
from tests.rpc.classic.consumer import beat, bodies, pull

INVISIBLE_MS: Final = 60_000


@pytest.fixture(autouse=True)
def creates_groups(broker: StoreBroker) -> None:
    broker.auto_create_groups = True


def query(group: str = "g", topic: str = "orders", **own: Any) -> bytes:
    """Returns the body of a query of assignments, as the client for Java writes it."""
    usual = {
        "clientId": "c1", "consumerGroup": group, "messageModel": "CLUSTERING",
        "strategyName": "AVG", "topic": topic,
    }  # fmt: skip
    return json.dumps(usual | own).encode()


def mode(mode: str, group: str = "g", topic: str = "orders", **own: Any) -> bytes:
    """Returns the body of mqadmin setConsumeMode."""
    usual = {"consumerGroup": group, "mode": mode, "popShareQueueNum": -1, "topic": topic}
    return json.dumps(usual | own).encode()


async def assigned(client: RemotingPair, **own: Any) -> list[tuple[str, int]]:
    """Returns the mode and queue of each assignment of a client."""
    reply = await client.ask(400, {}, query(**own))
    assert reply.code == 0, reply.remark
    found = json.loads(reply.body)["messageQueueAssignments"]
    assert all(one["messageQueue"]["brokerName"] == "broker-a" for one in found)
    return [(one["mode"], one["messageQueue"]["queueId"]) for one in found]


def popping(**changed: str) -> dict[str, str]:
    """Returns the fields of a pop that does not wait."""
    usual = {
        "consumerGroup": "g", "topic": "orders", "queueId": "-1", "maxMsgNums": "32",
        "invisibleTime": str(INVISIBLE_MS), "pollTime": "0", "bornTime": "1", "initMode": "0",
        "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    return usual | changed


async def pop(client: RemotingPair, **changed: str) -> Command:
    """Pops, and returns the reply."""
    return await client.ask(200050, popping(**changed))


def handles(reply: Command) -> list[str]:
    """Returns the receipt handles that a client makes of an answer (processPopResponse)."""
    fields = reply.fields

    def by_queue(text: str) -> dict[str, str]:
        rows = [one.split(" ") for one in text.split(";") if one]
        return {f"{kind}@{queue}": value for kind, queue, value in rows}

    starts, offsets = by_queue(fields["startOffsetInfo"]), by_queue(fields["msgOffsetInfo"])
    found: list[str] = []
    place = 0
    while place < len(reply.body):
        one = decode_record(reply.body, place)
        place += one.store_size
        own = one.properties.get("POP_CK")
        if own is None or not starts:
            key = f"0@{one.queue_id}"
            if starts:
                assert str(one.queue_offset) in offsets[key].split(",")
            own = (
                f"{starts.get(key, one.queue_offset)} {fields['popTime']} {fields['invisibleTime']}"
                f" {fields['reviveQid']} 0 broker-a {one.queue_id} {one.queue_offset}"
            )
        found.append(own)
    return found


def settling(handle: str, **more: str) -> dict[str, str]:
    """Returns the fields by which a client settles a message; names its retry topic as they do."""
    parts = handle.split(" ")
    topic = {"1": "%RETRY%g_orders", "2": "%RETRY%g+orders"}.get(parts[4], "orders")
    return {
        "consumerGroup": "g", "topic": topic, "queueId": parts[6], "offset": parts[7],
        "extraInfo": handle, "bname": "broker-a", **more,
    }  # fmt: skip


async def ack(client: RemotingPair, handle: str) -> int:
    """Acknowledges a message; returns the code of the answer."""
    return (await client.ask(200051, settling(handle))).code


# -- modes and assignments ---------------------------------------------------------------------


async def test_a_group_pulls_its_share_of_the_queues(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.store.tables.topics.adopt("wide", 5)
    other = RemotingPair(broker.classic.service())
    await beat(client, "g", "wide", id="c1")
    assert [queue for _, queue in await assigned(client, topic="wide")] == [0, 1, 2, 3, 4]
    await beat(other, "g", "wide", id="c2")
    assert await assigned(client, topic="wide") == [("PULL", 0), ("PULL", 1), ("PULL", 2)]
    assert await assigned(client, topic="wide", clientId="c2") == [("PULL", 3), ("PULL", 4)]
    circle = await assigned(client, topic="wide", strategyName="AVG_BY_CIRCLE")
    assert [queue for _, queue in circle] == [0, 2, 4]
    everything = await assigned(client, topic="wide", messageModel="BROADCASTING")
    assert len(everything) == 5
    assert await assigned(client, topic="wide", clientId="unknown") == []
    assert (await client.ask(400, {}, query(topic="wide", strategyName="CONFIG"))).code == 3
    assert (await client.ask(400, {}, query(topic="none"))).code == 17
    assert (await client.ask(400, {}, query(clientId=""))).code == 1
    other.server.cut_off()


async def test_a_group_whose_mode_is_pop_pops_from_all_queues(client: RemotingPair) -> None:
    assert (await client.ask(401, {}, mode("POP"))).code == 0
    await beat(client, "g", "orders")
    assert await assigned(client) == [("POP", -1)]
    assert await assigned(client, topic="%RETRY%g") == []


@pytest.mark.parametrize(
    "body",
    [
        mode("PEEK"), mode("POP", group=""), mode("POP", topic=""), b"[]",
        mode("POP", popShareQueueNum="4"), mode("POP", popShareQueueNum=-2), mode("POP", topic="x"),
    ],
)  # fmt: skip
async def test_illegal_modes_are_refused(client: RemotingPair, body: bytes) -> None:
    assert (await client.ask(401, {}, body)).code != 0
    await beat(client, "g", "orders")
    assert {mode for mode, _ in await assigned(client)} == {"PULL"}


async def test_the_mode_survives_a_restart_and_applies_to_all_topics(broker: StoreBroker) -> None:
    tables = broker.store.tables
    await tables.modes.put("g", "orders", "POP", 4)
    await tables.modes.put("g", "other", "PULL", -1)
    assert not tables.modes.pops("g")
    await tables.modes.put("g", "orders", "POP", 4)
    tables.modes.load()
    assert tables.modes.pops("g")
    assert not tables.modes.pops("other")


async def test_an_orderly_consumer_pulls_also_in_mode_pop_while_nothing_is_leased(
    broker: StoreBroker, client: RemotingPair
) -> None:
    """The client for Java pulls for an orderly listener, whatever the group's mode."""
    await broker.add("orders", b"a", queue_id=0)
    assert (await client.ask(401, {}, mode("POP"))).code == 0
    await beat(client, "g", "orders")
    assert (await pull(client, "g", "orders")).code == 1
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}
    locked = {"clientId": "c1", "consumerGroup": "g", "mqSet": [queue], "onlyThisBroker": False}
    assert (await client.ask(41, {}, json.dumps(locked).encode())).code == 0
    assert (await pull(client, "g", "orders")).code == 0
    popped = await pop(client)
    refused = await pull(client, "g", "orders")
    assert (refused.code, "in use by pop clients" in refused.remark) == (1, True)
    assert await ack(client, *handles(popped)) == 0


async def test_a_group_commits_offsets_or_settles_leases(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a")
    await beat(client, "g", "orders")
    refused = await pop(client)
    assert (refused.code, "in use by classic clients" in refused.remark) == (1, True)
    assert (await pull(client, "g", "orders")).code == 0
    assert (await client.ask(401, {}, mode("POP"))).code == 0
    refused = await pull(client, "g", "orders")
    assert (refused.code, "in use by pop clients" in refused.remark) == (1, True)
    assert bodies(popped := await pop(client)) == [b"a"]
    assert (await client.ask(401, {}, mode("PULL"))).code == 1
    assert await ack(client, *handles(popped)) == 0
    assert (await beat(client, "g", "orders")).code == 0


async def test_a_refused_heartbeat_creates_nothing(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a")
    assert bodies(await pop(client)) == [b"a"]
    await broker.store.tables.topics.remove("%RETRY%g")
    assert (await beat(client, "g", "orders")).code == 1
    assert broker.store.tables.topics.find("%RETRY%g") is None


# -- pops --------------------------------------------------------------------------------------


@pytest.fixture
async def pops(client: RemotingPair) -> None:
    """Makes the group pop."""
    await client.ask(401, {}, mode("POP"))
    await beat(client, "g", "orders", "%RETRY%g")


@pytest.mark.usefixtures("pops")
async def test_messages_are_leased_until_they_are_acknowledged(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", b"b", queue_id=0)
    await broker.add("orders", b"c", queue_id=1)
    reply = await pop(client, maxMsgNums="2")
    assert (reply.code, reply.remark, reply.fields["restNum"]) == (0, "FOUND", "1")
    assert reply.fields["invisibleTime"] == str(INVISIBLE_MS)
    rest = await pop(client)
    assert sorted(bodies(reply) + bodies(rest)) == [b"a", b"b", b"c"]
    found = handles(reply) + handles(rest)
    assert (await pop(client)).code == 210
    assert broker.consume.lease_count == 3
    assert [await ack(client, one) for one in found] == [0, 0, 0]
    assert broker.consume.lease_count == 0
    assert await ack(client, found[0]) == 208
    assert await ack(client, "0 1 2 3 0 broker-a x 0") == 208
    assert "receive" in [one.mode for one in broker.members.of_group("g")]


@pytest.mark.usefixtures("pops")
async def test_records_are_returned_as_stored(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", b"a", b"b", TAGS="x")
    assert (await pop(client)).body == b"".join(broker.records())


@pytest.mark.usefixtures("pops")
async def test_an_expired_message_comes_again_under_its_own_topic(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", POP_CK="0 1 2 3 0 broker-a 0 0")
    await pop(client)
    await broker.pass_time(INVISIBLE_MS)
    reply = await pop(client)
    again = decode_record(reply.body)
    assert (again.topic, again.body, again.reconsume_times) == ("orders", b"a", 1)
    assert reply.fields["startOffsetInfo"] == "0 0 0"  # Else a client overwrites the handle.
    (handle,) = handles(reply)
    assert handle.split(" ")[4] == "1"
    assert await ack(client, handle) == 0
    await broker.pass_time(INVISIBLE_MS)
    assert (await pop(client)).code == 210


@pytest.mark.usefixtures("pops")
async def test_the_invisible_duration_can_be_changed(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a")
    (handle,) = handles(await pop(client))
    reply = await client.ask(200053, settling(handle, invisibleTime="10000"))
    assert (reply.code, reply.fields["invisibleTime"]) == (0, "10000")
    parts = handle.split(" ")
    parts[0], parts[1:4] = (
        parts[7],
        [reply.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")],
    )
    for illegal in ("-1", "99999999"):
        code = (await client.ask(200053, settling(handle, invisibleTime=illegal))).code
        assert code == 1
    await broker.pass_time(9_000)
    assert (await pop(client)).code == 210
    await broker.pass_time(1_000)
    assert bodies(again := await pop(client)) == [b"a"]
    assert await ack(client, " ".join(parts)) == 208
    assert (await client.ask(200053, settling(handle, invisibleTime="1"))).code == 208
    assert await ack(client, *handles(again)) == 0


@pytest.mark.usefixtures("pops")
async def test_a_changed_handle_acknowledges(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", b"a")
    (handle,) = handles(await pop(client))
    fields = (await client.ask(200053, settling(handle, invisibleTime="10000"))).fields
    made = f"{fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']}"
    assert await ack(client, f"0 {made} 0 broker-a 0 0") == 0


@pytest.mark.usefixtures("pops")
async def test_a_handle_of_rocketmqs_proxy_has_the_physical_offset_too(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", *[b"%d" % n for n in range(8)])
    made = handles(await pop(client))
    for number, handle in enumerate(made):
        place = {"queueId": "0", "offset": str(number)}
        asked = settling(f"{handle} {317 * number}", invisibleTime="10000", **place)
        fields = (await client.ask(200053, asked)).fields
        parts = handle.split(" ")
        parts[1:4] = [fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        changed = settling(" ".join([*parts, str(317 * number)]), **place)
        assert (await client.ask(200051, changed)).code == 0
    await broker.pass_time(INVISIBLE_MS)
    assert (await pop(client)).code == 210


@pytest.mark.usefixtures("pops")
async def test_batches_are_acknowledged_by_bits(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", *[b"%d" % n for n in range(10)])
    fields = (await pop(client)).fields

    def body(bits: bytes) -> bytes:
        row: Mapping[str, Any] = {
            "c": "g", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": int(fields["reviveQid"]),
            "pt": int(fields["popTime"]), "it": INVISIBLE_MS, "b": b64encode(bits).decode(),
        }  # fmt: skip
        return json.dumps({"brokerName": "broker-a", "acks": [row]}).encode()

    assert (await client.ask(200151, {}, body(b"\x05\x02"))).code == 0
    await broker.pass_time(INVISIBLE_MS)
    assert sorted(bodies(await pop(client))) == [b"1", b"3", b"4", b"5", b"6", b"7", b"8"]
    assert (await client.ask(200151, {}, b'{"acks":[]}')).code == 208
    assert (await client.ask(200151, {}, body(bytes(129)))).code == 1
    assert (await client.ask(200151, {}, b'{"acks":[{"b":"?"}]}')).code == 1


@pytest.mark.usefixtures("pops")
async def test_a_pop_waits_for_a_matching_message(
    broker: StoreBroker, client: RemotingPair
) -> None:
    number = client.send(200050, popping(pollTime="15000", exp="a"))
    await until(lambda: broker.consume.waiter_count == 1)
    info = {"consumerGroup": "g", "topic": "orders", "queueId": "-1"}
    assert (await client.ask(200055, info)).fields == {"pollingNum": "1"}
    assert (await client.ask(200054, info)).fields["hasMsg"] == "false"
    await broker.add("orders", b"b", TAGS="b")
    await broker.add("orders", b"a", TAGS="a")
    await client.idle()
    await client.settled()
    assert bodies(client.replies[number]) == [b"a"]
    await broker.add("orders", b"c")
    assert (await client.ask(200054, info)).fields["hasMsg"] == "true"


@pytest.mark.usefixtures("pops")
async def test_a_notification_waits_for_a_message_and_leases_none(
    broker: StoreBroker, client: RemotingPair
) -> None:
    asked = {"consumerGroup": "g", "topic": "orders", "queueId": "-1", "pollTime": "15000"}
    number, late = client.send(200054, asked), client.send(200054, {**asked, "pollTime": "20000"})
    await until(lambda: broker.consume.waiter_count == 2)
    await broker.pass_time(15_000)
    await client.settled()
    assert client.replies[number].fields == {"hasMsg": "false", "pollingFull": "false"}
    assert late not in client.replies
    await broker.add("orders", b"a", queue_id=1)
    await client.settled()
    assert client.replies[late].fields["hasMsg"] == "true"
    assert (broker.consume.waiter_count, broker.consume.lease_count) == (0, 0)
    assert bodies(await pop(client)) == [b"a"]
    assert (await client.ask(200054, {**asked, "pollTime": "x"})).code == 1
    lost = RemotingPair(broker.classic.service())
    lost.send(200054, asked)
    await until(lambda: broker.consume.waiter_count == 1)
    lost.lose()
    await lost.settled()
    assert broker.consume.waiter_count == 0
    gone = client.send(200054, asked)
    await until(lambda: broker.consume.waiter_count == 1)
    broker.consume.drain()
    await client.settled()
    assert client.replies[gone].fields["hasMsg"] == "false"


@pytest.mark.usefixtures("pops")
async def test_sql_and_illegal_pops(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", b"1", n="1")
    await broker.add("orders", b"2", n="2")
    assert bodies(await pop(client, expType="SQL92", exp="n > 1")) == [b"2"]
    assert (await pop(client, expType="SQL92", exp="n >")).code == 23
    assert (await pop(client, expType="XPATH")).code == 23
    assert (await pop(client, invisibleTime="1")).code == 1
    assert (await pop(client, topic="%RETRY%other")).code != 0
    assert (await pop(client, topic="none")).code == 17


async def test_a_refused_pop_makes_no_member(broker: StoreBroker, client: RemotingPair) -> None:
    """Else classic clients could not use the group for two minutes."""
    await broker.add("orders", b"a")
    for changed in ({"invisibleTime": "1"}, {"pollTime": "g"}, {"expType": "SQL92", "exp": "a >"}):
        assert (await pop(client, **changed)).code != 0
    assert not broker.members.of_group("g")
    assert (await beat(client, "g", "orders")).code == 0


@pytest.mark.usefixtures("pops")
async def test_orderly_pops_deliver_one_queue_at_a_time(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", b"b", queue_id=0)
    reply = await pop(client, order="true", maxMsgNums="1")
    assert (bodies(reply), reply.fields["reviveQid"]) == ([b"a"], "999")
    assert (await pop(client, order="true")).code == 210
    await broker.pass_time(INVISIBLE_MS)
    again = await pop(client, order="true", maxMsgNums="1")
    assert bodies(again) == [b"a"]
    assert again.fields["orderCountInfo"] == "0 qo0%0 1"
    assert await ack(client, *handles(again)) == 0
    assert bodies(await pop(client, order="true")) == [b"b"]


@pytest.mark.usefixtures("pops")
async def test_a_pop_of_a_fifo_topic_without_order_has_the_attempt_in_the_record(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.store.tables.topics.create(
        "steps", queue_count=2, attributes={TYPE_ATTRIBUTE: "FIFO"}
    )
    await broker.add("steps", b"a", b"b", queue_id=1)
    for times in range(3):
        reply = await pop(client, topic="steps")
        records = [decode_record(one) for one in split_pieces([reply.body])]
        assert [one.reconsume_times for one in records] == [times, times]
        assert bodies(reply) == [b"a", b"b"]
        assert "orderCountInfo" not in reply.fields
        await broker.pass_time(INVISIBLE_MS)


@pytest.mark.usefixtures("pops")
async def test_a_repeated_attempt_in_order_gets_its_messages_again(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", b"b", queue_id=0)
    attempt = {"order": "true", "attemptId": "one"}
    first = await pop(client, maxMsgNums="1", **attempt)
    again = await pop(client, maxMsgNums="1", **attempt)
    assert bodies(first) == bodies(again) == [b"a"]
    assert handles(first) == handles(again)
    assert again.fields.get("orderCountInfo") == first.fields.get("orderCountInfo")
    assert (await pop(client, order="true", attemptId="two")).code == 210
    assert (await pop(client, order="true")).code == 210
    assert await ack(client, *handles(again)) == 0
    assert bodies(await pop(client, **attempt)) == [b"b"]


@pytest.mark.usefixtures("pops")
async def test_in_order_a_notification_counts_what_its_attempt_would_get(
    broker: StoreBroker, client: RemotingPair
) -> None:
    async def has_some(**own: str) -> str:
        asked = {"consumerGroup": "g", "topic": "orders", "queueId": "-1", "pollTime": "0"}
        return (await client.ask(200054, {**asked, **own})).fields["hasMsg"]

    await broker.add("orders", b"a", b"b", queue_id=0)
    assert await has_some(order="true", attemptId="one") == "true"
    popped = await pop(client, maxMsgNums="1", order="true", attemptId="one")
    assert await has_some(order="true", attemptId="one") == "true"
    assert await has_some(order="true", attemptId="two") == "false"
    assert await has_some(order="true") == "false"
    assert await ack(client, *handles(popped)) == 0
    assert await has_some(order="true", attemptId="two") == "true"


@pytest.mark.usefixtures("pops")
async def test_messages_of_a_lost_answer_are_released(
    broker: StoreBroker, client: RemotingPair
) -> None:
    other = RemotingPair(broker.classic.service())
    number = other.send(200050, popping(pollTime="15000"))
    await until(lambda: broker.consume.waiter_count == 1)
    assert number not in other.replies
    other.server.cut_off()
    await broker.add("orders", b"a")
    await client.settled()
    assert bodies(await pop(client)) == [b"a"]


@pytest.mark.usefixtures("pops")
async def test_binary_headers_pop(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", b"a")
    reply = await client.ask(3442, popping(), serialization=BINARY)
    assert (reply.serialization, reply.code, bodies(reply)) == (BINARY, 0, [b"a"])
    (handle,) = handles(reply)
    assert (await client.ask(3443, settling(handle), serialization=BINARY)).code == 0


async def test_a_new_group_begins_where_the_pop_states(
    broker: StoreBroker, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.add("orders", b"a")
    assert bodies(await pop(client, initMode="1", consumerGroup="young")) == [b"a"]
    monkeypatch.setattr(position, "RECENT_BYTES", 10)
    assert (await pop(client, initMode="1", consumerGroup="late")).code == 210
    assert bodies(await pop(client, initMode="0", consumerGroup="early")) == [b"a"]
    await broker.add("orders", b"b")
    assert bodies(await pop(client, initMode="1", consumerGroup="late")) == [b"b"]


async def test_a_new_group_of_a_topic_whose_first_messages_expired_begins_at_its_end(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a")
    await broker.expire()
    await broker.add("orders", b"b")
    assert (await pop(client, initMode="1", consumerGroup="late")).code == 210


def test_a_resent_message_loses_its_handle() -> None:
    assert "POP_CK" in SET_BY_BROKER


async def test_modes_are_written_as_rocketmqs() -> None:
    async with store_broker() as broker:
        await broker.store.tables.modes.put("g", "orders", "POP", 4)
        path = broker.talking.directory / "config" / "messageRequestMode.json"
        written = json.loads(broker.talking.disk.read_file(path))
        row = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 4, "topic": "orders"}
        assert written["messageRequestModeMap"] == {"orders": {"g": row}}
