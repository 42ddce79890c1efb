"""A change that a full disk refuses has no effect: tables in memory are as they were."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pocketmq.model.access import User
from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import DiskFull
from pocketmq.services.access.access import Access
from pocketmq.services.admin.topics import delete_topic
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.users import UserTable
from tests.kit.store_language import TalkingStore, store_at, until
from tests.kit.users import SECRET, signed
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

Change = Callable[[MessageStore], Awaitable[object]]
CHANGES: dict[str, Change] = {
    "a new topic": lambda store: store.tables.topics.create("new", queue_count=1),
    "an own topic": lambda store: store.tables.topics.ensure("%RETRY%readers", 1),
    "a changed topic": lambda store: store.tables.topics.update("there", permission=4),
    "a removed topic": lambda store: store.tables.topics.remove("there"),
    "a deleted topic": lambda store: delete_topic(store, "there"),
    "a new group": lambda store: store.tables.groups.ensure("new"),
    "a changed group": lambda store: store.tables.groups.update(
        "readers", GroupSettings(fifo=True)
    ),
    "a removed group": lambda store: store.tables.groups.remove("readers"),
    "a setting of a name": lambda store: store.tables.name_settings.put("space", "key", "b"),
    "a removed setting": lambda store: store.tables.name_settings.remove("space", "key"),
    "a mode": lambda store: store.tables.modes.put("readers", "there", "PULL", -1),
    "removed queues": lambda store: store.tables.removed.add("there", {0: 3}),
}


def content(store: MessageStore) -> list[object]:
    """Returns what the tables contain."""
    tables = store.tables
    return [
        {name: tables.topics.find(name) for name in tables.topics.names()},
        {name: tables.groups.find(name) for name in tables.groups.names()},
        *(tables.topics.version, tables.groups.version),
        *(tables.name_settings.all_of("space"), tables.modes.content()),
        tables.modes.pops("readers"),
        *(tables.removed.queues("there"), tables.removed.has("there")),
    ]  # fmt: skip


async def filled(talking: TalkingStore) -> None:
    """Adds a row to each table."""
    tables = talking.store.tables
    await tables.topics.create("there", queue_count=2)
    await tables.groups.ensure("readers")
    await tables.name_settings.put("space", "key", "a")
    await tables.modes.put("readers", "there", "POP", -1)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_refused_change_has_no_effect(change: Change, tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as talking:
        await filled(talking)
        store, disk, before = talking.store, talking.quick_disk, content(talking.store)
        told: list[str] = []
        store.tables.topics.follow(told.append)
        store.tables.groups.follow(told.append)
        disk.full_below = tmp_path
        with pytest.raises(DiskFull):
            await change(store)
        assert content(store) == before
        assert told in ([], [told[0]] * 2 if told else [])
        disk.full_below = None
        await change(store)
        after = content(store)
        assert after != before
    async with store_at(tmp_path / "s") as talking:
        assert content(talking.store) == after


async def test_all_changes_of_a_refused_write_are_undone_and_those_during_it(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as talking:
        topics, disk = talking.store.tables.topics, talking.quick_disk
        with disk.held():
            stored = asyncio.create_task(topics.create("stored", queue_count=1))
            await until(lambda: any("topics.json" in path.name for path in disk.synced))
            disk.full_below = tmp_path
            later = [asyncio.create_task(topics.create(name, queue_count=1)) for name in "ab"]
            await asyncio.sleep(0)
            topics.adopt("found", 3)
        await stored
        for one in later:
            with pytest.raises(DiskFull):
                await one
        assert topics.names() == ["found", "stored"]
        disk.full_below = None
        await topics.create("c", queue_count=1)
    async with store_at(tmp_path / "s") as talking:
        assert talking.store.tables.topics.names() == ["c", "found", "stored"]


async def test_a_topic_with_messages_stays_though_its_creation_was_refused(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as talking:
        topics, disk = talking.store.tables.topics, talking.quick_disk
        with disk.held():
            first = asyncio.create_task(topics.create("first", queue_count=1))
            await until(lambda: any("topics.json" in path.name for path in disk.synced))
            creating = asyncio.create_task(topics.create("orders", queue_count=4))
            await until(lambda: topics.find("orders") is not None)
            await talking.send("orders", "a", queue_id=1, wait=False)
            seen: list[object] = []
            topics.follow(lambda name: seen.append(topics.find(name)))
            disk.full_below = tmp_path
        await first
        with pytest.raises(DiskFull):
            await creating
        config = topics.existing("orders")
        assert (config.queue_count, config.is_kept) == (2, False)
        assert seen[-1] == config
        disk.full_below = None
        await topics.keep("orders")
    async with store_at(tmp_path / "s") as talking:
        assert talking.store.tables.topics.names() == ["first", "orders"]


async def test_a_topic_is_there_again_if_the_list_of_removed_queues_cannot_be_written(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as talking:
        store, disk = talking.store, talking.quick_disk
        await store.tables.topics.create("there", queue_count=2, attributes={"a": "b"})
        before = store.tables.topics.row("there")
        disk.full_below = tmp_path / "s" / "pocketmq"
        with pytest.raises(DiskFull):
            await delete_topic(store, "there")
        assert store.tables.topics.row("there") == before
        disk.full_below = None
        await store.tables.topics.keep("there")
    async with store_at(tmp_path / "s") as talking:
        assert talking.store.tables.topics.row("there") == before
        await delete_topic(talking.store, "there")
        assert talking.store.tables.topics.names() == []


async def test_a_user_that_could_not_be_stored_is_no_user(tmp_path: Path) -> None:
    disk = QuickDisk()
    table = UserTable(disk, tmp_path)
    table.load()
    table.roster.add(User("admin", SECRET, is_admin=True))
    access = Access(table, FakeClock(), 0)
    await access.save("admin", "")
    disk.full_below = tmp_path
    table.roster.add(User("app", SECRET))
    with pytest.raises(DiskFull):
        await access.save("app", "")
    assert [*table.roster.users] == ["admin"]
    assert access.caller(*signed("admin").values()).user.is_admin
    access.remove_user("admin", keeps_admin=False)
    with pytest.raises(DiskFull):
        await access.save("admin", "")
    assert access.caller(*signed("admin").values()).user.is_admin
    disk.full_below = None
    table.roster.add(User("app", SECRET))
    await access.save("app", "")
    table.close()
    again = UserTable(disk, tmp_path)
    again.load()
    assert [*again.roster.users] == ["admin", "app"]
    again.close()
