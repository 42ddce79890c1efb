"""Tables that a follower replaced on the disk, and reads again while it serves."""

import json

from pocketmq.format.table_json import topic_row
from pocketmq.store.tables.copied_files import FLOORS, OFFSETS, REMOVED, TOPICS
from tests.kit.store_language import TalkingStore


def replace(store: TalkingStore, name: str, content: object) -> None:
    store.store.tables.files.write(name, json.dumps(content).encode())
    store.store.reload(name)


async def test_topics_are_those_of_the_file_and_of_the_queues(store: TalkingStore) -> None:
    topics, told = store.store.tables.topics, list[str]()
    await topics.create("before", queue_count=1)
    await store.send("orders", "a")
    await store.settled()
    topics.follow(told.append)
    replace(store, TOPICS, {"topicConfigTable": {"new": topic_row("new", 3, 6, {})}})
    assert topics.names() == ["new", "orders"]
    assert topics.existing("new").write_queue_count == 3
    assert sorted(told) == ["before", "new"]


async def test_offsets_and_floors_follow(store: TalkingStore) -> None:
    await store.send("orders", "a", "b", "c")
    await store.settled()
    replace(store, OFFSETS, {"offsetTable": {"orders@g": {"0": 2}}})
    assert store.store.tables.offsets.find("g", "orders", 0) == 2
    replace(store, FLOORS, {"orders": {"0": 2}})
    assert await store.pulled("orders") == ["c"]


async def test_queues_of_removed_topics_go_and_those_made_again_stay(store: TalkingStore) -> None:
    await store.send("gone", "a", "b")
    await store.send("again", "a", "b")
    await store.settled()
    replace(store, REMOVED, {"gone": {"0": 2}, "again": {"0": 1}, "never": {"0": 5}})
    await store.store.drop_removed()
    assert await store.pulled("gone") == []
    assert await store.pulled("again") == ["a", "b"]
    assert not store.disk.exists(store.directory / "consumequeue" / "gone")
