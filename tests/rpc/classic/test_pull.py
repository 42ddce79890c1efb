"""Pulls of classic consumers: every status, filters, long polling, commits."""

import pytest

from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat, bodies, fields, pull

WAIT = {"sysFlag": "2"}


@pytest.fixture(autouse=True)
def creates_groups(broker: StoreBroker) -> None:
    broker.auto_create_groups = True


async def test_records_are_returned_as_stored(broker: StoreBroker, client: RemotingPair) -> None:
    await broker.add("orders", b"a", b"b", TAGS="x")
    await beat(client, "g", "orders")
    reply = await pull(client, "g", "orders")
    assert (reply.code, reply.remark) == (0, "FOUND")
    assert reply.fields == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "2", "minOffset": "0", "maxOffset": "2",
        "topicSysFlag": "0", "groupSysFlag": "0",
    }  # fmt: skip
    assert reply.body == b"".join(broker.records())
    one = await pull(client, "g", "orders", maxMsgNums="1")
    assert (bodies(one), one.fields["nextBeginOffset"]) == ([b"a"], "1")


@pytest.mark.parametrize(
    ("offset", "code", "remark", "following"),
    [
        ("2", 19, "OFFSET_OVERFLOW_ONE", "2"),
        ("3", 21, "OFFSET_OVERFLOW_BADLY", "2"),
        ("-1", 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
async def test_offsets_without_messages_have_rocketmqs_codes(
    broker: StoreBroker, client: RemotingPair, offset: str, code: int, remark: str, following: str
) -> None:
    await broker.add("orders", b"a", b"b")
    await beat(client, "g", "orders")
    reply = await pull(client, "g", "orders", offset=offset)
    assert (reply.code, reply.remark) == (code, remark)
    assert reply.fields["nextBeginOffset"] == following


async def test_an_empty_queue_and_expired_messages(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await beat(client, "g", "orders")
    reply = await pull(client, "g", "orders")
    assert (reply.code, reply.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    assert (await pull(client, "g", "orders", offset="5")).code == 21
    await broker.add("orders", b"old")
    await broker.expire()
    await broker.add("orders", b"new")
    reply = await pull(client, "g", "orders")
    assert (reply.code, reply.fields["nextBeginOffset"]) == (21, "1")


async def test_subscriptions_are_those_of_the_group(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"a", TAGS="a")
    await broker.add("orders", b"b", TAGS="b")
    assert (await pull(client, "g", "orders")).code == 24
    await beat(client, "g", "other")
    assert (await pull(client, "g", "orders")).code == 24
    await beat(client, "g", "orders", filter="b", version=5)
    assert (await pull(client, "g", "orders", subVersion="6")).code == 25
    assert bodies(await pull(client, "g", "orders", subVersion="5")) == [b"b"]
    own = {"sysFlag": "4", "subscription": "a"}
    assert bodies(await pull(client, "g", "orders", **own)) == [b"a"]
    none = {"sysFlag": "4", "subscription": "c"}
    reply = await pull(client, "g", "orders", **none)
    assert (reply.code, reply.remark) == (20, "NO_MATCHED_MESSAGE")
    assert reply.fields["nextBeginOffset"] == "2"


async def test_sql_is_that_of_the_heartbeat_or_the_request(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", b"1", n="1")
    await broker.add("orders", b"2", n="2")
    await beat(client, "g", "orders", filter="n > 1", type="SQL92")
    assert bodies(await pull(client, "g", "orders")) == [b"2"]
    own = {"sysFlag": "4", "subscription": "n < 2", "expressionType": "SQL92"}
    assert bodies(await pull(client, "g", "orders", **own)) == [b"1"]
    bad = {**own, "subscription": "n <"}
    assert (await pull(client, "g", "orders", **bad)).code == 23
    other = {**own, "expressionType": "XPATH"}
    assert (await pull(client, "g", "orders", **other)).code == 23


async def test_a_pull_waits_for_a_matching_message(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await beat(client, "g", "orders", filter="a")
    number = client.send(11, fields("g", "orders", **WAIT))
    await client.settled()
    await broker.add("orders", b"b", TAGS="b")
    await client.settled()
    assert number not in client.replies
    await broker.add("orders", b"a", TAGS="a")
    await client.settled()
    assert bodies(client.replies[number]) == [b"a"]


async def test_a_pull_that_waits_as_its_group_is_turned_off_gets_no_message(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await beat(client, "g", "orders")
    number = client.send(11, fields("g", "orders", **WAIT))
    await client.settled()
    groups = broker.store.tables.groups
    await groups.update("g", groups.existing("g").settings._replace(enabled=False))
    await broker.add("orders", b"a")
    await client.settled()
    assert client.replies[number].code == 16
    assert not client.replies[number].body


async def test_waiting_pulls_are_answered_at_a_drain(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await beat(client, "g", "orders")
    number = client.send(361, fields("g", "orders", **WAIT))
    await client.settled()
    assert broker.pull.waiter_count == 1
    broker.pull.drain()
    await client.settled()
    assert client.replies[number].code == 19


async def test_a_lost_client_waits_no_more(broker: StoreBroker, client: RemotingPair) -> None:
    await beat(client, "g", "orders")
    client.send(11, fields("g", "orders", **WAIT))
    await client.settled()
    client.lose()
    await client.settled()
    assert broker.pull.waiter_count == 0


@pytest.mark.parametrize(("begin", "code"), [("0", 0), ("3", 19)], ids=["shortcut", "usual"])
async def test_a_pull_commits_forward_only(
    broker: StoreBroker, client: RemotingPair, begin: str, code: int
) -> None:
    await broker.add("orders", b"a", b"b", b"c")
    await beat(client, "g", "orders")
    find = broker.store.tables.offsets.find
    for commit, committed in (("2", 2), ("1", 2), ("9", 2), ("-1", 2), ("3", 3)):
        reply = await pull(
            client, "g", "orders", sysFlag="1", commitOffset=commit, queueOffset=begin
        )
        assert reply.code == code
        assert find("g", "orders", 0) == committed
    await pull(client, "g", "orders", sysFlag="0", commitOffset="1", queueId="1")
    assert find("g", "orders", 1) is None


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"topic": "absent"}, 17), ({"queueId": "2"}, 1), ({"queueId": "x"}, 1),
        ({"topic": "%RETRY%other"}, 13), ({"topic": "SCHEDULE_TOPIC_XXXX"}, 13),
        ({"consumerGroup": "a b"}, 1),
    ],
)  # fmt: skip
async def test_what_cannot_be_pulled_is_refused(
    client: RemotingPair, changed: dict[str, str], code: int
) -> None:
    await beat(client, "g", "orders")
    assert (await client.ask(11, fields("g", "orders", sysFlag="4") | changed)).code == code


async def test_groups_that_do_not_exist_or_are_disabled(
    broker: StoreBroker, client: RemotingPair
) -> None:
    broker.auto_create_groups = False
    assert (await pull(client, "g", "orders")).code == 26
    groups = broker.store.tables.groups
    await groups.ensure("g")
    off = groups.existing("g").settings._replace(enabled=False)
    await groups.update("g", off)
    assert (await pull(client, "g", "orders")).code == 16
