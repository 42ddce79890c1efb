"""Transactions through the client, against a served broker."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from pocketmq.client import (
    ClientError,
    EndStatus,
    Message,
    PendingTransaction,
    Receipt,
    Resolution,
    Unreachable,
    errors,
)
from pocketmq.client.channel import Stub
from pocketmq.client.following import BrokerWait
from pocketmq.client.transacting import WAIT_MS, Checks, answer_checks
from pocketmq.rpc.pb import broker_pb2
from tests.client.test_tail import Loop
from tests.kit.store_language import until
from tests.rpc.desk import Desk, opened_desk
from tests.rpc.v1.test_transacting import pass_time, pulled

COMMIT, ROLLBACK, UNKNOWN = Resolution.COMMIT, Resolution.ROLLBACK, Resolution.UNKNOWN
HOST = "127.0.0.1:1"
MESSAGE = Message("orders", b"a", producer_group="payers")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A broker that knows of no transaction yet."""
    async with opened_desk() as opened:
        await opened.broker.transactions.recover()
        yield opened


@pytest.mark.parametrize(("resolution", "seen"), [(COMMIT, [b"a"]), (ROLLBACK, []), (UNKNOWN, [])])
async def test_what_the_work_returns_ends_the_transaction(
    desk: Desk, resolution: Resolution, seen: list[bytes]
) -> None:
    def work(receipt: Receipt) -> Resolution:
        assert receipt.transaction_id
        return resolution

    receipt, given = await desk.client.send_in_transaction(MESSAGE, work)
    assert given is resolution
    assert await pulled(desk.broker) == seen
    left = [one.transaction_id for one in await desk.admin.list_transactions()]
    assert left == ([receipt.transaction_id] if resolution is UNKNOWN else [])
    shown, message = await desk.admin.describe_transaction(receipt.transaction_id)
    states = {COMMIT: "committed", ROLLBACK: "rolled back", UNKNOWN: "open"}
    assert (shown.state, shown.group, message.body) == (states[resolution], "payers", b"a")


async def test_work_that_fails_rolls_the_message_back(desk: Desk) -> None:
    async def work(receipt: Receipt) -> Resolution:
        raise KeyError("no money")

    with pytest.raises(KeyError):
        await desk.client.send_in_transaction(MESSAGE, work)
    assert await desk.admin.list_transactions() == []
    assert await pulled(desk.broker) == []


async def test_what_cannot_be_ended_is_an_error(desk: Desk) -> None:
    receipt = await desk.client.send(Message("orders", b"a", transactional=True))
    client, text = desk.client, receipt.transaction_id
    with pytest.raises(ClientError) as refused:
        await client.end_transaction("payers", text, COMMIT)
    assert refused.value.reason == "NO_TRANSACTION"
    await client.end_transaction("orders", text, COMMIT)
    await client.end_transaction("orders", text, COMMIT)
    rows = await client.end_transactions("orders", [(text, ROLLBACK), (text, COMMIT)])
    assert [row.status for row in rows] == [EndStatus.ENDED_OTHERWISE, EndStatus.ENDED]
    with pytest.raises(errors.TransactionUnknown):
        await desk.admin.describe_transaction("1.2.K")


async def test_a_producer_answers_for_one_that_is_gone(desk: Desk) -> None:
    for body in (b"a", b"b", b"c"):
        message = Message("orders", body, producer_group="payers", first_check_ms=1_000)
        await desk.client.send_in_transaction(message, lambda _: UNKNOWN)
    asked: list[bytes] = []

    def checker(pending: PendingTransaction) -> Resolution:
        asked.append(pending.message.body)
        return {b"a": COMMIT, b"b": UNKNOWN, b"c": ROLLBACK}[pending.message.body]

    answering = asyncio.ensure_future(
        desk.client.answer_checks("payers", checker, count_max=2, is_lasting=False)
    )
    await until(lambda: desk.broker.transactions.waiter_count > 0)
    while not answering.done():  # One caller may get them in several answers.
        await pass_time(desk.broker, 1_000)
    assert await answering == 2
    assert set(asked) == {b"a", b"b", b"c"}
    assert await pulled(desk.broker) == [b"a"]
    (left,) = await desk.admin.list_transactions(group="payers")
    assert left.checks >= 1
    assert left.state == "open"


@pytest.mark.parametrize("returned", [None, True])
async def test_what_is_no_resolution_is_named_and_decides_nothing(
    desk: Desk, returned: Any
) -> None:
    with pytest.raises(TypeError, match=rf"{returned} was returned.*Resolution\.COMMIT or"):
        await desk.client.send_in_transaction(MESSAGE, lambda _: returned)
    (left,) = await desk.admin.list_transactions()
    assert left.state == "open"


class Leaving:
    """A service that answers one call, fails twice, and has a check then."""

    def __init__(self) -> None:
        self.wait_ms: list[int] = []

    async def ask(self, method: str, **fields: Any) -> Any:
        """Returns the answer of a call."""
        if method != "CheckTransactions":
            return broker_pb2.EndTransactionResponse(results=[{"status": 1}])
        self.wait_ms.append(fields["wait_ms"])
        if len(self.wait_ms) in (2, 3):
            raise Unreachable("Unreachable", "gone", retryable=True)
        message = {
            "topic": "orders",
            "body": b"a",
            **dict.fromkeys(("born_host", "store_host"), HOST),
        }
        checks = [] if len(self.wait_ms) == 1 else [{"transaction_id": "1", "message": message}]
        return broker_pb2.CheckTransactionsResponse(checks=checks)


async def test_a_broker_that_goes_away_during_the_first_wait_is_waited_for() -> None:
    leaving = Leaving()
    stub = cast("Stub", leaving)
    checks = Checks(stub, Loop(), "payers", "me", BrokerWait())
    assert await answer_checks(stub, "payers", checks, lambda _: COMMIT, 1) == 1
    assert leaving.wait_ms == [0, WAIT_MS, WAIT_MS, WAIT_MS]
