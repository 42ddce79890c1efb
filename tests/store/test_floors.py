"""Floors of queues over starts: after a stop, a kill, a rebuild, and a loss of messages."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.model.errors import DiskFull, Draining, FsyncFailed
from pocketmq.model.message import QueueKey
from pocketmq.services.admin.purge import purge_topic
from pocketmq.store.message_store import MessageStore
from pocketmq.tools.rebuild import plan_rebuild, rebuild_in_place
from tests.kit.store_language import (
    queue_bodies,
    small_settings,
    store_at,
    until,
)
from tests.kit.tool_sizes import shape_of
from tests.sim.quick_disk import QuickDisk, full_disk

KEY = ("orders", 0)


def floors_in(directory: Path) -> object:
    """Returns the content of the file."""
    return json.loads((directory / "pocketmq" / "floors.json").read_text())


def bounds(store: MessageStore) -> tuple[int, int]:
    return store.reading.queue_range(*KEY)


async def filled(directory: Path, floor: int, **settings: Any) -> None:
    """Stores five messages, and purges those below a queue offset."""
    async with store_at(directory, **settings) as talking:
        await talking.send("orders", *"abcde")
        await talking.settled()
        await talking.store.purge({KEY: floor})


async def test_a_purge_outlasts_a_stop(tmp_path: Path) -> None:
    await filled(tmp_path / "s", 3)
    async with store_at(tmp_path / "s") as talking:
        assert bounds(talking.store) == (3, 5)
        assert queue_bodies(talking.store, "orders") == ["d", "e"]
        await talking.store.purge({KEY: 2})
        assert bounds(talking.store) == (3, 5)
    assert floors_in(tmp_path / "s") == {"orders": {"0": 3}}


async def test_a_purge_is_durable_when_it_returns(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", flush="async") as talking:
        await talking.send("orders", *"abcde", wait=False)
        await talking.store.caught_up()
        await talking.store.purge({KEY: 5})
        copy = talking.killed(tmp_path / "copy")
    async with store_at(copy) as talking:
        assert bounds(talking.store) == (5, 5)
        await talking.send("orders", "f")
        await talking.settled()
        assert queue_bodies(talking.store, "orders") == ["f"]


async def test_a_rebuild_keeps_the_floor(tmp_path: Path) -> None:
    await filled(tmp_path / "s", 3)
    sizes = shape_of(small_settings(tmp_path / "s"))
    plan = plan_rebuild(Disk(), tmp_path / "s", sizes)
    rebuild_in_place(Disk(), plan, sizes, accept_holes=False)
    async with store_at(tmp_path / "s") as talking:
        assert queue_bodies(talking.store, "orders") == ["d", "e"]


@pytest.mark.parametrize("gone", ["consumequeue", "consumequeue/orders/0"])
async def test_queues_that_a_start_rebuilds_keep_their_floor(tmp_path: Path, gone: str) -> None:
    await filled(tmp_path / "s", 3)
    shutil.rmtree(tmp_path / "s" / gone)
    async with store_at(tmp_path / "s") as talking:
        assert queue_bodies(talking.store, "orders") == ["d", "e"]


async def test_a_floor_above_the_end_of_its_queue_is_lowered(tmp_path: Path) -> None:
    await filled(tmp_path / "s", 3)
    file = tmp_path / "s" / "pocketmq" / "floors.json"
    file.write_text(json.dumps({"orders": {"0": 9}, "unknown": {"1": 4}}))
    async with store_at(tmp_path / "s") as talking:
        assert bounds(talking.store) == (5, 5)
        await talking.send("orders", "f")
        await talking.settled()
        assert queue_bodies(talking.store, "orders") == ["f"]
    assert floors_in(tmp_path / "s") == {"orders": {"0": 5}}


async def test_a_purge_that_cannot_be_written_purges_nothing(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as talking:
        await talking.send("orders", *"abc")
        await talking.settled()
        disk.fail("write_file", full_disk())
        with pytest.raises(DiskFull):
            await talking.store.purge({KEY: 3})
        assert bounds(talking.store) == (0, 3)
        await talking.store.purge({KEY: 1})
    assert floors_in(tmp_path / "s") == {"orders": {"0": 1}}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("is_failed", [False, True])
async def test_a_purge_that_waits_for_room_ends_with_the_store(
    tmp_path: Path, is_failed: bool
) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as talking:
        await talking.store.tables.topics.create("orders", queue_count=1)
        disk.full_below = tmp_path / "s" / "consumequeue"
        await talking.send("orders", "a")
        purging = asyncio.ensure_future(purge_topic(talking.store, "orders"))
        deleting = asyncio.ensure_future(talking.store.remove_topic("orders"))
        reading = asyncio.ensure_future(talking.store.all_dispatched())
        await until(lambda: talking.store.views.dispatcher.is_blocked)
        assert [one.done() for one in (purging, deleting, reading)] == [False] * 3
        if is_failed:
            disk.sync_error = FsyncFailed(why="EIO")
            with pytest.raises(FsyncFailed):
                await talking.send("orders", "b")
    for waiting in (purging, deleting, reading):
        with pytest.raises(FsyncFailed if is_failed else Draining):
            await waiting


async def test_a_topic_made_again_has_no_floor(tmp_path: Path) -> None:
    await filled(tmp_path / "s", 3)
    async with store_at(tmp_path / "s") as talking:
        await talking.store.remove_topic("orders")
        await talking.send("orders", "again")
        await talking.settled()
        assert queue_bodies(talking.store, "orders") == ["again"]
        assert talking.store.tables.floors.all() == {}
    assert floors_in(tmp_path / "s") == {}


async def test_a_floor_that_cannot_be_dropped_leaves_no_files_of_a_removed_topic(
    tmp_path: Path,
) -> None:
    await filled(tmp_path / "s", 3)
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as talking:
        disk.fail("write_file", full_disk(), skip=1)
        await talking.store.remove_topic("orders")
        assert not (tmp_path / "s" / "consumequeue" / "orders").exists()
        assert floors_in(tmp_path / "s") == {"orders": {"0": 3}}
        await talking.send("orders", "again")
        await talking.settled()
        assert queue_bodies(talking.store, "orders") == ["again"]
    async with store_at(tmp_path / "s") as talking:
        assert queue_bodies(talking.store, "orders") == ["again"]


async def test_an_expiry_is_seen_at_once_and_written_soon(tmp_path: Path) -> None:
    floors: Mapping[QueueKey, int] = {KEY: 2}
    async with store_at(tmp_path / "s") as talking:
        await talking.send("orders", *"abc")
        await talking.settled()
        talking.store.expire(floors)
        assert queue_bodies(talking.store, "orders") == ["c"]
        await talking.store.tables.floors.saved()
        assert floors_in(tmp_path / "s") == {"orders": {"0": 2}}


async def test_the_next_start_trusts_a_queue_with_a_floor(tmp_path: Path) -> None:
    await filled(tmp_path / "s", 3)
    manifest = json.loads((tmp_path / "s" / "pocketmq" / "store.json").read_text())
    assert manifest["closed"]["queues"]["orders"] == {"0": [0, 5]}
