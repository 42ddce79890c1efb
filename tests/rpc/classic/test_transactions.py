"""Transactions of classic producers: decided by them, or after a check."""

import json
from typing import Final

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.step import Now
from pocketmq.store.job import Job
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.test_send import KEY, short, text

BEAT: Final = json.dumps(
    {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
).encode()


async def begun(broker: StoreBroker, client: RemotingPair, **more: str) -> dict[str, str]:
    """Sends a half message for queue 1 of orders; returns the fields of its decision."""
    properties = text(TRAN_MSG="true", PGROUP="p", UNIQ_KEY=KEY, own="1", **more)
    reply = await client.ask(310, short(f="4", e="1", i=properties), b"half")
    assert reply.code == 0
    await broker.talking.settled()
    return {
        "producerGroup": "p", "tranStateTableOffset": reply.fields["queueOffset"],
        "commitLogOffset": str(int(reply.fields["msgId"][-16:], 16)), "topic": "orders",
        "msgId": KEY, "transactionId": reply.fields["transactionId"],
        "fromTransactionCheck": "false",
    }  # fmt: skip


async def delivered(broker: StoreBroker) -> int:
    await broker.store.flush()
    await broker.talking.settled()
    return len(broker.records(queue_id=1))


@pytest.mark.parametrize(("value", "count"), [("8", 1), ("12", 0), ("0", 0)])
async def test_a_decision_delivers_or_removes_the_message(
    broker: StoreBroker, client: RemotingPair, value: str, count: int
) -> None:
    fields = await begun(broker, client)
    assert await delivered(broker) == 0
    assert (await client.ask(37, {**fields, "commitOrRollback": value})).code == 0
    assert await delivered(broker) == count


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
async def test_a_half_message_with_an_illegal_delay_is_refused(
    broker: StoreBroker, client: RemotingPair, name: str
) -> None:
    """With the code that a message without a transaction gets."""
    until_ms = str(broker.clock.wall_ms() + 86_400_001)
    properties = text(
        UNIQ_KEY=KEY, **{name: until_ms if name == "TIMER_DELIVER_MS" else "99999999"}
    )
    half = text(TRAN_MSG="true", PGROUP="p") + properties
    plain = await client.ask(310, short(e="1", i=properties), b"plain")
    reply = await client.ask(310, short(f="4", e="1", i=half), b"half")
    assert reply.code == plain.code == 13
    assert broker.store.tables.topics.find("RMQ_SYS_TRANS_HALF_TOPIC") is None


async def test_a_committed_message_waits_for_its_delay(
    broker: StoreBroker, client: RemotingPair
) -> None:
    fields = await begun(broker, client, TIMER_DELAY_SEC="5", TIMER_DELAY_MS="7")
    (half,) = [decode_record(one) for one in broker.records("RMQ_SYS_TRANS_HALF_TOPIC")]
    assert half.properties["TIMER_DELAY_MS"] == "5000"
    assert (await client.ask(37, {**fields, "commitOrRollback": "8"})).code == 0
    assert await delivered(broker) == 0
    (waiting,) = [decode_record(one) for one in broker.records("rmq_sys_wheel_timer")]
    assert waiting.properties["REAL_TOPIC"] == "orders"


async def test_a_one_way_decision_is_served(broker: StoreBroker, client: RemotingPair) -> None:
    fields = await begun(broker, client)
    client.send(37, {**fields, "commitOrRollback": "8"}, flag=2)
    await client.idle()
    assert await delivered(broker) == 1
    refused = await client.ask(37, {**fields, "commitOrRollback": "12"})
    assert (refused.code, "already" in refused.remark) == (1, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"producerGroup": "other"}, {"transactionId": "x"}, {"commitLogOffset": "7"},
        {"tranStateTableOffset": "9"}, {"tranStateTableOffset": "-1"}, {"commitOrRollback": "x"},
    ],
)  # fmt: skip
async def test_what_names_no_transaction_changes_nothing(
    broker: StoreBroker, client: RemotingPair, wrong: dict[str, str]
) -> None:
    fields = await begun(broker, client)
    reply = await client.ask(37, {**fields, "commitOrRollback": "8", **wrong})
    assert (reply.code, bool(reply.remark)) == (1, True)
    assert await delivered(broker) == 0


async def checked(broker: StoreBroker, client: RemotingPair) -> list[Command]:
    """Lets the time of a check pass; returns the broker's requests."""
    for passed in (0, 40_000):
        broker.clock.advance(passed)
        for _ in range(20):
            now = Now(broker.clock.monotonic_ms(), broker.clock.wall_ms())
            following = broker.transactions.step(now)
            if isinstance(following.mark, Job):
                await following.mark.reached()
            await broker.store.flush()
            await broker.talking.settled()
    await client.settled()
    return [one for one in client.asked if one.code == 39]


async def test_an_undecided_producer_is_asked_and_its_answer_holds(
    broker: StoreBroker, client: RemotingPair
) -> None:
    fields = await begun(broker, client)
    assert (await client.ask(34, {}, BEAT)).code == 0
    (question,) = await checked(broker, client)
    assert question.is_one_way
    assert question.fields["transactionId"] == question.fields["msgId"] == KEY
    message = decode_record(question.body)
    assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"half")
    assert (message.properties["PGROUP"], message.properties["own"]) == ("p", "1")
    names = ("tranStateTableOffset", "commitLogOffset", "transactionId")
    answer = {**fields, **{name: question.fields[name] for name in names}}
    assert (await client.ask(37, {**answer, "commitOrRollback": "8"})).code == 0
    assert await delivered(broker) == 1


@pytest.mark.parametrize("way", ["leaves", "is lost"])
async def test_a_producer_that_left_is_asked_no_more(
    broker: StoreBroker, client: RemotingPair, way: str
) -> None:
    await begun(broker, client)
    assert (await client.ask(34, {}, BEAT)).code == 0
    assert (await client.ask(34, {}, BEAT)).code == 0  # A repeated one joins once.
    assert broker.transactions.producer_count("p") == 1
    if way == "leaves":
        assert (await client.ask(35, {"clientID": "c", "producerGroup": "p"})).code == 0
    else:
        client.lose()
    assert broker.transactions.producer_count("p") == 0
    assert await checked(broker, client) == []
