"""A topic that comes back goes on behind its old offsets, whatever happens in between."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.cli.store.access import sizes_of
from pocketmq.files.disk import Disk
from pocketmq.services.admin.topics import remove_topics
from pocketmq.store.dispatch.expiry import Expiry
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.kit.store_language import TalkingStore, queue_bodies, store_at


async def two_kept_one_removed(store: TalkingStore) -> None:
    await store.send("orders", "a", "b", "c")
    await store.send("orders", "d", queue_id=1)
    await store.send("others", "x")
    await store.settled()
    await store.store.remove_topic("orders")


async def test_the_queues_of_a_removed_topic_are_gone_and_others_stay(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await two_kept_one_removed(store)
        assert store.store.reading.queue_range("orders", 0) == (0, 0)
        assert await store.pulled("others") == ["x"]
    assert [path.name for path in (tmp_path / "s" / "consumequeue").iterdir()] == ["others"]


async def test_made_again_it_goes_on_behind_the_old_offsets(store: TalkingStore) -> None:
    await two_kept_one_removed(store)
    await store.send("orders", "e")
    await store.settled()
    assert store.store.reading.queue_range("orders", 0) == (3, 4)
    assert queue_bodies(store.store, "orders") == ["e"]


async def test_also_after_a_start_and_when_queues_are_built_from_the_log(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await two_kept_one_removed(store)
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "e", queue_id=1)
        await store.settled()
        assert store.store.reading.queue_range("orders", 1) == (1, 2)
    for path in sorted((tmp_path / "s" / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    async with store_at(tmp_path / "s") as store:
        assert store.store.reading.queue_range("orders", 0) == (0, 0)
        assert store.store.reading.queue_range("orders", 1) == (1, 2)
        assert await store.pulled("orders", 1) == ["e"]
        assert await store.pulled("others") == ["x"]


async def test_a_removed_topic_whose_messages_end_the_log_stays_removed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("others", "x")
        await store.send("orders", "a", key="k")
        await store.store.remove_topic("orders")
        image = store.killed(tmp_path / "image")
    for directory in (tmp_path / "s", image):
        async with store_at(directory) as store:
            assert store.store.reading.queue_range("orders", 0) == (0, 0)
            assert await store.pulled("others") == ["x"]


async def test_what_is_still_on_its_way_to_the_queues_is_waited_for(store: TalkingStore) -> None:
    await store.send("orders", "a", "b")
    await store.store.remove_topic("orders")
    assert store.store.reading.queue_range("orders", 0) == (0, 0)
    assert store.store.dispatched == store.store.appended


async def test_an_operator_can_ask_for_a_flush(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", flush="async") as store:
        await store.send("orders", "a")
        assert await store.store.flush() == store.store.appended


async def test_killed_before_its_files_are_gone_a_removal_is_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "image"
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "a", "b")
    async with store_at(tmp_path / "s") as store:

        async def killed(expiry: Expiry, topic: str) -> None:
            store.killed(image)

        monkeypatch.setattr(Expiry, "drop_queues", killed)
        await store.send("orders", "c")
        await store.send("others", "x")
        await store.store.remove_topic("orders")
    async with store_at(image) as store:
        assert store.store.reading.queue_range("orders", 0) == (0, 0)
        assert await store.pulled("others") == ["x"]
        assert (await store.send("orders", "e")).queue_offset == 3
        assert await store.pulled("orders") == ["e"]
    sizes = sizes_of(Disk(), image, [], with_index=True)
    assert verify(Disk(), image, sizes, VerifyOptions(now_ms=store.clock.wall_ms())).counts == {}


async def test_what_a_crash_left_behind_their_ends_goes_with_them(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("orders", "a")
        await store.settled()
        queue = store.store.views.queues.queues["orders", 0]
        queue.is_doubtful = True
        last = queue.files.files[-1]
        last.path.with_name(f"{last.base + last.size:020d}").write_bytes(bytes(last.size))
        await store.store.remove_topic("orders")
    assert [*(tmp_path / "s" / "consumequeue").iterdir()] == []


async def test_a_topic_made_again_while_it_leaves_waits_and_loses_nothing(
    store: TalkingStore,
) -> None:
    await two_kept_one_removed(store)
    topics = store.store.tables.topics
    await topics.create("orders", queue_count=1)
    await store.send("orders", "e")
    async with asyncio.TaskGroup() as group:
        group.create_task(remove_topics(store.store, ["orders"]))
        await asyncio.sleep(0)
        await topics.create("orders", queue_count=1)
        await store.send("orders", "f")
    await store.settled()
    assert store.store.reading.queue_range("orders", 0) == (4, 5)
    assert await store.pulled("orders") == ["f"]


async def test_removed_once_more_it_goes_on_behind_both(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await two_kept_one_removed(store)
        await store.send("orders", "e", "f")
        await store.settled()
        await store.store.remove_topic("orders")
        await store.send("others", "y")
    async with store_at(tmp_path / "s") as store:
        assert (await store.send("orders", "g")).queue_offset == 5
        assert (await store.send("orders", "h", queue_id=1)).queue_offset == 1
