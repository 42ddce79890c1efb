"""Undecided transactions: their producers are checked, and in the end they expire."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.half_message import Half
from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import read_transaction_id
from pocketmq.model.errors import DiskAboveLimit, DiskSlow, FsyncFailed, TransactionDecided
from pocketmq.model.message import TRANSACTION_CHECK_TIMES, StoredMessage
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from pocketmq.model.transaction import Check
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.transaction.checking import CheckSchedule
from pocketmq.services.transaction.duplicate_halves import Became
from pocketmq.services.transaction.finding import HalfSearch
from pocketmq.services.transaction.half_table import HalfReader
from pocketmq.services.transaction.producers import Offer
from pocketmq.store.message_store import MessageStore
from tests.kit.store_language import UNTIL_S
from tests.kit.transacting import (
    COMMIT,
    GROUP,
    ROLLBACK,
    RULES,
    TOPIC,
    TransactionDesk,
    transacting,
)
from tests.sim.disk import SimDisk

NOTICED_MS = 2_000
"""How long it takes at most that a half message was read."""


def offsets(store: MessageStore) -> tuple[int | None, int | None]:
    """Returns where a start begins to read."""
    find = store.tables.offsets.find
    return find(TRANSACTION_GROUP, HALF_TOPIC, 0), find(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)


async def test_a_producer_is_asked_when_the_time_is_over_and_then_again_and_again(
    desk: TransactionDesk,
) -> None:
    desk.listen()
    sent = await desk.half("a")
    await desk.run(RULES.timeout_ms - 500)
    assert desk.asked == []
    await desk.run(NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]
    await desk.run(RULES.interval_ms - 4_000)
    assert len(desk.asked) == 1
    await desk.run(4_000 + NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1, 2]
    assert [half.properties.get(TRANSACTION_CHECK_TIMES, "") for half in desk.halves()] == [
        "", "1", "2",
    ]  # fmt: skip
    last = desk.asked[-1]
    assert last.group == GROUP
    assert decode_record(last.record).body == b"a"
    assert last.transaction_id != sent
    await desk.commit(last.transaction_id)
    assert desk.bodies() == ["a"]
    assert desk.transactions.open_count == 0


@pytest.mark.parametrize("known", [0, 1, 2])
async def test_any_id_it_ever_had_decides_a_transaction(desk: TransactionDesk, known: int) -> None:
    desk.listen()
    ids = [await desk.half("a")]
    await desk.run(RULES.timeout_ms + RULES.interval_ms + 2 * NOTICED_MS)
    ids += [check.transaction_id for check in desk.asked]
    await desk.commit(ids[known])
    for one in ids:
        assert await desk.decide(COMMIT, one) == [None]
        (refusal,) = await desk.decide(ROLLBACK, one)
        assert isinstance(refusal, TransactionDecided)
    await desk.run(2 * RULES.interval_ms)
    assert desk.bodies() == ["a"]
    assert len(desk.asked) == 2


async def test_its_first_id_decides_it_after_a_start_too() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        desk.listen()
        sent = [await desk.half(name) for name in "abc"]
        await desk.run(RULES.timeout_ms + NOTICED_MS)
        await desk.commit(sent[0])
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.settled()
        await desk.commit(sent[0], sent[1])
        await desk.roll_back(sent[2])
        assert desk.bodies() == ["a", "b"]
        (refusal,) = await desk.decide(COMMIT, sent[2])
        assert isinstance(refusal, TransactionDecided)
        assert desk.transactions.open_count == 0


async def test_a_purged_message_is_still_committed() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        sent = await desk.half("a")
        await desk.commit(sent)
        await purge_topic(desk.store, TOPIC)
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.settled()
        await desk.commit(sent)
        (refusal,) = await desk.decide(ROLLBACK, sent)
        assert isinstance(refusal, TransactionDecided)
        assert refusal.first.startswith("committed")
        assert desk.store.reading.queue_range(TOPIC, 0) == (1, 1)


async def test_one_asked_too_often_is_given_up(desk: TransactionDesk) -> None:
    desk.listen()
    sent = await desk.half("a", mine="1")
    await desk.run(RULES.timeout_ms + (RULES.checks_max + 1) * (RULES.interval_ms + NOTICED_MS))
    assert [check.checks for check in desk.asked] == [1, 2, 3]
    assert desk.given_up() == ["a"]
    assert desk.transactions.open_count == 0
    for resolution in (COMMIT, ROLLBACK):
        (refusal,) = await desk.decide(resolution, sent)
        assert isinstance(refusal, TransactionDecided)
        assert "given up" in str(refusal)
    assert desk.bodies() == []


async def test_without_a_producer_no_check_is_counted(desk: TransactionDesk) -> None:
    desk.listen("others")
    await desk.half("a")
    await desk.run(10 * RULES.interval_ms)
    assert desk.asked == []
    assert len(desk.halves()) == 1
    desk.listen()
    await desk.run(NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]


async def test_what_nobody_can_be_asked_about_is_kept_for_a_time(desk: TransactionDesk) -> None:
    await desk.half("a")
    await desk.run(NOTICED_MS)
    desk.clock.advance(RULES.keep_ms - 5_000)
    await desk.run(NOTICED_MS)
    assert desk.given_up() == []
    await desk.run(2 * NOTICED_MS)
    assert desk.given_up() == ["a"]


async def test_a_producer_may_want_to_be_asked_sooner_or_later(desk: TransactionDesk) -> None:
    desk.listen()
    await desk.half("sooner", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    await desk.half("later", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    await desk.run(1_000 + NOTICED_MS)
    assert [decode_record(check.record).body for check in desk.asked] == [b"sooner"]
    await desk.run(50_000)
    assert {decode_record(check.record).body for check in desk.asked} == {b"sooner"}
    await desk.run(10_000 + NOTICED_MS)
    assert b"later" in [decode_record(check.record).body for check in desk.asked]


async def test_producers_of_a_group_take_turns_and_one_that_is_gone_is_not_asked(
    desk: TransactionDesk,
) -> None:
    told: list[str] = []

    def producer(name: str) -> Offer:
        def offer(check: Check) -> bool:
            told.append(name)
            return True

        return offer

    leave = [desk.transactions.join(GROUP, producer(name)) for name in ("first", "second")]
    for name in "abcd":
        await desk.half(name)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert sorted(told) == ["first", "first", "second", "second"]
    leave[0]()
    await desk.run(RULES.interval_ms + NOTICED_MS)
    assert told[4:] == ["second"] * 4


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 30 * 86_400_000, -30 * 86_400_000])
async def test_a_clock_that_jumps_loses_no_transaction(desk: TransactionDesk, jump_ms: int) -> None:
    desk.listen()
    await desk.half("a")
    await desk.run(NOTICED_MS)
    desk.clock.wall += jump_ms
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]
    desk.clock.wall -= jump_ms
    await desk.run(RULES.interval_ms + NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1, 2]


async def test_a_full_disk_delays_checks_and_loses_none(desk: TransactionDesk) -> None:
    desk.listen()
    sent = await desk.half("a")
    full = DiskAboveLimit(path="/", used_percent=95, free_bytes=5, limit_percent=90)
    desk.store.writing.refuse(full)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert desk.asked == []
    desk.store.writing.refuse(None)
    await desk.run(NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]
    await desk.roll_back(sent)


async def offsets_reach(desk: TransactionDesk, expected: tuple[int, int]) -> None:
    """Runs further steps until the offsets are stored, which threads do."""
    async with asyncio.timeout(UNTIL_S):
        while offsets(desk.store) != expected:
            await desk.run()


async def test_offsets_pass_what_is_done_and_nothing_else(desk: TransactionDesk) -> None:
    sent = [await desk.half(name) for name in "abcd"]
    await desk.commit(sent[0])
    await desk.roll_back(sent[2])
    await desk.run(6_000)
    # The second one tells of a message behind an open one.
    await offsets_reach(desk, (1, 1))
    place = read_transaction_id(sent[1])
    assert place is not None
    assert desk.transactions.floor() == place.physical_offset
    await desk.commit(sent[1])
    await desk.run(6_000)
    await offsets_reach(desk, (3, 3))
    await desk.roll_back(sent[3])
    await desk.run(6_000)
    await offsets_reach(desk, (4, 4))
    assert desk.transactions.floor() > desk.store.appended


async def test_half_messages_are_counted_by_topic(desk: TransactionDesk) -> None:
    desk.listen()
    sent = [await desk.half(name) for name in "abc"]
    await desk.run(NOTICED_MS)
    gauge, committed, rolled_back, finish = desk.transactions.stats[:4]
    assert gauge.read() == {("orders",): 3}  # type: ignore[union-attr]
    await desk.run(RULES.timeout_ms)
    assert gauge.read() == {("orders",): 3}, "put again"  # type: ignore[union-attr]
    await desk.commit(sent[0])
    await desk.roll_back(sent[1])
    assert gauge.read() == {("orders",): 1}  # type: ignore[union-attr]
    assert committed.values == rolled_back.values == {("orders",): 1}  # type: ignore[union-attr]
    assert sum(finish.at(("orders",)).counts) == 2  # type: ignore[union-attr]


async def test_what_was_just_asked_about_is_still_counted(desk: TransactionDesk) -> None:
    """It is not looked at before it is due again."""
    desk.listen()
    await desk.half("a")
    gauge = desk.transactions.stats[0]
    while not desk.asked:
        await desk.run(100)
    assert gauge.read() == {("orders",): 1}  # type: ignore[union-attr]


async def test_one_that_does_not_say_where_it_goes_is_counted_as_unknown(
    desk: TransactionDesk,
) -> None:
    sent = await desk.half("a", REAL_QID="x")
    await desk.run(NOTICED_MS)
    gauge, _, rolled_back, _ = desk.transactions.stats[:4]
    assert gauge.read() == {("unknown",): 1}  # type: ignore[union-attr]
    await desk.roll_back(sent)
    assert gauge.read() == {}  # type: ignore[union-attr]
    assert rolled_back.values == {("unknown",): 1}  # type: ignore[union-attr]


async def test_many_that_are_due_together_take_several_puts(desk: TransactionDesk) -> None:
    desk.listen()
    for number in range(60):
        await desk.half(f"{number:03}" + "x" * 4_000)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert sorted(decode_record(check.record).body[:3] for check in desk.asked) == [
        f"{number:03}".encode() for number in range(60)
    ]
    assert len(desk.named()) > 1


def slow_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has the first reading of halves fail; returns how many each reading asks for."""
    read = HalfReader.read
    tries: list[int] = []

    async def reading_halves(reading: HalfReader, wanted: Sequence[int]) -> dict[int, Half | None]:
        tries.append(len(wanted))
        if len(tries) == 1:
            raise DiskSlow(tries=1)
        return await read(reading, wanted)

    monkeypatch.setattr(HalfReader, "read", reading_halves)
    return tries


