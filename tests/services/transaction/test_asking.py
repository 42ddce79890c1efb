"""From a look at a half message to its question: what is durable, damaged, refused or at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.half_message import Half, committed
from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import read_transaction_id
from pocketmq.model.errors import (
    DiskAboveLimit,
    PropertiesTooLarge,
    TransactionDecided,
)
from pocketmq.model.step import Now
from pocketmq.model.transaction import Check
from pocketmq.services.transaction import checking as checking_module
from pocketmq.services.transaction.checking import TURN_MAX, TURN_MS
from pocketmq.services.transaction.half_table import HalfReader, HalfTable
from pocketmq.store.settings import FLUSH_SYNC
from tests.kit.store_language import turns, until
from tests.kit.transacting import COMMIT, GROUP, ROLLBACK, RULES, TransactionDesk, transacting
from tests.sim.disk import SimDisk

NOTICED_MS = 2_000
FULL = DiskAboveLimit(path="/", used_percent=95, free_bytes=5, limit_percent=90)


def begin_step(desk: TransactionDesk) -> None:
    """Runs a step, which begins the checks that are due."""
    desk.transactions.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))


def asked_about(desk: TransactionDesk) -> list[str]:
    """Returns the bodies of what was asked about."""
    return [decode_record(check.record).body.decode() for check in desk.asked]


# -- durable ---------------------------------------------------------------------------------------
async def test_a_producer_is_asked_once_what_it_is_asked_about_is_durable(tmp_path: Path) -> None:
    """Else a crash would leave it with an id that nothing is known of."""
    async with transacting(tmp_path / "s", flush=FLUSH_SYNC) as desk:
        desk.listen()
        await desk.roll_back(await desk.half("before"))
        await desk.half("a")
        await desk.run(RULES.timeout_ms - 500)
        desk.clock.advance(NOTICED_MS)
        with desk.talking.quick_disk.held(tmp_path / "s" / "commitlog"):
            before = desk.store.appended
            begin_step(desk)
            await until(lambda: desk.store.appended > before)
            await turns(50)
            assert desk.asked == []
        await desk.run()
        assert [check.checks for check in desk.asked] == [1]


async def _resumed(desk: TransactionDesk, text: str) -> None:
    place = read_transaction_id(text)
    assert place is not None
    await desk.transactions.resume(place)


async def _committed(desk: TransactionDesk, text: str) -> None:
    assert await desk.decide(COMMIT, text) == [None]


@pytest.mark.parametrize("call", [_resumed, _committed])
async def test_nothing_is_answered_before_it_is_durable(
    tmp_path: Path, call: Callable[[TransactionDesk, str], Awaitable[None]]
) -> None:
    rules = RULES._replace(keep_ms=RULES.interval_ms)
    async with transacting(tmp_path / "s", rules, flush=FLUSH_SYNC) as desk:
        given_up = await desk.half("a")
        await desk.run(rules.keep_ms + NOTICED_MS)
        assert desk.given_up() == ["a"]
        sent = await desk.half("b") if call is _committed else given_up
        with desk.talking.quick_disk.held(tmp_path / "s" / "commitlog"):
            before = desk.store.appended
            answer = asyncio.ensure_future(call(desk, sent))
            await until(lambda: desk.store.appended > before)
            await turns(50)
            assert not answer.done()
        await answer


# -- damaged ---------------------------------------------------------------------------------------
async def test_one_that_is_damaged_is_passed_once_that_can_be_told(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = HalfReader.read

    async def damaged(reading: HalfReader, wanted: Sequence[int]) -> dict[int, Half | None]:
        return await read(reading, wanted) | {at: None for at in wanted if at == 0}

    sent, other = await desk.half("a"), await desk.half("b")
    monkeypatch.setattr(HalfReader, "read", damaged)
    desk.store.writing.refuse(FULL)
    await desk.run(NOTICED_MS)
    assert desk.transactions.open_count == 2
    desk.store.writing.refuse(None)
    await desk.run(NOTICED_MS)
    assert desk.transactions.open_count == 1
    assert desk.named() == [[0]]
    lost = [one for one in caplog.records if one.message == "transaction.lost"]
    assert {vars(one)["queue_offset"] for one in lost} == {0}
    (refusal,) = await desk.decide(COMMIT, sent)
    assert isinstance(refusal, TransactionDecided)
    assert "damaged" in str(refusal)
    await desk.commit(other)
    assert desk.bodies() == ["b"]


# -- together, and in turn -------------------------------------------------------------------------
async def test_a_producer_that_comes_is_asked_about_all_of_its_group(desk: TransactionDesk) -> None:
    """They lie among those of another group."""
    for name in "abcde":
        await desk.half(name, group=GROUP if name in "ace" else "others")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    desk.listen()
    await desk.run(NOTICED_MS)
    assert sorted(asked_about(desk)) == ["a", "c", "e"]


@pytest.mark.parametrize("is_decided", [False, True])
async def test_as_many_end_in_one_put_as_it_has_room_for(
    desk: TransactionDesk, *, is_decided: bool
) -> None:
    desk.listen()
    sent = [await desk.half(name) for name in "abc"]
    await desk.settled()
    halves = (await desk.transactions._ledger.reading.read([0, 1])).values()
    desk.transactions._ledger.put_bytes = sum(len(half.record) for half in halves if half)
    if is_decided:
        await desk.commit(*sent)
    else:
        await desk.run(RULES.timeout_ms + NOTICED_MS)
        assert asked_about(desk) == ["a", "b", "c"]
    assert desk.named() == [[0, 1], [2]]


async def test_those_for_whom_no_producer_has_room_are_looked_at_again_in_turns(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking_module, "GROUPS_MAX", 3)
    checking = desk.transactions._checking
    for at in range(2 * TURN_MAX + 5):
        checking._put_off(GROUP, at, Now(1_000, 0))
    checking._put_off(GROUP, 90, Now(1_000 + 3 * TURN_MS, 0))
    found: dict[int, list[int]] = {}
    for now_ms in range(1_000, 2_000, TURN_MS):
        while (due := checking.due.due(now_ms, 99)) is not None:
            found.setdefault(now_ms, []).extend(range(*due))
    assert found == {
        1_000 + TURN_MS: [*range(TURN_MAX)],
        1_000 + 2 * TURN_MS: [*range(TURN_MAX, 2 * TURN_MAX)],
        1_000 + 3 * TURN_MS: [*range(2 * TURN_MAX, 2 * TURN_MAX + 5)],
        1_000 + 4 * TURN_MS: [90],
    }
    for number in range(9):
        checking._put_off(f"{number}", number, Now(2_000, 0))
        assert len(checking._turns) <= 3


async def test_questions_are_counted_by_what_came_of_them(desk: TransactionDesk) -> None:
    def offer(check: Check) -> bool:
        desk.asked.append(check)
        return len(desk.asked) > 1

    desk.transactions.join(GROUP, offer)
    await desk.half("a")
    checks = desk.transactions._checking.checks
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert checks.values == {("not_taken",): 1}
    await desk.run(RULES.interval_ms + NOTICED_MS)
    assert checks.values == {("not_taken",): 1, ("asked",): 1}


# -- decided meanwhile -----------------------------------------------------------------------------
@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_decision_that_comes_as_its_question_is_put_holds(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """It waits for that, and then is of the copy, or of the one that was there."""
    desk.listen()
    sent = await desk.half("a")
    await desk.run(RULES.timeout_ms - 500)
    put, gate, puts = HalfTable.put, asyncio.Event(), []

    async def slow(ledger: HalfTable, *given: Any) -> Any:
        puts.append(given)
        if len(puts) == 1:
            await gate.wait()
            if is_refused:
                raise FULL
        return await put(ledger, *given)

    monkeypatch.setattr(HalfTable, "put", slow)
    desk.clock.advance(NOTICED_MS)
    begin_step(desk)
    await until(lambda: bool(puts))
    decisions = [asyncio.ensure_future(desk.decide(one, sent)) for one in (COMMIT, ROLLBACK)]
    await turns(20)
    assert not any(one.done() for one in decisions)
    gate.set()
    first, second = [(await one)[0] for one in decisions]
    assert first is None
    assert isinstance(second, TransactionDecided)
    await desk.run(NOTICED_MS)
    assert desk.bodies() == ["a"]
    assert len(desk.asked) == 1 - is_refused
    assert desk.transactions.open_count == 0


async def test_one_whose_message_cannot_be_put_keeps_no_other_from_being_decided(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [await desk.half(name) for name in "abc"]
    put = HalfTable.put

    async def refused(ledger: HalfTable, named: Sequence[int], runs: Any) -> Any:
        if 1 in named:
            raise PropertiesTooLarge(size_bytes=32_768, limit_bytes=32_767)
        return await put(ledger, named, runs)

    with monkeypatch.context() as patch:
        patch.setattr(HalfTable, "put", refused)
        answers = await desk.decide(COMMIT, *sent)
    assert [type(one) for one in answers] == [type(None), PropertiesTooLarge, type(None)]
    assert desk.transactions.open_count == 1
    await desk.commit(sent[1])
    assert desk.bodies() == ["a", "c", "b"]


@pytest.mark.parametrize("is_decided", [False, True])
async def test_what_is_found_to_be_done_is_told_in_the_log(*, is_decided: bool) -> None:
    """A cut took what told of it: the next start does not look for it again."""
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.roll_back(await desk.half("before"))
        sent = await desk.half("a")
        await desk.settled()
        half = (await desk.transactions._ledger.reading.read([1]))[1]
        assert half is not None
        await desk.store.writing.put([committed(half, 1)])
    async with transacting(Path("/store"), disk=disk) as desk:
        desk.listen()
        if is_decided:
            assert await desk.decide(COMMIT, sent) == [None]
        else:
            await desk.run(RULES.timeout_ms + NOTICED_MS)
        await desk.settled()
        assert desk.named() == [[0], [1]]
        assert (desk.bodies(), desk.asked) == (["a"], [])


async def test_what_is_decided_while_it_is_looked_at_is_not_counted_as_open(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, _ = await desk.half("a"), await desk.half("b")
    read, reads = HalfReader.read, list[Sequence[int]]()

    async def decided(reading: HalfReader, wanted: Sequence[int]) -> dict[int, Half | None]:
        reads.append(wanted)
        if len(reads) == 1:
            await desk.roll_back(sent)
        return await read(reading, wanted)

    monkeypatch.setattr(HalfReader, "read", decided)
    await desk.run(NOTICED_MS)
    assert desk.transactions.stats[0].read() == {("orders",): 1}  # type: ignore[union-attr]
