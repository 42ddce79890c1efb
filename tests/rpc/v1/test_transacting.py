"""Transactions as a producer and an operator see them; what decides them: services/transaction."""

import asyncio
from typing import Any

import pytest

from pocketmq.model.errors import (
    IllegalGroup,
    IllegalNumber,
    KindConflict,
    RequestError,
    TransactionUnknown,
)
from pocketmq.model.step import Now
from pocketmq.rpc.pb import admin_pb2
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import MalformedRequest
from pocketmq.store.job import Job
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import turns

GROUP = "payers"


async def send(broker: StoreBroker, *bodies: bytes, **fields: Any) -> list[pb.SendResult]:
    """Sends messages of transactions."""
    fields = {"topic": "orders", "transactional": True, "producer_group": GROUP, **fields}
    messages = [pb.Message(body=body, **fields) for body in bodies]
    answer = await broker.answer("SendMessage", pb.SendMessageRequest(messages=messages))
    return list(answer.results)


async def end(
    broker: StoreBroker, resolution: Any, *ids: str, group: str = GROUP
) -> list[tuple[int, str]]:
    """Ends transactions."""
    request = pb.EndTransactionRequest(group=group)
    for text in ids:
        request.decisions.add(transaction_id=text, resolution=resolution)
    answer = await broker.answer("EndTransaction", request)
    return [(row.status, row.why) for row in answer.results]


async def pulled(broker: StoreBroker) -> list[bytes]:
    """Returns the bodies that any consumer sees."""
    await broker.talking.settled()
    found = []
    for queue_id in range(2):
        request = pb.PullMessageRequest(group="g", topic="orders", queue_id=queue_id)
        answer = await broker.answer("PullMessage", request)
        found += [message.body for message in answer.messages]
    return found


async def pass_time(broker: StoreBroker, by_ms: int) -> None:
    """Advances the clock in pieces, and runs the steps that are due."""
    while True:
        for _ in range(20):
            now = Now(broker.clock.monotonic_ms(), broker.clock.wall_ms())
            following = broker.transactions.step(now)
            if not isinstance(following.mark, Job):
                break
            await following.mark.reached()
        await broker.talking.settled()
        await turns()
        if by_ms <= 0:
            return
        broker.clock.advance(500)
        by_ms -= 500


async def test_a_message_is_seen_once_its_transaction_is_committed(broker: StoreBroker) -> None:
    kept, dropped = await send(broker, b"kept", b"dropped")
    assert (kept.topic, kept.status) == ("orders", pb.SEND_OK)
    assert kept.transaction_id != dropped.transaction_id
    assert await pulled(broker) == []
    assert await end(broker, pb.UNKNOWN, kept.transaction_id) == [(pb.ENDED, "")]
    assert await end(broker, pb.COMMIT, kept.transaction_id) == [(pb.ENDED, "")]
    assert await end(broker, pb.ROLLBACK, dropped.transaction_id) == [(pb.ENDED, "")]
    assert await pulled(broker) == [b"kept"]
    ((status, why),) = await end(broker, pb.ROLLBACK, kept.transaction_id)
    assert status == pb.ENDED_OTHERWISE
    assert "is already committed" in why


