"""Plain decisions: what is taken at once, what is left to the usual way, and what both leave."""

from pathlib import Path

import pytest

from pocketmq.format.half_message import DELAYING
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from pocketmq.model.transaction import Decision, Resolution
from tests.kit.transacting import (
    COMMIT,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    TransactionDesk,
    transacting,
)
from tests.sim.disk import SimDisk

PAID = "paid"


@pytest.fixture
async def desk(desk: TransactionDesk) -> TransactionDesk:
    """A store where transactions were decided before: the topics of their ends exist."""
    await desk.store.tables.topics.create(PAID, queue_count=2)
    await desk.roll_back(await desk.half("before", topic=PAID))
    return desk


async def decide(
    desk: TransactionDesk, resolution: Resolution, *ids: str, group: str = GROUP
) -> bool:
    """Returns whether decisions were plain, and so taken; what was taken is durable then."""
    taken = desk.transactions.plain.decide(group, [Decision(one, resolution) for one in ids])
    await desk.transactions.durable()
    return taken


async def test_a_plain_decision_is_taken_at_once(desk: TransactionDesk) -> None:
    first, second = await desk.half("a", topic=PAID), await desk.half("b", topic=PAID)
    assert await decide(desk, COMMIT, first)
    assert await decide(desk, ROLLBACK, second)
    assert desk.transactions.open_count == 0
    await desk.settled()
    assert desk.bodies(PAID) == ["a"]
    assert desk.named() == [[0], [1], [2]]


async def test_one_that_says_nothing_decides_nothing(desk: TransactionDesk) -> None:
    sent = await desk.half("a", topic=PAID)
    assert not await decide(desk, UNKNOWN, sent)
    assert not desk.transactions.plain.decide(GROUP, [])
    assert desk.transactions.open_count == 1
    await desk.commit(sent)
    assert desk.bodies(PAID) == ["a"]


async def test_a_start_reads_no_message_of_ends_that_are_passed() -> None:
    """More messages are in the topic than ends are told, so that their offsets differ."""
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.store.tables.topics.create(PAID, queue_count=1)
        for _ in range(5):
            await desk.talking.send(PAID, "x")
        await desk.roll_back(await desk.half("before", topic=PAID))
        for number in range(3):
            assert await decide(desk, COMMIT, await desk.half(f"{number}", topic=PAID))
    async with transacting(Path("/store"), disk=disk) as desk:
        find = desk.store.tables.offsets.find
        topics = (HALF_TOPIC, OP_HALF_TOPIC)
        assert [find(TRANSACTION_GROUP, topic, 0) for topic in topics] == [4, 4]


async def test_what_is_looked_at_and_then_decided_is_counted_no_more(
    desk: TransactionDesk,
) -> None:
    first, second = await desk.half("a", topic=PAID), await desk.half("b", topic=PAID)
    await desk.run(2_000)
    gauge = desk.transactions.stats[0]
    assert gauge.read() == {(PAID,): 2}  # type: ignore[union-attr]
    assert await decide(desk, COMMIT, first)
    assert gauge.read() == {(PAID,): 1}  # type: ignore[union-attr]
    assert await decide(desk, ROLLBACK, second)
    assert gauge.read() == {}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(DELAYING))
async def test_a_half_message_with_a_delay_is_not_plain(desk: TransactionDesk, name: str) -> None:
    sent = await desk.half(
        "a", topic=PAID, queue_id=0, **{name: str(desk.clock.wall_ms() + 60_000)}
    )
    assert not await decide(desk, COMMIT, sent)
    await desk.commit(sent)
    assert desk.bodies(PAID) == []


async def test_of_another_group_or_key_nothing_is_taken(desk: TransactionDesk) -> None:
    sent = await desk.half("a", topic=PAID)
    assert not await decide(desk, COMMIT, sent, group="others")
    assert not await decide(desk, COMMIT, sent[:-1] + "b")
    assert not await decide(desk, COMMIT, sent, sent)
    assert desk.transactions.open_count == 1


async def test_a_queue_that_is_no_more_is_left_to_the_usual_way(desk: TransactionDesk) -> None:
    await desk.store.tables.topics.update(PAID, read_queue_count=6, write_queue_count=6)
    sent = [await desk.half(f"{at}", topic=PAID, queue_id=at) for at in (4, 5)]
    await desk.store.tables.topics.update(PAID, read_queue_count=5, write_queue_count=5)
    assert await decide(desk, COMMIT, sent[0])
    assert not await decide(desk, COMMIT, sent[1])
    await desk.commit(sent[1])


async def test_what_goes_to_a_topic_that_is_no_more_is_left_to_the_usual_way(
    desk: TransactionDesk,
) -> None:
    await desk.store.tables.topics.create("gone", queue_count=1)
    known, fresh = await desk.half("a", topic="gone"), await desk.half("b", topic="gone")
    assert await decide(desk, COMMIT, known)
    await desk.settled()
    await desk.store.tables.topics.remove("gone")
    await desk.store.remove_topic("gone")
    assert not await decide(desk, COMMIT, fresh)
    assert not await decide(desk, COMMIT, await desk.half("c", topic="never"))


async def test_before_the_first_end_the_usual_way_makes_its_topics() -> None:
    async with transacting(Path("/store"), disk=SimDisk()) as desk:
        sent = await desk.half("a", topic=PAID)
        topics = desk.store.tables.topics
        assert topics.find(OP_HALF_TOPIC) is None
        assert not await decide(desk, COMMIT, sent)
        await desk.commit(sent)
        found = topics.find(OP_HALF_TOPIC)
        assert found is not None
        assert found.is_kept
        await topics.create(PAID, queue_count=2)
        assert await decide(desk, COMMIT, await desk.half("b", topic=PAID))


async def test_decisions_are_counted_by_topic_and_age(desk: TransactionDesk) -> None:
    await desk.store.tables.topics.create("others", queue_count=1)
    sent = [
        await desk.half("a", topic=PAID),
        await desk.half("b", topic=PAID),
        await desk.half("c", topic="others"),
    ]  # fmt: skip
    desk.clock.advance(5_000)
    sent.append(await desk.half("d", topic="others"))
    assert await decide(desk, COMMIT, *sent)
    _, committed, rolled_back, finish = desk.transactions.stats[:4]
    assert committed.values == {(PAID,): 2, ("others",): 2}  # type: ignore[union-attr]
    counts = finish.at(("others",)).counts  # type: ignore[union-attr]
    assert counts[0] == 2, "five seconds are at most five"
    assert finish.at(("others",)).sum == 5.0  # type: ignore[union-attr]
    assert rolled_back.values == {(PAID,): 1}  # type: ignore[union-attr]
