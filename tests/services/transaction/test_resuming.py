"""A transaction that was given up waits again where an operator resumes it."""

import pytest

from pocketmq.format.transaction_id import read_transaction_id, transaction_id
from pocketmq.model.errors import TransactionDecided, TransactionUnknown
from tests.kit.transacting import COMMIT, RULES, TransactionDesk

NOTICED_MS = 1_000


async def given_up(desk: TransactionDesk, body: str = "a") -> str:
    """Returns the id of a transaction that was given up."""
    sent = await desk.half(body)
    await desk.run(RULES.timeout_ms + (RULES.checks_max + 1) * (RULES.interval_ms + NOTICED_MS))
    assert desk.given_up()[-1] == body
    return sent


async def resumed(desk: TransactionDesk, text: str) -> str:
    place = read_transaction_id(text)
    assert place is not None
    again = transaction_id(await desk.transactions.resume(place))
    await desk.settled()
    return again


async def test_one_that_was_given_up_can_be_committed_once_it_is_resumed(
    desk: TransactionDesk,
) -> None:
    desk.listen()
    again = await resumed(desk, await given_up(desk))
    assert desk.bodies() == []
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in desk.halves()[-1].properties
    assert desk.halves()[-1].properties["TRANSACTION_CHECK_TIMES"] == "0"
    await desk.commit(again)
    assert desk.bodies() == ["a"]
    assert desk.transactions.open_count == 0


async def test_its_producers_are_asked_as_if_it_had_just_been_sent(desk: TransactionDesk) -> None:
    desk.listen()
    again = await resumed(desk, await given_up(desk))
    desk.asked.clear()
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]
    await desk.roll_back(again)
    assert desk.bodies() == []


async def test_it_is_resumed_once(desk: TransactionDesk) -> None:
    desk.listen()
    sent = await given_up(desk)
    again = await resumed(desk, sent)
    assert await resumed(desk, sent) == again
    assert await resumed(desk, again) == again, "one that is open waits already"
    await desk.commit(again)
    for text in (sent, again):
        with pytest.raises(TransactionDecided):
            await resumed(desk, text)
    assert desk.bodies() == ["a"]


async def test_what_was_decided_or_never_was_is_not_resumed(desk: TransactionDesk) -> None:
    sent = await desk.half("a")
    assert await desk.decide(COMMIT, sent) == [None]
    with pytest.raises(TransactionDecided):
        await resumed(desk, sent)
    with pytest.raises(TransactionUnknown):
        await resumed(desk, "7.7.K")