async def test_each_decision_is_answered_in_its_place(broker: StoreBroker) -> None:
    (sent,) = await send(broker, b"a", producer_group="")
    rows = await end(broker, pb.COMMIT, "nonsense", sent.transaction_id, group="orders")
    assert [status for status, _ in rows] == [pb.NO_TRANSACTION, pb.ENDED]
    assert "that is no transaction id" in rows[0][1]
    rows = await end(broker, pb.COMMIT, sent.transaction_id)
    assert [status for status, _ in rows] == [pb.NO_TRANSACTION], "another group's"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_group": "no group!"}, IllegalGroup),
        ({"first_check_ms": -1}, IllegalNumber),
        ({"first_check_ms": 3_600_001}, IllegalNumber),
        ({"message_group": "m"}, RequestError),
        ({"priority": 3}, RequestError),
    ],
)
async def test_what_cannot_be_a_transaction_is_refused(
    broker: StoreBroker, fields: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await send(broker, b"a", **fields)


async def test_a_topic_of_another_type_takes_no_transaction(broker: StoreBroker) -> None:
    await broker.store.tables.topics.create(
        "plain", queue_count=1, attributes={"message.type": "NORMAL"}
    )
    with pytest.raises(KindConflict):
        await send(broker, b"a", topic="plain")


async def test_requests_that_say_nothing_are_malformed(broker: StoreBroker) -> None:
    with pytest.raises(MalformedRequest):
        await end(broker, pb.RESOLUTION_UNSPECIFIED, "1.2.K")
    with pytest.raises(MalformedRequest):
        await end(broker, 7, "1.2.K")
    with pytest.raises(MalformedRequest):
        await end(broker, pb.COMMIT, *["1.2.K"] * 1_025)
    with pytest.raises(IllegalGroup):
        await end(broker, pb.COMMIT, "1.2.K", group="")
    for request in (
        pb.CheckTransactionsRequest(group=GROUP, max=33),
        pb.CheckTransactionsRequest(group=GROUP, wait_ms=-1),
    ):
        with pytest.raises(IllegalNumber):
            await broker.answer("CheckTransactions", request)


async def test_a_producer_that_waits_is_asked_and_answers(broker: StoreBroker) -> None:
    await broker.transactions.recover()
    await send(broker, b"a", keys=["k"], tag="T", properties={"mine": "1"}, first_check_ms=1_500)
    await pass_time(broker, 1_000)
    waiting = pb.CheckTransactionsRequest(group=GROUP, wait_ms=30_000)
    asked = asyncio.ensure_future(broker.messaging.check_transactions(waiting, FakeCall()))
    await turns()
    assert not asked.done()
    await pass_time(broker, 4_000)
    (check,) = (await asked).checks
    message = check.message
    assert check.checks == 1
    assert (message.topic, message.body, message.tag) == ("orders", b"a", "T")
    assert message.properties["mine"] == "1"
    assert not {"REAL_TOPIC", "TRAN_MSG", "__transactionId__", "PGROUP"} & set(message.properties)
    assert await end(broker, pb.COMMIT, check.transaction_id) == [(pb.ENDED, "")]
    assert await pulled(broker) == [b"a"]


async def test_nobody_waits_longer_than_asked_or_while_the_broker_ends(
    broker: StoreBroker,
) -> None:
    waiting = pb.CheckTransactionsRequest(group=GROUP, wait_ms=2_000)
    asked = asyncio.ensure_future(broker.messaging.check_transactions(waiting, FakeCall()))
    await pass_time(broker, 2_500)
    assert not (await asked).checks
    asked = asyncio.ensure_future(broker.messaging.check_transactions(waiting, FakeCall()))
    await turns()
    assert broker.transactions.waiter_count == 1
    broker.transactions.drain()
    assert not (await asked).checks
    assert not (await broker.answer("CheckTransactions", waiting)).checks
    await turns()
    assert broker.transactions.waiter_count == 0


async def test_a_producer_that_hangs_up_is_not_asked(broker: StoreBroker) -> None:
    await broker.transactions.recover()
    await send(broker, b"a")
    waiting = pb.CheckTransactionsRequest(group=GROUP, wait_ms=30_000)
    asked = asyncio.ensure_future(broker.messaging.check_transactions(waiting, FakeCall()))
    await turns()
    asked.cancel()
    await turns()
    await pass_time(broker, 10_000)
    listed = await broker.answer("Admin/ListTransactions", admin_pb2.ListTransactionsRequest())
    assert [row.checks for row in listed.transactions] == [0]
    assert [row.producer_count for row in listed.transactions] == [0]


async def test_operators_see_what_is_open_and_what_became_of_one(broker: StoreBroker) -> None:
    sent = await send(broker, b"a", b"b", b"c", message_id="")
    (other,) = await send(broker, b"d", producer_group="others")
    await broker.talking.settled()
    await end(broker, pb.COMMIT, sent[1].transaction_id)

    async def listed(**fields: Any) -> list[str]:
        request = admin_pb2.ListTransactionsRequest(**fields)
        answer = await broker.answer("Admin/ListTransactions", request)
        assert answer.open_count == 3
        return [row.transaction_id for row in answer.transactions]

    ids = [sent[0].transaction_id, sent[2].transaction_id, other.transaction_id]
    assert await listed() == ids
    assert await listed(group=GROUP) == ids[:2]
    assert await listed(topic="elsewhere") == []
    assert await listed(max=1) == ids[:1]
    assert await listed(offset=1) == ids[1:]

    async def described(text: str) -> Any:
        request = admin_pb2.DescribeTransactionRequest(transaction_id=text)
        return await broker.answer("Admin/DescribeTransaction", request)

    answer = await described(sent[1].transaction_id)
    assert (answer.transaction.state, answer.message.body) == ("committed", b"b")
    answer = await described(ids[0])
    assert (answer.transaction.state, answer.transaction.group) == ("open", GROUP)
    for text in ("nonsense", "9.9.K", ids[0] + "x"):
        with pytest.raises(TransactionUnknown):
            await described(text)
