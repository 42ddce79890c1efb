"""Sends of classic clients: replies and stored records are as RocketMQ's broker makes them."""

from struct import pack
from typing import Final

import pytest

from pocketmq.format.addresses import offset_message_id
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from pocketmq.rpc.pb import broker_pb2 as pb
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import STORE_HOST

TAIL: Final = "CLUSTER\x01DefaultCluster\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
KEY: Final = "7F0000014C0C4E0E2F2A8367D6AE0000"


def text(**pairs: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def short(topic: str = "orders", **changed: str) -> dict[str, str]:
    """Returns the fields of SEND_MESSAGE_V2 as the client for Java sends them."""
    usual = {
        "a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1795695820486",
        "h": "0", "i": text(KEYS="k1", UNIQ_KEY=KEY, WAIT="true", TAGS="a"), "j": "0",
        "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return usual | changed


def member(body: bytes, properties: str, flag: int = 0) -> bytes:
    """Returns a message of a batch."""
    block = properties.encode()
    size = 22 + len(body) + len(block)
    return pack(">iiiii", size, 0, 0, flag, len(body)) + body + pack(">h", len(block)) + block


async def stored(broker: StoreBroker, place: int = -1) -> tuple[str, int, bytes, dict[str, str]]:
    one = (await broker.messages())[place]
    return one.topic, one.queue_id, one.body, one.properties


async def test_a_send_is_stored_as_it_is_and_answered_as_by_rocketmq(
    broker: StoreBroker, client: RemotingPair
) -> None:
    reply = await client.ask(310, short(e="1", h="7"), b"body")
    assert reply.code == 0
    assert reply.fields == {
        "queueId": "1", "transactionId": KEY, "msgId": offset_message_id(STORE_HOST, 0),
        "TRACE_ON": "true", "MSG_REGION": "DefaultRegion", "queueOffset": "0",
    }  # fmt: skip
    (message,) = await broker.messages()
    assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"body")
    assert (message.flag, message.born_timestamp_ms) == (7, 1795695820486)
    assert (short()["i"] + TAIL).encode() in broker.records(queue_id=1)[0]
    again = await client.ask(310, short(e="1"), b"two")
    assert again.fields["queueOffset"] == "1"


async def test_long_names_and_a_block_without_its_last_separator_are_served(
    broker: StoreBroker, client: RemotingPair
) -> None:
    fields = {
        "producerGroup": "go", "topic": "orders", "queueId": "1", "sysFlag": "0", "flag": "0",
        "bornTimestamp": "5", "properties": f"TAGS\x01g\x02UNIQ_KEY\x01{KEY}", "batch": "false",
    }  # fmt: skip
    assert (await client.ask(10, fields, b"x")).code == 0
    assert f"TAGS\x01g\x02UNIQ_KEY\x01{KEY}\x02{TAIL}".encode() in broker.records(queue_id=1)[0]


async def test_a_message_without_an_id_gets_one(broker: StoreBroker, client: RemotingPair) -> None:
    reply = await client.ask(310, short(i=""), b"x")
    _, _, _, properties = await stored(broker)
    assert properties["UNIQ_KEY"] == reply.fields["transactionId"]
    assert len(properties["UNIQ_KEY"]) == 32


async def test_what_only_the_broker_sets_is_left_out(
    broker: StoreBroker, client: RemotingPair
) -> None:
    odd = text(CLUSTER="other", REAL_TOPIC="x", own="1", INNER_MULTI_DISPATCH="%LMQ%a", TAGS="a||b")
    assert (await client.ask(310, short(i=odd + text(UNIQ_KEY=KEY)), b"x")).code == 0
    assert (text(own="1", TAGS="a||b", UNIQ_KEY=KEY) + TAIL).encode() in broker.records()[0]


async def test_flags_of_compression_are_kept_and_others_are_not(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(310, short(f=str(0x301 | 0x30)), b"x\x9c")).code == 0
    await broker.store.flush()
    await broker.talking.settled()
    assert int.from_bytes(broker.records()[0][36:40]) == 0x301


async def test_a_batch_gets_one_reply_with_all_ids(
    broker: StoreBroker, client: RemotingPair
) -> None:
    body = member(b"a", text(TAGS="t", UNIQ_KEY="1"), flag=3) + member(b"second", "")
    fields = short(i="", m="true", d="")
    del fields["d"]
    reply = await client.ask(320, fields, body)
    assert reply.code == 0
    first, second = await broker.messages()
    ids = [offset_message_id(STORE_HOST, one.physical_offset) for one in (first, second)]
    assert reply.fields["msgId"] == ",".join(ids)
    assert (reply.fields["queueOffset"], "transactionId" in reply.fields) == ("0", False)
    assert (first.body, first.flag, first.tag) == (b"a", 3, "t")
    assert (second.body, second.queue_offset) == (b"second", 1)


BATCHES: Final = {
    "cut": member(b"a", "")[:-1],
    "longer": member(b"a", "") + b"\0",
    "size": pack(">iiiii", 30, 0, 0, 0, 1) + b"a\0\0",
    "negative": pack(">iiiii", 22, 0, 0, 0, -1) + b"\0\0",
    "endless": pack(">iiiii", 0, 0, 0, 0, 0) + b"\0\0",
    "no text": pack(">iiiii", 24, 0, 0, 0, 1) + b"a\0\1\xff",
    "too many": member(b"a", "") * 1_025,
    "empty": b"",
}


@pytest.mark.parametrize("body", BATCHES.values(), ids=BATCHES)
async def test_damaged_batches_store_nothing(
    broker: StoreBroker, client: RemotingPair, body: bytes
) -> None:
    reply = await client.ask(320, short(m="true"), body)
    assert reply.code in (1, 13)
    assert reply.remark
    assert broker.store.appended == 0


async def test_a_one_way_send_is_stored_without_a_reply(
    broker: StoreBroker, client: RemotingPair
) -> None:
    client.send(310, short(), b"quiet", flag=2)
    client.send(310, short("TBW102"), b"refused", flag=2)
    await client.idle()
    assert client.replies == {}
    assert (await stored(broker))[2] == b"quiet"


async def test_a_one_way_send_is_stored_when_its_client_leaves_at_once(
    broker: StoreBroker, client: RemotingPair
) -> None:
    client.send(310, short("new"), b"quiet", flag=2)  # It waits: its topic is created first.
    client.lose()
    await client.idle()
    assert (await stored(broker))[::2] == ("new", b"quiet")
    assert client.server not in client.edge.connections


@pytest.mark.parametrize(
    ("properties", "topic", "kept"),
    [
        ({"DELAY": "2"}, SCHEDULE_TOPIC, {"DELAY": "2"}),
        ({"DELAY": "99", "TIMER_DELAY_SEC": "9"}, SCHEDULE_TOPIC, {"DELAY": "18"}),
        ({"TIMER_DELAY_SEC": "30"}, TIMER_TOPIC, {"TIMER_DELAY_SEC": "30"}),
        ({"TIMER_DELAY_MS": "3000"}, TIMER_TOPIC, {"TIMER_DELAY_MS": "3000"}),
        ({"DELAY": "0"}, "orders", {"DELAY": "0"}),
        ({"DELAY": "no"}, "orders", {"DELAY": "no"}),
        ({"TIMER_DELIVER_MS": "5"}, "orders", {"TIMER_DELIVER_MS": "5"}),
    ],
)
async def test_delays(
    broker: StoreBroker,
    client: RemotingPair,
    properties: dict[str, str],
    topic: str,
    kept: dict[str, str],
) -> None:
    reply = await client.ask(310, short(e="1", i=text(UNIQ_KEY=KEY, **properties)), b"later")
    assert (reply.code, reply.fields["queueId"]) == (0, "1")
    assert ("recallHandle" in reply.fields) == (topic == TIMER_TOPIC)
    found, _, _, stored_properties = await stored(broker)
    assert found == topic
    assert kept.items() <= stored_properties.items()
    if topic != "orders":
        assert (stored_properties["REAL_TOPIC"], stored_properties["REAL_QID"]) == ("orders", "1")


async def test_a_half_message_waits_for_its_outcome(
    broker: StoreBroker, client: RemotingPair
) -> None:
    properties = text(TRAN_MSG="true", PGROUP="p", UNIQ_KEY=KEY)
    reply = await client.ask(310, short(f="4", i=properties), b"half")
    assert (reply.code, reply.fields["transactionId"]) == (0, KEY)
    topic, queue_id, _, found = await stored(broker)
    assert (topic, queue_id) == (HALF_TOPIC, 0)
    assert (found["PGROUP"], found["TRAN_MSG"]) == ("p", "true")


async def test_a_first_message_creates_its_topic_with_the_queues_its_client_expects(
    broker: StoreBroker, client: RemotingPair
) -> None:
    assert (await client.ask(310, short("few", d="1"), b"x")).code == 0
    assert (await client.ask(310, short("usual", d="4"), b"x")).code == 0
    assert broker.store.tables.topics.existing("few").write_queue_count == 1
    assert broker.store.tables.topics.existing("usual").write_queue_count == 2


@pytest.mark.parametrize(
    ("fields", "body", "code", "remark"),
    [
        (short("TBW102"), b"x", 13, "TBW102"),
        (short("no/topic"), b"x", 13, "no/topic"),
        (short(e="2"), b"x", 1, "queue 2"),
        (short(e="two"), b"x", 1, "queueId is no number"),
        (short(f="2147483648"), b"x", 1, "sysFlag"),
        (short(), b"", 13, "body"),
        (short(), bytes(4 * 1024 * 1024 + 1), 13, "4194304"),
        (short(i=text(big="x" * 40_000)), b"x", 13, "32767"),
        ({"b": "orders"}, b"x", 1, "producerGroup is missing"),
    ],
)
async def test_what_is_refused_has_its_code_and_a_remark(
    broker: StoreBroker, client: RemotingPair, fields: dict[str, str], body: bytes, code: int,
    remark: str,
) -> None:  # fmt: skip
    reply = await client.ask(310, fields, body)
    assert reply.code == code
    assert remark in reply.remark
    assert reply.fields["x-request-id"]
    assert broker.store.appended == 0


@pytest.mark.parametrize("own", ["v", "ü"], ids=["shortcut", "usual way"])
async def test_a_topic_of_any_type_accepts_the_messages_of_classic_clients(
    broker: StoreBroker, client: RemotingPair, own: str
) -> None:
    topics = broker.store.tables.topics
    for name in ("FIFO", "DELAY", "TRANSACTION"):
        await topics.create(name, queue_count=2, attributes={"message.type": name})
        fields = short(name, i=text(UNIQ_KEY=KEY, own=own))
        assert (await client.ask(310, fields, b"x")).code == 0


async def test_a_classic_send_opens_no_topic_to_other_protocols(
    broker: StoreBroker, client: RemotingPair
) -> None:
    topics = broker.store.tables.topics
    await topics.create("DELAY", queue_count=2, attributes={"message.type": "DELAY"})
    assert (await client.ask(310, short("DELAY"), b"x")).code == 0
    own = pb.SendMessageRequest(messages=[pb.Message(topic="DELAY", body=b"y")])
    assert "KindConflict" in await broker.outcome("SendMessage", own.SerializeToString())


async def test_a_delayed_message_is_recalled_by_what_its_send_returned(
    broker: StoreBroker, client: RemotingPair
) -> None:
    due = str(broker.clock.wall_ms() + 60_000)
    sent = await client.ask(310, short(i=text(UNIQ_KEY=KEY, TIMER_DELIVER_MS=due)), b"x")
    asked = {"producerGroup": "p", "topic": "orders", "recallHandle": sent.fields["recallHandle"]}
    reply = await client.ask(370, asked)
    assert (reply.code, reply.fields) == (0, {"MSG_REGION": "DefaultRegion", "msgId": KEY})
    topic, _, body, properties = await stored(broker)
    assert (topic, body, properties["TIMER_DEL_UNIQKEY"]) == (TIMER_TOPIC, b"0", KEY)
    end = broker.store.appended
    assert (await client.ask(370, {**asked, "recallHandle": "bm8="})).code == 604
    assert (await client.ask(370, {**asked, "topic": "missing"})).code == 17
    assert (await client.ask(370, {"topic": "orders"})).code == 1
    broker.clock.advance(60_000)
    late = await client.ask(370, asked)
    assert (late.code, "is not pending any more" in late.remark) == (604, True)
    assert broker.store.appended == end
