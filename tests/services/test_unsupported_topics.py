"""Topics that RocketMQ stores in another way: left as they are, while others are served."""

import json
from pathlib import Path

import pytest

from pocketmq.model.administration import ResetTarget
from pocketmq.model.errors import SystemTopic, TopicExists, UnsupportedTopic
from pocketmq.rpc.pb import admin_pb2, broker_pb2
from pocketmq.services.admin.positions import reset_offsets
from pocketmq.services.admin.topics import create_topic, delete_topic
from tests.golden_stores import GoldenStores
from tests.kit.drafts import draft, drafts_of
from tests.kit.golden_log import files_below
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_golden import golden_sizes
from tests.kit.store_language import BORN_HOST

BATCH = "queue.type=BatchCQ"


def changed_rows(store: Path, **attributes: str) -> None:
    """Writes attributes to the row of each topic in a store's table."""
    for path in (store / "config").glob("topics.json*"):
        table = json.loads(path.read_bytes())
        for topic, attribute in attributes.items():
            name, _, value = attribute.partition("=")
            table["topicConfigTable"][topic]["attributes"] = {name: value} if name else {}
        path.write_text(json.dumps(table))


def queue_files(store: Path, topic: str) -> dict[str, bytes]:
    below = files_below(store)
    return {name: content for name, content in below.items() if f"consumequeue/{topic}/" in name}


async def check_refused(broker: StoreBroker, topic: str, attribute: str) -> None:
    """Checks that receives from the topic and sends to it fail with the reason."""
    with pytest.raises(UnsupportedTopic, match=attribute):
        await broker.send.send(drafts_of(draft(topic=topic)), BORN_HOST)
    for request in (
        ("PullMessage", broker_pb2.PullMessageRequest(topic=topic)),
        ("QueryByKey", broker_pb2.QueryByKeyRequest(topic=topic, key="k")),
        ("QueryOffsets", broker_pb2.QueryOffsetsRequest(topic=topic)),
        ("CommitOffset", broker_pb2.CommitOffsetRequest(topic=topic, group="g")),
        ("Admin/PullMessage", broker_pb2.PullMessageRequest(topic=topic)),
        ("Admin/DeleteTopic", admin_pb2.DeleteTopicRequest(name=topic)),
    ):
        with pytest.raises(UnsupportedTopic, match=attribute):
            await broker.answer(*request)
    await broker.store.tables.groups.ensure("g")
    with pytest.raises(UnsupportedTopic):
        await reset_offsets(broker.store, "g", topic, ResetTarget(latest=True))
    with pytest.raises(UnsupportedTopic):
        await delete_topic(broker.store, topic)


@pytest.mark.parametrize("tells", ["table", "directory", "both"])
async def test_a_topic_of_batch_queues_gets_no_other_ones(
    tells: str, golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("bcq", tmp_path / "bcq")
    was = queue_files(store, "Bcq")
    assert len(was) == 2
    if tells == "table":
        (store / "batchconsumequeue").rename(tmp_path / "elsewhere")
    if tells == "directory":
        changed_rows(store, Bcq="")
    sizes = golden_sizes(golden, "bcq")
    async with store_broker(store, **sizes) as broker:
        await check_refused(broker, "Bcq", BATCH)
        with pytest.raises(TopicExists):
            await create_topic(broker.store, "Bcq", queue_count=4)
        await broker.store.tables.offsets.commit("g", "Bcq", 1, 7)
        sent = await broker.send.send(drafts_of(draft(topic="Plain", queue_id=1)), BORN_HOST)
        assert sent.result.queue_offset > 0
        await broker.talking.settled()
        image = broker.talking.killed(tmp_path / "killed")
    async with store_broker(image, **sizes) as broker:  # Nor after a crash, nor a group moved.
        await check_refused(broker, "Bcq", BATCH)
        assert broker.store.tables.offsets.find("g", "Bcq", 1) == 7
    for directory in (store, image):
        assert not (directory / "consumequeue" / "Bcq").exists()
        assert queue_files(directory, "Bcq") == (was if tells != "table" else {})


async def test_a_compacted_topic_is_left_as_it_is(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("bcq", tmp_path / "bcq")
    changed_rows(store, Plain="cleanup.policy=COMPACTION")
    was = queue_files(store, "Plain")
    async with store_broker(store, **golden_sizes(golden, "bcq")) as broker:
        await check_refused(broker, "Plain", "cleanup.policy=COMPACTION")
        sent = await broker.send.send(drafts_of(draft(topic="Other", queue_id=1)), BORN_HOST)
        assert sent.destination.topic == "Other"
    assert queue_files(store, "Plain") == was


@pytest.mark.parametrize("attribute", ["queue.type=SimpleCQ", "cleanup.policy=delete", "a=b"])
async def test_the_usual_kind_is_served_by_any_name(
    attribute: str, golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("bcq", tmp_path / "bcq")
    changed_rows(store, Plain=attribute)
    async with store_broker(store, **golden_sizes(golden, "bcq")) as broker:
        await broker.send.send(drafts_of(draft(topic="Plain")), BORN_HOST)


# -- topics that only their queues tell of ---------------------------------------------------------


async def test_a_topic_without_a_row_gets_one_before_its_first_message(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("deleted", tmp_path / "s")
    for path in (store / "config").glob("topics.json*"):
        table = json.loads(path.read_bytes())
        del table["topicConfigTable"]["Keep"]
        path.write_text(json.dumps(table))
    topics = store / "config" / "topics.json"
    async with store_broker(store, **golden_sizes(golden, "deleted")) as broker:
        assert broker.store.tables.topics.existing("Keep").write_queue_count == 2
        assert "Keep" not in json.loads(topics.read_bytes())["topicConfigTable"]
        await broker.send.send(drafts_of(draft(topic="Keep")), BORN_HOST)
        row = json.loads(topics.read_bytes())["topicConfigTable"]["Keep"]
        assert (row["readQueueNums"], row["writeQueueNums"], row["perm"]) == (2, 2, 6)
        topics.unlink()
        await broker.send.send(drafts_of(draft(topic="Keep")), BORN_HOST)
        assert not topics.exists(), "once is enough"


async def test_a_system_topic_without_a_row_stays_the_brokers(broker: StoreBroker) -> None:
    broker.store.tables.topics.adopt("SELF_TEST_TOPIC", 1)
    with pytest.raises(SystemTopic):
        await broker.send.send(drafts_of(draft(topic="SELF_TEST_TOPIC")), BORN_HOST)
