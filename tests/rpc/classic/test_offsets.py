"""Offsets, queries and messages sent back by classic clients."""

import pytest

from pocketmq.model.topic import dead_letter_topic, retry_topic
from pocketmq.services.consume import position
from pocketmq.wire.remoting import ONE_WAY, Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat, bodies, pull

QUEUE = {"topic": "orders", "queueId": "0"}
OWN = {**QUEUE, "consumerGroup": "g"}
SECOND_MS = 1_000


@pytest.fixture(autouse=True)
def creates_groups(broker: StoreBroker) -> None:
    broker.auto_create_groups = True


async def test_a_new_group_begins_at_0_only_if_that_is_recent(
    broker: StoreBroker, client: RemotingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = await client.ask(14, OWN)
    assert (empty.code, "boot first" in empty.remark) == (22, True)
    await broker.add("orders", b"a", b"b")
    reply = await client.ask(14, OWN)
    assert (reply.code, reply.fields["offset"]) == (0, "0")
    assert (await client.ask(14, {**OWN, "setZeroIfNotFound": "false"})).code == 22
    monkeypatch.setattr(position, "RECENT_BYTES", 10)
    assert (await client.ask(14, OWN)).code == 22
    await client.ask(15, {**OWN, "commitOffset": "1"})
    assert (await client.ask(14, OWN)).fields["offset"] == "1"


async def test_a_group_whose_first_messages_expired_decides_itself(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a")
    await broker.expire()
    await broker.add("orders", b"b")
    assert (await client.ask(14, OWN)).code == 22
    assert (await client.ask(31, QUEUE)).fields["offset"] == "1"
    assert (await client.ask(30, QUEUE)).fields["offset"] == "2"


async def test_commits_move_an_offset_in_both_directions(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", b"b", b"c")
    find = broker.store.tables.offsets.find
    for offset in ("3", "1"):
        assert (await client.ask(15, {**OWN, "commitOffset": offset})).code == 0
        assert find("g", "orders", 0) == int(offset)
    assert (await client.ask(15, {**OWN, "commitOffset": "4"})).code == 1
    assert (await client.ask(15, {**OWN, "commitOffset": "-1"})).code == 0
    assert find("g", "orders", 0) == 1
    for offset in ("2", "0"):
        client.put(Command(15, {**OWN, "commitOffset": offset}, opaque=1, flag=ONE_WAY))
        await client.settled()
        assert find("g", "orders", 0) == int(offset)
    assert client.replies == {}


async def test_times_of_messages(broker: StoreBroker, client: RemotingPair) -> None:
    reply = await client.ask(32, QUEUE)
    assert (reply.code, reply.fields) == (0, {"timestamp": "-1"})
    first_ms = broker.clock.wall
    await broker.add("orders", b"a")
    broker.clock.advance(SECOND_MS)
    await broker.add("orders", b"b")
    assert (await client.ask(32, QUEUE)).fields == {"timestamp": str(first_ms)}

    async def found(time_ms: int, bound: str = "LOWER") -> str:
        reply = await client.ask(29, {**QUEUE, "timestamp": str(time_ms), "boundaryType": bound})
        return reply.fields["offset"]

    assert await found(0) == await found(-1) == "0"
    assert await found(first_ms + 1) == "1"
    assert await found(first_ms + 1, "UPPER") == "0"
    assert await found(first_ms + SECOND_MS) == "1"


@pytest.mark.parametrize("code", [14, 15, 29, 30, 31, 32])
async def test_offsets_of_a_topic_that_does_not_exist(client: RemotingPair, code: int) -> None:
    asked = {**OWN, "topic": "absent", "commitOffset": "0", "timestamp": "0"}
    assert (await client.ask(code, asked)).code == 17


# -- single messages ---------------------------------------------------------------------------


async def test_a_message_is_found_by_offset_and_by_keys(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", KEYS="k", UNIQ_KEY="u1")
    result = await broker.add("orders", b"b", KEYS="k", UNIQ_KEY="u2")
    reply = await client.ask(33, {"offset": str(result.physical_offsets[0])})
    assert (reply.code, reply.body) == (0, broker.records()[1])
    assert (await client.ask(33, {"offset": "7"})).code == 22
    asked = {"topic": "orders", "key": "k", "maxNum": "32", "beginTimestamp": "0"}
    asked["endTimestamp"] = str((1 << 63) - 1)
    reply = await client.ask(12, asked)
    assert sorted(bodies(reply)) == [b"a", b"b"]
    assert reply.fields["indexLastUpdatePhyoffset"] == str(result.physical_offsets[0])
    assert bodies(await client.ask(12, {**asked, "key": "u1"})) == [b"a"]
    assert (await client.ask(12, {**asked, "key": "u3"})).code == 22


# -- sent back ---------------------------------------------------------------------------------


def back(offset: int, **changed: str) -> dict[str, str]:
    usual = {
        "group": "g", "offset": str(offset), "delayLevel": "0", "originMsgId": "u1",
        "originTopic": "orders", "unitMode": "false", "maxReconsumeTimes": "16",
    }  # fmt: skip
    return usual | changed


async def test_a_message_sent_back_waits_on_its_delay_level(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await beat(client, "g", "orders", retry_topic("g"))
    result = await broker.add("orders", b"a", TAGS="x", UNIQ_KEY="u1")
    for level, asked in ((3, "0"), (5, "5")):
        reply = await client.ask(36, back(result.physical_offsets[0], delayLevel=asked))
        assert (reply.code, reply.fields) == (0, {})
        parked = (await broker.messages())[-1]
        assert (parked.topic, parked.queue_id) == ("SCHEDULE_TOPIC_XXXX", level - 1)
        assert (parked.reconsume_times, parked.body) == (1, b"a")
        properties = parked.properties
        assert properties["RETRY_TOPIC"] == "orders"
        assert properties["REAL_TOPIC"] == retry_topic("g")
        assert properties["DELAY"] == str(level)


@pytest.mark.parametrize(
    "changed", [{"delayLevel": "-1"}, {"maxReconsumeTimes": "0"}], ids=["at once", "at the maximum"]
)
async def test_a_message_without_retries_is_a_dead_letter(
    broker: StoreBroker, client: RemotingPair, changed: dict[str, str]
) -> None:
    result = await broker.add("orders", b"a", UNIQ_KEY="u1")
    assert (await client.ask(36, back(result.physical_offsets[0], **changed))).code == 0
    letter = (await broker.messages())[-1]
    assert letter.topic == dead_letter_topic("g")
    assert letter.properties["RETRY_TOPIC"] == "orders"


async def test_the_groups_setting_counts_where_the_client_sets_none(
    broker: StoreBroker, client: RemotingPair
) -> None:
    groups = broker.store.tables.groups
    await groups.ensure("g")
    await groups.update("g", groups.existing("g").settings._replace(max_attempts=1))
    result = await broker.add("orders", b"a")
    place = result.physical_offsets[0]
    await client.ask(36, back(place, maxReconsumeTimes="-1"))
    assert (await broker.messages())[-1].topic == dead_letter_topic("g")
    await client.ask(36, back(place, maxReconsumeTimes="2147483647"))
    assert (await broker.messages())[-1].topic == "SCHEDULE_TOPIC_XXXX"


async def test_the_first_message_of_a_removed_topic_is_not_sent_back(
    broker: StoreBroker, client: RemotingPair
) -> None:
    result = await broker.add("orders", b"a")
    assert result.physical_offsets[0] == 0
    assert (await client.ask(215, {"topic": "orders"})).code == 0
    assert (await client.ask(36, back(0))).code == 22


async def test_a_malformed_return_creates_no_group(
    broker: StoreBroker, client: RemotingPair
) -> None:
    for changed in ({"offset": "x"}, {"delayLevel": "x"}, {"maxReconsumeTimes": "x"}):
        assert (await client.ask(36, {**back(0, group="new"), **changed})).code == 1
    assert broker.store.tables.groups.find("new") is None
    assert broker.store.tables.topics.find(retry_topic("new")) is None


async def test_only_messages_that_the_group_may_read_are_sent_back(
    broker: StoreBroker, client: RemotingPair
) -> None:
    result = await broker.add("%RETRY%other", b"a")
    assert (await client.ask(36, back(result.physical_offsets[0]))).code == 13
    assert (await client.ask(36, back(3))).code == 22
    assert len(await broker.messages()) == 1
    assert (await pull(client, "g", "orders")).code == 24
