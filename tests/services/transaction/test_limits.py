"""Transactions at their bounds: when the step is called again, one put, one turn, many topics."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.errors import DiskSlow, TransactionDecided
from pocketmq.model.step import Next, Now
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from pocketmq.model.transaction import Decision
from pocketmq.services.transaction import fast_end as plain_module
from pocketmq.services.transaction import finding as finding_module
from pocketmq.services.transaction import half_table as reading_module
from pocketmq.services.transaction import transactions as transactions_module
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_table import HalfReader
from pocketmq.services.transaction.halves import HalfState
from pocketmq.store.job import Job
from pocketmq.store.write.writing import Writing
from tests.kit.rows import Row, batch
from tests.kit.store_language import STORE_HOST, turns
from tests.kit.transacting import (
    COMMIT,
    GROUP,
    ROLLBACK,
    RULES,
    TransactionDesk,
    transacting,
)
from tests.sim.disk import SimDisk

NOTICED_MS = 2_000


def step(desk: TransactionDesk) -> Next:
    """Runs the step once."""
    return desk.transactions.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))


def in_ms(desk: TransactionDesk, following: Next) -> int:
    """Returns in how many ms the step wants to be called again."""
    assert following.at_ms is not None
    return following.at_ms - desk.clock.monotonic_ms()


async def written_after(desk: TransactionDesk, ms: int) -> int | None:
    """Returns where a start begins to read half messages when some time has passed."""
    await desk.run()
    desk.clock.advance(ms)
    await desk.run()
    if desk.transactions._saving is not None:
        await desk.transactions._saving.reached()
    return desk.store.tables.offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0)


def asked_about(desk: TransactionDesk) -> list[str]:
    """Returns the bodies of what was asked about."""
    return [decode_record(check.record).body.decode() for check in desk.asked]


# -- when the step is called again -----------------------------------------------------------------
async def test_with_nothing_to_look_at_the_step_is_called_twice_a_second(
    desk: TransactionDesk,
) -> None:
    following = step(desk)
    assert in_ms(desk, following) == 500
    assert following.mark is not None
    assert not following.mark.reached(following.value).done()  # type: ignore[attr-defined]


async def test_the_step_is_called_when_the_next_half_message_is_looked_at(
    desk: TransactionDesk,
) -> None:
    await desk.half("a")
    await desk.settled()
    at_ms = desk.clock.monotonic_ms()
    step(desk)
    assert desk.transactions._checking.next_ms == -(-(at_ms + 1_000) // 100) * 100
    desk.clock.advance(900)
    assert in_ms(desk, step(desk)) == desk.transactions._checking.next_ms - at_ms - 900


async def test_the_step_is_called_when_a_look_is_done_or_half_a_second_later(
    desk: TransactionDesk,
) -> None:
    await desk.half("a")
    await desk.settled()
    step(desk)
    desk.clock.advance(1_100)
    following = step(desk)
    assert isinstance(following.mark, Job)
    assert in_ms(desk, following) == 500
    await following.mark.reached(following.value)
    assert not isinstance(step(desk).mark, Job)


async def test_a_producer_that_comes_for_what_waits_wakes_the_step(desk: TransactionDesk) -> None:
    await desk.half("a")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    following = step(desk)
    mark = following.mark
    assert mark is not None
    woken = mark.reached(following.value)
    desk.listen("others")
    assert not woken.done()  # type: ignore[attr-defined]
    desk.listen()
    assert woken.done()  # type: ignore[attr-defined]


async def test_how_far_half_messages_are_done_is_written_down_each_five_seconds(
    desk: TransactionDesk,
) -> None:
    written: list[int | None] = []
    await desk.run()
    for name in "ab":
        await desk.roll_back(await desk.half(name))
        written += [await written_after(desk, ms) for ms in (4_999, 1)]
    assert written == [None, 1, 1, 2]


async def test_of_a_store_with_nothing_done_nothing_is_written_down(desk: TransactionDesk) -> None:
    await desk.half("a")
    await desk.run(10_000)
    await desk.transactions.close()
    find = desk.store.tables.offsets.find
    assert [find(TRANSACTION_GROUP, topic, 0) for topic in (HALF_TOPIC, OP_HALF_TOPIC)] == [
        None, None,
    ]  # fmt: skip


async def test_how_far_they_are_done_is_not_written_down_before_the_log_is_durable(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(_: Writing) -> bool:
        return False

    await desk.roll_back(await desk.half("a"))
    with monkeypatch.context() as patch:
        patch.setattr(Writing, "durable", late)
        assert await written_after(desk, 5_000) is None
    assert await written_after(desk, 5_000) == 1


# -- looking and asking ----------------------------------------------------------------------------
async def test_more_than_one_read_holds_are_all_asked_about(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "READ_BYTES_MAX", 1)
    desk.listen()
    for name in "abc":
        await desk.half(name)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert sorted(asked_about(desk)) == ["a", "b", "c"]


async def test_only_the_first_question_comes_when_its_producer_wants_it(
    desk: TransactionDesk,
) -> None:
    desk.listen()
    await desk.half("a", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    await desk.run(1_000 + NOTICED_MS)
    assert len(desk.asked) == 1
    await desk.run(RULES.interval_ms - 4_000)
    assert len(desk.asked) == 1
    await desk.run(4_000 + NOTICED_MS)
    assert len(desk.asked) == 2


async def test_those_that_wait_for_a_producer_next_to_each_other_are_one_range(
    desk: TransactionDesk,
) -> None:
    for at in range(6):
        await desk.half(f"{at}", group="others" if at == 4 else GROUP)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    parked = {group: [*ranges] for group, ranges in desk.transactions._checking._parked.items()}
    assert parked == {GROUP: [0, 4, 5, 6], "others": [4, 5]}


async def test_a_message_in_another_queue_of_the_topic_is_no_half_message(
    desk: TransactionDesk,
) -> None:
    for queue_id in (1, 0, 1):
        run = (Destination(HALF_TOPIC, queue_id, STORE_HOST), batch(Row(b"x")))
        await desk.store.writing.put([run])
    await desk.settled()
    assert desk.transactions.open_count == 1


async def test_pages_go_on_behind_what_one_look_finds(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "LOOK_MAX", 2)
    sent = [await desk.half(f"{at}") for at in range(9)]
    await desk.roll_back(sent[0], *sent[2:6])
    pages: list[tuple[list[int], int]] = []
    begin = 0
    for _ in range(3):
        page = await desk.transactions.page(begin, 2)
        pages.append(([half.place.queue_offset for half in page.halves], page.next_offset))
        begin = page.next_offset
    assert pages == [([1, 6], 7), ([7, 8], 0), ([1, 6], 7)]


# -- one put ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("file_bytes", "put_bytes"), [(1 << 18, 1 << 16), (1 << 23, 1 << 20)])
async def test_half_messages_of_one_put_take_a_quarter_of_a_file_or_a_mib(
    file_bytes: int, put_bytes: int
) -> None:
    async with transacting(
        Path("/store"), disk=SimDisk(), commit_log_file_size_bytes=file_bytes
    ) as desk:
        assert desk.transactions._ledger.put_bytes == put_bytes


async def test_many_that_wait_for_the_same_one_are_all_answered(desk: TransactionDesk) -> None:
    await desk.half("a")
    ledger = desk.transactions._ledger
    await desk.settled()
    ledger.see()
    ledger.take(0)
    waiting = [asyncio.ensure_future(ledger.left(0)) for _ in range(3)]
    await turns(5)
    waiting[1].cancel()
    assert not waiting[0].done()
    ledger.give_back(0)
    await turns(5)
    assert [one.cancelled() for one in waiting] == [False, True, False]
    assert all(one.done() for one in waiting)
    await ledger.left(0)


async def test_a_slow_disk_as_half_messages_are_read_leaves_them_open(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: object) -> None:
        raise DiskSlow(tries=1)

    sent = [await desk.half(name) for name in "ab"]
    await desk.settled()
    with monkeypatch.context() as patch:
        patch.setattr(HalfReader, "read", slow)
        with pytest.raises(DiskSlow):
            await desk.decide(COMMIT, *sent)
    assert [desk.transactions._ledger.halves.is_open(at) for at in (0, 1)] == [True, True]
    await desk.commit(*sent)
    assert desk.bodies() == ["a", "b"]


async def test_a_slow_disk_as_one_is_looked_up_is_told_and_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slow(*_: object) -> None:
        raise DiskSlow(tries=1)

    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        sent = await desk.half("a")
        await desk.settled()
    async with transacting(Path("/store"), disk=disk) as desk:
        fresh = await desk.half("b")
        with monkeypatch.context() as patch:
            patch.setattr(HalfSearch, "first", slow)
            with pytest.raises(DiskSlow):
                await desk.decide(COMMIT, sent, fresh)
        assert desk.transactions.open_count == 1
        await desk.commit(sent, fresh)
        assert sorted(desk.bodies()) == ["a", "b"]


# -- where committed messages go -------------------------------------------------------------------
async def test_where_no_topic_is_known_a_message_goes_to_the_queue_it_was_for(
    desk: TransactionDesk,
) -> None:
    await desk.commit(await desk.half("a", topic="never", queue_id=3))
    assert desk.bodies("never", 3) == ["a"]


@pytest.mark.parametrize("sent_count", [8, 12])
async def test_more_of_one_key_than_a_page_holds_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, sent_count: int
) -> None:
    monkeypatch.setattr(finding_module, "PAGE", 4)
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        sent = [await desk.half(f"{at}", key="same") for at in range(sent_count)]
        await desk.commit(*sent[::2])
        await desk.roll_back(*sent[1::2])
    async with transacting(Path("/store"), disk=disk) as desk:
        for at, one in enumerate(sent):
            agreed, opposite = (COMMIT, ROLLBACK) if at % 2 == 0 else (ROLLBACK, COMMIT)
            assert await desk.decide(agreed, one) == [None]
            (refusal,) = await desk.decide(opposite, one)
            assert isinstance(refusal, TransactionDecided)


# -- plain decisions -------------------------------------------------------------------------------
async def plain(desk: TransactionDesk, *ids: str) -> bool:
    """Returns whether commits were taken at once."""
    taken = desk.transactions.plain.decide(GROUP, [Decision(one, COMMIT) for one in ids])
    await desk.settled()
    return taken


async def test_topics_whose_frames_are_kept_are_limited(desk: TransactionDesk) -> None:
    await desk.roll_back(await desk.half("before"))
    known = desk.transactions.plain._known
    counts: list[int] = []
    for number in range(4):
        await desk.store.tables.topics.create(f"t{number}", queue_count=1)
        assert await plain(desk, await desk.half(f"{number}", topic=f"t{number}"))
        counts.append(len(known))
        frame = next(iter(known.values()))
        known |= {b"other%d" % at: frame for at in range(plain_module.FRAMES_MAX - 2)}
    assert counts == [1, plain_module.FRAMES_MAX, 1, plain_module.FRAMES_MAX]
    assert [desk.bodies(f"t{number}") for number in range(4)] == [[f"{at}"] for at in range(4)]


async def test_what_is_too_much_for_one_put_is_left_to_the_usual_way(
    desk: TransactionDesk,
) -> None:
    await desk.store.tables.topics.create("paid", queue_count=1)
    await desk.roll_back(await desk.half("before", topic="paid"))
    sent = [await desk.half(name, topic="paid") for name in "abc"]
    assert await plain(desk, sent[0])
    size = desk.transactions.plain._records.size_sum
    desk.transactions._ledger.put_bytes = size - 1
    assert not await plain(desk, sent[1])
    assert desk.transactions.open_count == 2
    desk.transactions._ledger.put_bytes = size
    assert await plain(desk, sent[1])
    assert desk.bodies("paid") == ["a", "b"]


@pytest.mark.parametrize("queue_id", [-1, 2])
async def test_a_queue_that_never_was_is_left_to_the_usual_way(
    desk: TransactionDesk, queue_id: int
) -> None:
    await desk.store.tables.topics.create("paid", queue_count=2)
    await desk.roll_back(await desk.half("before", topic="paid"))
    assert not await plain(desk, await desk.half("a", topic="paid", queue_id=queue_id))
    assert await plain(desk, await desk.half("b", topic="paid", queue_id=1))


async def test_after_a_start_what_is_open_is_looked_up_before_it_is_decided() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.store.tables.topics.create("paid", queue_count=1)
        await desk.roll_back(await desk.half("before", topic="paid"))
        sent = await desk.half("a", topic="paid")
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.settled()
        assert desk.transactions._ledger.halves.state(1) is HalfState.UNSURE
        assert not await plain(desk, sent)
        await desk.commit(sent)
        assert desk.bodies("paid") == ["a"]