async def test_a_first_look_that_was_refused_asks_nobody_early(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.listen()
    await desk.half("a")
    await desk.settled()
    tries = slow_once(monkeypatch)
    await desk.run(RULES.timeout_ms - 500)
    assert tries == [1, 1]
    assert desk.asked == []
    await desk.run(NOTICED_MS)
    assert [check.checks for check in desk.asked] == [1]


async def test_what_is_refused_once_it_is_due_is_asked_about_when_it_is_taken(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.listen()
    await desk.half("a")
    await desk.run(RULES.timeout_ms - 1_000)
    tries = slow_once(monkeypatch)
    await desk.run(3_500)
    assert tries[0] == 1
    assert [check.checks for check in desk.asked] == [1]


async def test_a_store_that_failed_ends_the_checks(desk: TransactionDesk) -> None:
    desk.listen()
    await desk.half("a")
    await desk.run(NOTICED_MS)
    desk.store.writing.refuse(FsyncFailed(why="EIO"))
    with pytest.raises(FsyncFailed):
        await desk.run(RULES.timeout_ms + NOTICED_MS)
    desk.store.writing.refuse(None)
    assert desk.asked == []


async def test_a_producer_that_joins_is_asked_of_nothing_before_its_time(
    desk: TransactionDesk,
) -> None:
    for name in ("a", "b"):
        await desk.half(name)
    await desk.half("later", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    desk.listen()
    await desk.run(NOTICED_MS)
    assert sorted(decode_record(check.record).body for check in desk.asked) == [b"a", b"b"]


async def test_a_question_is_put_to_one_listener_alone(desk: TransactionDesk) -> None:
    listening = [
        asyncio.create_task(desk.transactions.asked(GROUP, 32, RULES.timeout_ms + NOTICED_MS))
        for _ in range(2)
    ]
    await desk.half("a")
    await desk.run(RULES.timeout_ms + 2 * NOTICED_MS)
    asked = [check.checks for one in listening for check in await one]
    assert asked == [1]


async def test_a_listener_is_asked_no_more_than_it_takes(desk: TransactionDesk) -> None:
    listening = asyncio.create_task(desk.transactions.asked(GROUP, 2, 60_000))
    for name in "abc":
        await desk.half(name)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert len(await listening) == 2
    assert desk.transactions.waiter_count == 0
    more = await desk.transactions.asked(GROUP, 2, 0) if desk.transactions.waiter_count else []
    assert more == []


async def test_waits_end_in_time_and_with_a_drain(desk: TransactionDesk) -> None:
    listening = [
        asyncio.create_task(desk.transactions.asked(GROUP, 1, wait_ms))
        for wait_ms in (1_000, 9_000)
    ]
    await desk.run(500)
    assert desk.transactions.waiter_count == 2
    await desk.run(500)
    assert await listening[0] == []
    assert desk.transactions.waiter_count == 1
    assert desk.transactions.producer_count(GROUP) == 1
    desk.transactions.drain()
    assert await listening[1] == []
    assert await desk.transactions.asked(GROUP, 1, 9_000) == []
    assert desk.transactions.producer_count(GROUP) == 0


async def test_open_ones_are_listed_page_by_page(desk: TransactionDesk) -> None:
    sent = [await desk.half(f"{number}") for number in range(7)]
    await desk.roll_back(sent[1], sent[3])
    page = await desk.transactions.page(0, 3)
    assert [half.place.queue_offset for half in page.halves] == [0, 2, 4]
    page = await desk.transactions.page(page.next_offset, 3)
    assert [half.place.queue_offset for half in page.halves] == [5, 6]
    assert (await desk.transactions.page(page.next_offset or 99, 3)).halves == []


async def test_a_slow_disk_while_one_is_looked_up_keeps_no_other_from_being_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    became = HalfSearch.became_all
    looked_up: list[int] = []

    async def slow_once(finding: HalfSearch, first: StoredMessage) -> dict[int, Became]:
        looked_up.append(first.queue_offset)
        if len(looked_up) == 2:
            raise DiskSlow(tries=1)
        return await became(finding, first)

    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        sent = [await desk.half(name) for name in "ab"]
        await desk.settled()
    monkeypatch.setattr(HalfSearch, "became_all", slow_once)
    async with transacting(Path("/store"), disk=disk) as desk:
        desk.listen()
        await desk.run(RULES.timeout_ms + NOTICED_MS)
        assert looked_up == [0, 1, 1]
        assert sorted(decode_record(check.record).body for check in desk.asked) == [b"a", b"b"]
        await desk.commit(*sent)
        assert sorted(desk.bodies()) == ["a", "b"]


async def test_no_check_is_counted_of_which_no_producer_was_asked(desk: TransactionDesk) -> None:
    """A producer takes 16 questions at once, and reads them between two steps."""
    unread: list[str] = []
    asked: dict[str, list[int]] = {}

    def offer(check: Check) -> bool:
        place = read_transaction_id(check.transaction_id)
        assert place is not None
        if len(unread) >= 16:
            return False
        unread.append(place.unique_key)
        asked.setdefault(place.unique_key, []).append(check.checks)
        return True

    desk.transactions.join(GROUP, offer, lambda: 16 - len(unread))
    for number in range(60):
        await desk.half(f"{number}")
    for _ in range(2 * (RULES.timeout_ms + NOTICED_MS) // 500):
        await desk.run(500)
        unread.clear()
    assert len(asked) == 60
    while desk.transactions.open_count:
        assert desk.clock.monotonic_ms() < 10 * (RULES.checks_max + 1) * RULES.interval_ms
        await desk.run(500)
        unread.clear()
    assert all(checks == [1, 2, 3] for checks in asked.values())
    assert desk.transactions.stats[4].values == {("asked",): 180, ("given_up",): 60}  # type: ignore[union-attr]


async def test_producers_that_come_and_go_leave_nothing(desk: TransactionDesk) -> None:
    for number in range(4):
        await desk.half(f"{number}")
        await desk.run(500)
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    sizes: list[int] = []
    for _ in range(30):
        desk.transactions.join(GROUP, lambda check: True)()
        await desk.run(500)
        ranges = desk.transactions._checking._expiries._ranges
        sizes.append(sum(map(len, ranges.values())))
    assert sizes[0] == sizes[-1]
    await desk.run(RULES.keep_ms)
    assert sorted(desk.given_up()) == ["0", "1", "2", "3"]


@given(st.lists(st.integers(0, 40)))
def test_what_is_added_more_than_once_is_due_once(queue_offsets: list[int]) -> None:
    timetable = CheckSchedule()
    for queue_offset in queue_offsets:
        timetable.add_once(1_000, queue_offset)
    found: list[int] = []
    while (due := timetable.due(1_000, 3)) is not None:
        found += range(*due)
    assert sorted(found) == sorted(set(queue_offsets))
    assert timetable.next_ms is None


async def test_others_go_on_while_many_that_are_done_are_passed(desk: TransactionDesk) -> None:
    ids = [await desk.half(f"{number}") for number in range(1_030)]
    assert await desk.decide(ROLLBACK, *ids[1:1_025]) == [None] * 1_024
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    page = await desk.transactions.page(0, 10)
    beside.cancel()
    assert [half.place.queue_offset for half in page.halves] == [0, *range(1_025, 1_030)]
    assert turns > 4


async def test_nobody_is_asked_about_a_message_whose_topic_was_removed(
    desk: TransactionDesk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.listen()
    await desk.store.tables.topics.create("gone", queue_count=1)
    sent = await desk.half("a", topic="gone")
    await desk.half("b")
    await remove_topics(desk.store, ["gone"])
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert [check.topic for check in desk.asked] == [TOPIC]
    assert [one.message for one in caplog.records].count("transaction.discarded") == 1
    (refusal,) = await desk.decide(COMMIT, sent)
    assert isinstance(refusal, TransactionDecided)
    assert desk.store.tables.topics.find("gone") is None


async def test_without_a_limit_a_transaction_waits_for_its_producer_for_ever() -> None:
    async with transacting(Path("/store"), RULES._replace(keep_ms=0), disk=SimDisk()) as desk:
        desk.clock.advance(RULES.interval_ms)  # After a start, no transaction expires so soon.
        sent = await desk.half("a")
        await desk.run(RULES.timeout_ms + NOTICED_MS)
        desk.clock.advance(400 * 86_400_000)
        await desk.run(NOTICED_MS)
        assert desk.transactions.open_count == 1
        desk.listen()
        await desk.run(NOTICED_MS)
        assert len(desk.asked) == 1
        (last,) = desk.asked
        await desk.commit(last.transaction_id)
        assert desk.bodies() == ["a"]
        assert await desk.decide(COMMIT, sent) == [None]


async def test_after_a_stop_of_days_producers_have_time_to_connect() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        for name in ("a", "b"):
            await desk.half(name)
        clock = desk.clock
    clock.advance(2 * RULES.keep_ms)
    async with transacting(Path("/store"), disk=disk, clock=clock) as desk:
        await desk.run(RULES.interval_ms - 1_000)
        assert (desk.given_up(), desk.transactions.open_count) == ([], 2)
        desk.listen()
        await desk.run(NOTICED_MS)
        assert len(desk.asked) == 2
        await desk.commit(desk.asked[0].transaction_id)
        await desk.roll_back(desk.asked[1].transaction_id)
        assert len(desk.bodies()) == 1


async def test_without_producers_they_expire_after_a_stop_of_days() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.half("a")
        clock = desk.clock
    clock.advance(2 * RULES.keep_ms)
    async with transacting(Path("/store"), disk=disk, clock=clock) as desk:
        await desk.run(RULES.interval_ms + NOTICED_MS)
        assert (desk.given_up(), desk.transactions.open_count) == (["a"], 0)


@pytest.mark.parametrize("before_ms", [0, RULES.keep_ms])
async def test_a_new_age_counts_for_transactions_that_wait_already(before_ms: int) -> None:
    rules = RULES._replace(keep_ms=before_ms)
    async with transacting(Path("/store"), rules, disk=SimDisk()) as desk:
        await desk.half("a")
        await desk.run(RULES.interval_ms + NOTICED_MS)
        desk.transactions.take(rules._replace(keep_ms=2 * RULES.interval_ms))
        await desk.run(NOTICED_MS)
        assert desk.given_up() == []
        await desk.run(RULES.interval_ms)
        assert (desk.given_up(), desk.transactions.open_count) == (["a"], 0)
