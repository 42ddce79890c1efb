"""Rules of checks as they are followed, and what a step, a stop and a refusal leave."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.errors import DiskAboveLimit, StoreDamaged
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.step import Now
from pocketmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.model.transaction import Check
from pocketmq.services.transaction.checking import CheckRules
from pocketmq.store.job import Job
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import Later
from pocketmq.store.read.reading import Reading
from tests.kit.transacting import GROUP, RULES, TransactionDesk, transacting
from tests.sim.disk import SimDisk

NOTICED_MS = 2_000
FULL = DiskAboveLimit(path="/", used_percent=95, free_bytes=5, limit_percent=90)
DAMAGED = StoreDamaged(path="0", file_position=0, begin=0, end=9, why="a test says so")


def next_ms(desk: TransactionDesk) -> int:
    """Runs the step once; returns the ms until the next look."""
    desk.transactions.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
    found = desk.transactions._checking.next_ms
    assert found is not None
    return found - desk.clock.monotonic_ms()


# -- rules -------------------------------------------------------------------------------------
def test_the_rules_are_those_of_rocketmq_where_nothing_is_set() -> None:
    assert CheckRules() == (6_000, 30_000, 15, 72 * 60 * 60 * 1_000)


async def test_other_rules_are_followed_from_the_next_look_on(desk: TransactionDesk) -> None:
    desk.listen()
    await desk.half("before")
    await desk.run(NOTICED_MS)
    desk.transactions.take(RULES._replace(timeout_ms=20_000, checks_max=1))
    await desk.half("after")
    await desk.run(18_000)
    assert [decode_record(check.record).body for check in desk.asked] == [b"before"]
    await desk.run(4_000)
    assert [decode_record(check.record).body for check in desk.asked] == [b"before", b"after"]
    await desk.run(RULES.interval_ms + NOTICED_MS)
    assert sorted(desk.given_up()) == ["after", "before"]
    assert len(desk.asked) == 2


async def test_a_listener_is_asked_nothing_that_its_producer_may_not_be_asked(
    desk: TransactionDesk,
) -> None:
    transactions = desk.transactions
    refusing = asyncio.create_task(transactions.asked(GROUP, 9, 60_000, lambda check: False))
    await desk.half("a")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert not refusing.done()
    taking = asyncio.create_task(transactions.asked(GROUP, 9, 60_000, lambda check: True))
    await desk.run(RULES.interval_ms + NOTICED_MS)
    assert [check.checks for check in await taking] == [2]
    transactions.drain()
    assert await refusing == []


async def test_one_without_a_key_is_given_up_as_no_answer_could_name_it(
    desk: TransactionDesk,
) -> None:
    desk.listen()
    await desk.half("a", UNIQ_KEY="")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert (desk.given_up(), desk.asked) == (["a"], [])
    assert desk.transactions.open_count == 0


async def test_topics_that_tell_of_transactions_have_one_queue(desk: TransactionDesk) -> None:
    await desk.roll_back(await desk.half("a"))
    counts = [
        found.write_queue_count
        for topic in (HALF_TOPIC, OP_HALF_TOPIC, GIVEN_UP_TOPIC)
        if (found := desk.store.tables.topics.find(topic)) is not None
    ]
    assert counts == [1, 1, 1]


# -- refusals ----------------------------------------------------------------------------------
async def test_a_question_that_was_refused_is_put_a_second_later_and_no_other_early(
    desk: TransactionDesk,
) -> None:
    desk.listen()
    await desk.roll_back(await desk.half("before"))
    await desk.half("a")
    await desk.half("later", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    await desk.run(NOTICED_MS)
    desk.clock.advance(next_ms(desk))
    desk.store.writing.refuse(FULL)
    await desk.run()
    desk.store.writing.refuse(None)
    assert next_ms(desk) == 1_000
    desk.clock.advance(999)
    await desk.run()
    assert desk.asked == []
    desk.clock.advance(1)
    await desk.run()
    assert [decode_record(check.record).body for check in desk.asked] == [b"a"]


async def test_one_that_waits_for_room_brings_no_other_early(desk: TransactionDesk) -> None:
    rooms = [0]

    def offer(check: Check) -> bool:
        desk.asked.append(check)
        return True

    desk.transactions.join(GROUP, offer, lambda: rooms[0])
    await desk.half("a")
    await desk.half("later", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    await desk.run(RULES.timeout_ms + NOTICED_MS)
    assert desk.asked == []
    rooms[0] = 9
    await desk.run(NOTICED_MS)
    assert [decode_record(check.record).body for check in desk.asked] == [b"a"]


# -- steps and stops ---------------------------------------------------------------------------
async def test_of_a_damaged_store_nothing_is_looked_at_or_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.roll_back(await desk.half("a"))
        await desk.half("b")
        monkeypatch.setattr(MessageStore, "damage", property(lambda _: DAMAGED))
        now = Now(desk.clock.monotonic_ms(), desk.clock.wall_ms())
        following = desk.transactions.step(now)
        assert (following.at_ms, following.mark) == (now.monotonic_ms + 500, None)
        assert desk.transactions._checking.next_ms is None
        end = desk.store.appended
        await desk.transactions.close()
        assert desk.store.appended == end
        assert desk.store.tables.offsets.find("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) is None


async def test_time_that_goes_back_ends_the_step(desk: TransactionDesk) -> None:
    desk.transactions.step(Now(5_000, 0))
    with pytest.raises(AssertionError, match="monotonic time decreased"):
        desk.transactions.step(Now(4_999, 0))


async def test_a_stop_waits_for_the_look_that_is_under_way(desk: TransactionDesk) -> None:
    await desk.half("a")
    await desk.settled()
    next_ms(desk)
    desk.clock.advance(1_100)
    now = Now(desk.clock.monotonic_ms(), desk.clock.wall_ms())
    job = desk.transactions.step(now).mark
    assert isinstance(job, Job)
    assert not job.is_done
    await desk.transactions.close()
    assert job.is_done


async def test_until_a_first_place_is_seen_retention_keeps_everything(
    desk: TransactionDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await desk.half("a")
    await desk.settled()

    async def look() -> None:
        return None

    monkeypatch.setattr(Reading, "place_of", lambda *_: Later(look))
    assert desk.transactions.floor() == 0
    await desk.roll_back(sent)
    assert desk.transactions.floor() == OFFSET_MAX
