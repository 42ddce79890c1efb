"""Decisions: taken once, for the half message they name, and for no other."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.format.record import decode_record
from pocketmq.format.transaction_id import read_transaction_id, transaction_id
from pocketmq.model.errors import (
    BrokerReadOnly,
    DiskAboveLimit,
    TopicNotFound,
    TransactionDecided,
    TransactionUnknown,
)
from pocketmq.model.message import TRANSACTION_COMMIT
from pocketmq.model.reading import ReadRange
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.model.transaction import Resolution
from pocketmq.services.admin.topics import remove_topics
from pocketmq.services.delay.levels import Schedule
from pocketmq.services.transaction.halves import HalfState
from pocketmq.store.job import Job
from tests.kit.store_language import STORE_HOST, at_once
from tests.kit.transacting import (
    COMMIT,
    ROLLBACK,
    TOPIC,
    UNKNOWN,
    TransactionDesk,
    transacting,
)
from tests.sim.disk import SimDisk


async def test_a_committed_message_is_there_and_one_rolled_back_is_not(
    desk: TransactionDesk,
) -> None:
    first, second = await desk.half("a"), await desk.half("b")
    await desk.settled()
    assert desk.bodies() == []
    await desk.commit(first)
    await desk.roll_back(second)
    assert desk.bodies() == ["a"]
    assert desk.named() == [[0], [1]]


async def test_a_committed_message_is_the_one_that_was_sent(desk: TransactionDesk) -> None:
    sent = await desk.half("a", queue_id=1, KEYS="k", mine="1")
    await desk.commit(sent)
    (message,), (half,) = desk.messages(queue_id=1), desk.halves()
    assert message.system_flag == half.system_flag | TRANSACTION_COMMIT
    assert message.prepared_transaction_offset == half.physical_offset
    kept = {k: v for k, v in half.properties.items() if k not in ("REAL_TOPIC", "REAL_QID")}
    assert message.properties == kept
    assert (message.born_timestamp_ms, message.born_host, message.keys, message.body) == (
        half.born_timestamp_ms, half.born_host, ["k"], b"a",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "ahead_ms"),
    [
        ("TIMER_DELAY_SEC", "5", 5_000), ("TIMER_DELAY_MS", "5500", 5_500),
        ("TIMER_DELIVER_MS", "at", 60_000), ("TIMER_DELAY_MS", "9" * 15, 366 * 86_400_000),
    ],
)  # fmt: skip
async def test_a_commit_waits_for_the_delivery_time_of_its_message(
    desk: TransactionDesk, name: str, value: str, ahead_ms: int
) -> None:
    due_ms = desk.clock.wall_ms() + ahead_ms
    sent = await desk.half("a", queue_id=1, **{name: str(due_ms) if value == "at" else value})
    await desk.commit(sent)
    assert desk.bodies(queue_id=1) == []
    (message,), (half,) = desk.messages(TIMER_TOPIC), desk.halves()
    assert desk.store.tables.topics.existing(TIMER_TOPIC).is_kept
    out_ms = int(message.properties.pop("TIMER_OUT_MS"))
    assert out_ms < due_ms <= out_ms + 1_000
    assert message.properties == half.properties
    assert message.prepared_transaction_offset == half.physical_offset
    assert desk.named() == [[0]]
    assert await desk.decide(COMMIT, sent) == [None]


@pytest.mark.parametrize(("level", "queue_id"), [("3", 2), ("99", 17)])
async def test_a_commit_waits_for_the_delay_level_of_its_message(
    desk: TransactionDesk, level: str, queue_id: int
) -> None:
    sent = await desk.half("a", DELAY=level, TIMER_DELAY_MS="1")
    await desk.commit(sent)
    assert desk.bodies() == []
    (message,) = desk.messages(SCHEDULE_TOPIC, queue_id)
    assert message.properties["DELAY"] == str(queue_id + 1)
    assert "TIMER_DELAY_MS" not in message.properties
    schedule = Schedule(desk.store, STORE_HOST)
    desk.clock.advance(3 * 3_600_000)
    for _ in range(100):
        following = schedule.step(Now(desk.clock.monotonic_ms(), desk.clock.wall_ms()))
        if isinstance(following.mark, Job):
            await following.mark.reached()
    await schedule.close()
    await desk.settled()
    assert desk.bodies() == ["a"]


async def test_a_commit_after_the_delivery_time_of_its_message_delivers_it(
    desk: TransactionDesk,
) -> None:
    await desk.commit(await desk.half("a", TIMER_DELIVER_MS=str(desk.clock.wall_ms() - 1)))
    assert desk.bodies() == ["a"]


async def test_what_is_for_a_queue_that_is_no_more_goes_where_consumers_are(
    desk: TransactionDesk,
) -> None:
    topics = desk.store.tables.topics
    await topics.update(TOPIC, read_queue_count=6, write_queue_count=6)
    sent = [await desk.half(body, queue_id=queue_id) for body, queue_id in (("a", 5), ("b", 1))]
    await topics.update(TOPIC, read_queue_count=2, write_queue_count=2)
    sent += [await desk.half("c", queue_id=5), await desk.half("d", queue_id=0)]
    await desk.commit(*sent)
    found = [[one.body for one in desk.messages(queue_id=queue_id)] for queue_id in (0, 1, 5)]
    assert found == [[b"d"], [b"a", b"b", b"c"], []]


@pytest.mark.parametrize(("first", "second"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
async def test_the_first_decision_holds(
    desk: TransactionDesk, first: Resolution, second: Resolution
) -> None:
    sent = await desk.half("a")
    assert await desk.decide(first, sent) == [None]
    end = desk.store.appended
    assert await desk.decide(first, sent) == [None]
    (refusal,) = await desk.decide(second, sent)
    assert isinstance(refusal, TransactionDecided)
    assert refusal.first == ("committed" if first is COMMIT else "rolled back")
    await desk.settled()
    assert desk.store.appended == end
    assert desk.bodies() == (["a"] if first is COMMIT else [])


async def test_decisions_of_one_turn_share_a_put_and_the_first_of_each_wins(
    desk: TransactionDesk,
) -> None:
    sent = [await desk.half(name) for name in "abc"]
    answers = await asyncio.gather(
        desk.decide(COMMIT, sent[0]),
        desk.decide(ROLLBACK, sent[0]),
        desk.decide(COMMIT, sent[1], sent[1]),
        desk.decide(ROLLBACK, sent[2]),
        desk.decide(COMMIT, sent[0]),
    )
    assert [[error is None for error in errors] for errors in answers] == [
        [True], [False], [True, True], [True], [True],
    ]  # fmt: skip
    await desk.settled()
    assert desk.bodies() == ["a", "b"]
    assert desk.named() == [[0, 1, 2]]


async def test_nothing_happens_to_a_transaction_of_which_not_all_is_said(
    desk: TransactionDesk,
) -> None:
    sent, other = await desk.half("a"), await desk.half("b")
    place, next_place = read_transaction_id(sent), read_transaction_id(other)
    assert place is not None
    assert next_place is not None
    await desk.settled()
    end = desk.store.appended
    wrong = [
        transaction_id(place._replace(queue_offset=1)),
        transaction_id(place._replace(queue_offset=7)),
        transaction_id(place._replace(physical_offset=next_place.physical_offset)),
        transaction_id(place._replace(physical_offset=place.physical_offset + 1)),
        transaction_id(place._replace(physical_offset=1 << 40)),
        transaction_id(place._replace(unique_key="KEY-b")),
        place.unique_key, "", "0.0.", "-1.0.KEY-a", "0.0x0.KEY-a", f"00.{sent[2:]}",
    ]  # fmt: skip
    for resolution in (COMMIT, ROLLBACK):
        for text in wrong:
            (refusal,) = await desk.decide(resolution, text)
            assert isinstance(refusal, TransactionUnknown), text
        (refusal,) = await desk.decide(resolution, sent, group="others")
        assert isinstance(refusal, TransactionUnknown)
    assert await desk.decide(UNKNOWN, sent) == [None]
    assert desk.store.appended == end
    await desk.commit(sent)
    (refusal,) = await desk.decide(COMMIT, sent, group="others")
    assert isinstance(refusal, TransactionUnknown), "what was decided is told to its group alone"
    (refusal,) = await desk.decide(COMMIT, transaction_id(place._replace(unique_key="KEY-b")))
    assert isinstance(refusal, TransactionUnknown)


async def test_one_that_cannot_be_taken_keeps_no_other_from_it(desk: TransactionDesk) -> None:
    sent = [await desk.half("a"), await desk.half("b", REAL_QID="x"), await desk.half("c")]
    refusals = await desk.decide(COMMIT, *sent)
    assert [refusal is None for refusal in refusals] == [True, False, True]
    await desk.settled()
    assert desk.bodies() == ["a", "c"]
    assert await desk.decide(ROLLBACK, sent[1]) == [None], "it can be rolled back"


@pytest.mark.parametrize("had_queues", [False, True])
async def test_a_topic_that_was_removed_takes_no_message(
    desk: TransactionDesk, *, had_queues: bool
) -> None:
    await desk.store.tables.topics.create("gone", queue_count=1)
    if had_queues:
        await desk.talking.send("gone", "x")
    sent = await desk.half("a", topic="gone")
    await desk.settled()
    await remove_topics(desk.store, ["gone"])
    (refusal,) = await desk.decide(COMMIT, sent)
    assert isinstance(refusal, TopicNotFound)
    assert desk.store.tables.topics.find("gone") is None
    await desk.roll_back(sent)


async def test_a_store_that_takes_nothing_leaves_transactions_open(desk: TransactionDesk) -> None:
    sent = await desk.half("a")
    desk.store.writing.refuse(
        DiskAboveLimit(path="/", used_percent=95, free_bytes=5, limit_percent=90)
    )
    with pytest.raises(DiskAboveLimit):
        await desk.decide(COMMIT, sent)
    desk.store.writing.refuse(BrokerReadOnly(why="it is a follower"))
    with pytest.raises(BrokerReadOnly):
        await desk.decide(ROLLBACK, sent)
    desk.store.writing.refuse(None)
    await desk.commit(sent)
    assert desk.bodies() == ["a"]


async def test_many_in_small_files_take_several_puts(desk: TransactionDesk) -> None:
    sent = [await desk.half(f"{number:03}" + "x" * 4_000) for number in range(60)]
    await desk.commit(*sent)
    assert [body[:3] for body in desk.bodies()] == [f"{number:03}" for number in range(60)]
    named = desk.named()
    assert len(named) > 1
    assert [at for one in named for at in one] == list(range(60))


async def test_more_than_one_read_holds_are_all_taken() -> None:
    async with transacting(
        Path("/store"), disk=SimDisk(), commit_log_file_size_bytes=1 << 22
    ) as desk:
        sent = [
            await desk.half(f"{number:03}" + "x" * 60_000, key=f"{number}") for number in range(40)
        ]
        await desk.commit(*sent)
        bodies: list[str] = []
        for begin in range(0, 20, 10):
            wanted = ReadRange(TOPIC, 0, begin, 10, 1 << 24)
            found = at_once(desk.store.reading.pull(wanted)).records
            bodies += [decode_record(one).body[:3].decode() for one in found]
        assert bodies == [f"{number:03}" for number in range(20)]


async def test_an_id_that_is_none_is_refused_and_no_answer_to_an_empty_one(
    desk: TransactionDesk,
) -> None:
    (refusal,) = await desk.decide(COMMIT, "nonsense")
    assert isinstance(refusal, TransactionUnknown)
    assert refusal.why == "that is no transaction id"
    assert await desk.decide(UNKNOWN, "nonsense") == [None]


async def test_what_was_decided_is_known_after_a_start_whether_remembered_or_not() -> None:
    disk = SimDisk()
    async with transacting(Path("/store"), disk=disk) as desk:
        sent = [await desk.half(name) for name in "abc"]
        await desk.commit(sent[0])
        await desk.roll_back(sent[1])
    async with transacting(Path("/store"), disk=disk) as desk:
        await desk.settled()
        assert desk.transactions.open_count == 1
        end = desk.store.appended
        assert await desk.decide(COMMIT, sent[0]) == [None]
        assert await desk.decide(ROLLBACK, sent[1]) == [None]
        for resolution, one, first in ((ROLLBACK, 0, "committed"), (COMMIT, 1, "rolled back")):
            (refusal,) = await desk.decide(resolution, sent[one])
            assert isinstance(refusal, TransactionDecided)
            assert refusal.first == first
        assert desk.store.appended == end
        await desk.commit(sent[2])
        assert desk.bodies() == ["a", "c"]


async def test_two_transactions_under_one_key_stay_apart(desk: TransactionDesk) -> None:
    first = await desk.half("a", key="SAME")
    second = await desk.half("b", key="SAME")
    await desk.commit(second)
    await desk.roll_back(first)
    assert desk.bodies() == ["b"]


async def test_a_half_message_is_not_found_by_its_key(desk: TransactionDesk) -> None:
    sent = await desk.half("a", KEYS="k")
    await desk.settled()
    assert await desk.talking.found(TOPIC, "k") == []
    assert await desk.store.reading.message_by_unique_key(TOPIC, "KEY-a") is None
    await desk.commit(sent)
    found = await desk.store.reading.message_by_unique_key(TOPIC, "KEY-a")
    assert found is not None
    assert found.body == b"a"


async def test_one_that_was_just_sent_is_shown(desk: TransactionDesk) -> None:
    for number in range(8):
        place = read_transaction_id(await desk.half(f"{number}"))
        assert place is not None
        half, state = await desk.transactions.state_of(place)
        assert (half.place, state) == (place, HalfState.OPEN)
