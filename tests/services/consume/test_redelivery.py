"""Messages that a group failed to consume: their topic, number of retries and properties."""

from collections.abc import AsyncIterator

import pytest

from pocketmq.format.record import decode_record
from pocketmq.format.table_json import decode_table
from pocketmq.model.administration import GroupConfig, GroupSettings
from pocketmq.model.batch import Run
from pocketmq.model.message import StoredMessage
from pocketmq.model.store_shape import DelayLevels
from pocketmq.services.consume.redelivery import Redelivery
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import BORN_HOST, STORE_HOST

LEVELS = DelayLevels("1s 5s 10s 30s 1m")


@pytest.fixture
async def broker() -> AsyncIterator[StoreBroker]:
    """A broker with a group `readers` of three attempts."""
    async with store_broker(delay_levels="1s 5s 10s 30s 1m") as opened:
        await opened.store.tables.groups.create(
            "readers", GroupSettings(max_attempts=3, retry_queue_count=2)
        )
        yield opened


def group_of(broker: StoreBroker) -> GroupConfig:
    """Returns the group."""
    return broker.store.tables.groups.existing("readers")


def redelivery_of(broker: StoreBroker) -> Redelivery:
    """Returns what the broker redelivers by."""
    return Redelivery(broker.store.tables.topics, LEVELS, STORE_HOST)


async def put(broker: StoreBroker, run: Run) -> StoredMessage:
    """Puts a run and returns its message as stored."""
    destination, _ = run
    await broker.store.writing.put([run])
    await broker.talking.settled()
    return decode_record(broker.records(destination.topic, destination.queue_id)[-1])


async def test_topics_are_saved_before_the_first_message_goes_there(broker: StoreBroker) -> None:
    redelivery = redelivery_of(broker)
    await redelivery.prepare(group_of(broker))
    await redelivery.prepare_lease_retry(group_of(broker), "orders")
    path = broker.talking.directory / "config" / "topics.json"
    rows = decode_table(broker.talking.disk.read_file(path))["topicConfigTable"]
    found = {
        name: (row["readQueueNums"], row["writeQueueNums"], row["perm"])
        for name, row in rows.items()
    }
    assert found["SCHEDULE_TOPIC_XXXX"] == (5, 5, 6)
    assert found["%RETRY%readers"] == (2, 2, 6)
    assert found["%RETRY%readers_orders"] == (1, 1, 6)
    assert found["%DLQ%readers"] == (1, 1, 6)


async def test_a_topic_that_exists_keeps_its_queues(broker: StoreBroker) -> None:
    await broker.store.tables.topics.create("%RETRY%readers", queue_count=7)
    await redelivery_of(broker).prepare(group_of(broker))
    assert broker.store.tables.topics.existing("%RETRY%readers").write_queue_count == 7


async def test_what_is_sent_back_waits_three_levels_first_and_ends_as_a_dead_letter(
    broker: StoreBroker,
) -> None:
    redelivery, group = redelivery_of(broker), group_of(broker)
    await redelivery.prepare(group)
    await broker.add("orders", b"a", queue_id=1, UNIQ_KEY="K", TAGS="A", mine="1")
    (record,) = broker.records("orders", 1)
    origin_id = f"{STORE_HOST.hex().upper()}{decode_record(record).physical_offset:016X}"

    first = await put(broker, redelivery.back(record, group, "orders", turn=1))
    assert (first.topic, first.queue_id, first.reconsume_times) == ("SCHEDULE_TOPIC_XXXX", 2, 1)
    assert first.properties == {
        "UNIQ_KEY": "K", "TAGS": "A", "mine": "1", "DELAY": "3", "WAIT": "false",
        "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": origin_id,
        "REAL_TOPIC": "%RETRY%readers", "REAL_QID": "1",
    }  # fmt: skip
    assert (first.body, first.born_host) == (b"a", BORN_HOST)

    record = broker.records("SCHEDULE_TOPIC_XXXX", 2)[-1]
    second = await put(broker, redelivery.back(record, group, "%RETRY%readers"))
    assert (second.queue_id, second.reconsume_times) == (3, 2)
    assert second.properties["RETRY_TOPIC"] == "orders"

    record = broker.records("SCHEDULE_TOPIC_XXXX", 3)[-1]
    letter = await put(broker, redelivery.back(record, group, "%RETRY%readers"))
    assert (letter.topic, letter.queue_id, letter.reconsume_times) == ("%DLQ%readers", 0, 3)
    assert letter.properties["RETRY_TOPIC"] == "orders"
    assert letter.properties["ORIGIN_MESSAGE_ID"] == origin_id
    assert letter.properties["DELAY"] == "0"


@pytest.mark.parametrize("turn", [0, 1, 5])
async def test_a_retry_topic_that_is_not_made_yet_has_one_queue(
    broker: StoreBroker, turn: int
) -> None:
    await broker.add("orders", b"a")
    (record,) = broker.records()
    run = redelivery_of(broker).back(record, group_of(broker), "orders", turn=turn)
    assert (await put(broker, run)).properties["REAL_QID"] == "0"


@pytest.mark.parametrize(("level", "queue_id"), [(1, 0), (5, 4), (99, 4)])
async def test_a_level_that_is_asked_for_is_taken(
    broker: StoreBroker, level: int, queue_id: int
) -> None:
    await broker.add("orders", b"a")
    (record,) = broker.records()
    (destination, _) = redelivery_of(broker).back(record, group_of(broker), "orders", level)
    assert (destination.topic, destination.queue_id) == ("SCHEDULE_TOPIC_XXXX", queue_id)


async def test_a_negative_level_gives_a_message_up(broker: StoreBroker) -> None:
    await broker.add("orders", b"a")
    (record,) = broker.records()
    (destination, _) = redelivery_of(broker).back(record, group_of(broker), "orders", -1)
    assert destination.topic == "%DLQ%readers"


async def test_a_lease_that_is_over_leads_to_the_retry_topic_of_group_and_topic(
    broker: StoreBroker,
) -> None:
    redelivery, group = redelivery_of(broker), group_of(broker)
    await broker.add("orders", b"a", UNIQ_KEY="K")
    (record,) = broker.records()
    first = await put(broker, redelivery.over(record, group, "orders", 5_000))
    assert (first.topic, first.queue_id, first.reconsume_times) == ("%RETRY%readers_orders", 0, 1)
    assert first.properties == {
        "UNIQ_KEY": "K", "ORIGIN_GROUP": "readers", "1ST_POP_TIME": "5000"
    }  # fmt: skip
    assert first.born_host == STORE_HOST
    record = broker.records(first.topic)[-1]
    second = await put(broker, redelivery.over(record, group, first.topic, 9_000))
    assert (second.topic, second.reconsume_times) == (first.topic, 2)
    assert second.properties == first.properties
    record = broker.records(first.topic)[-1]
    letter = await put(broker, redelivery.over(record, group, first.topic, 9_500))
    assert (letter.topic, letter.reconsume_times) == ("%DLQ%readers", 3)
    assert letter.properties["RETRY_TOPIC"] == "orders"
