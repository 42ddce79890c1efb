"""A log that is cut where it diverged: copied first, and recovered from a crash at any point."""

from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest

from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    DIVERGED_DIRECTORY,
    INDEX_DIRECTORY,
    OWN_DIRECTORY,
)
from pocketmq.store.recovery.cut import cut_if_room, cut_log, set_aside
from tests.kit.store_language import queue_bodies, small_settings, store_at
from tests.kit.two_stores import log_bytes
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.quick_disk import PowerCut, QuickDisk, full_disk

COUNT = 40


async def filled(directory: Path, disk: QuickDisk | SimDisk) -> tuple[list[int], list[str], bytes]:
    """Returns the ends of a store's records, their bodies, and its log."""
    ends, bodies = [], [f"{n}" * (30 + n * 13 % 170) for n in range(COUNT)]
    async with store_at(directory, disk=disk) as store:
        for body in bodies:
            await store.send("orders", body, key="k")
            ends.append(store.store.appended)
        await store.settled()
        return ends, bodies, log_bytes(store.store)


@pytest.mark.parametrize("kept", [0, 1, 17, COUNT - 1])
async def test_what_is_cut_is_set_aside_and_views_follow(tmp_path: Path, kept: int) -> None:
    disk = QuickDisk()
    ends, bodies, log = await filled(tmp_path / "s", disk)
    begin = ends[kept - 1] if kept else 0
    cut_log(small_settings(tmp_path / "s"), disk, begin)
    async with store_at(tmp_path / "s", disk=disk) as store:
        assert store.store.damage is None
        assert store.store.appended == begin
        assert queue_bodies(store.store, "orders") == bodies[:kept]
        assert len(await store.found("orders", "k")) == kept
        assert (await store.send("orders", "new")).queue_offset == kept
    directory = tmp_path / "s" / OWN_DIRECTORY / DIVERGED_DIRECTORY
    copies = sorted(path for path in directory.iterdir() if path.suffix != ".json")
    assert int(copies[0].name.partition("@")[2]) == begin
    aside = b"".join(path.read_bytes() for path in copies)
    assert aside.rstrip(b"\0") == log[begin:].rstrip(b"\0")


@pytest.mark.parametrize("kept", [0, 21])
async def test_a_power_cut_at_any_call_leaves_a_store_that_can_be_cut_again(kept: int) -> None:
    directory, call = Path("/store"), 0
    while True:
        disk = SimDisk()
        ends, bodies, _ = await filled(directory, disk)
        begin, images, machine = [0, *ends][kept], list[Image](), disk
        left = count(call, -1)

        def stop(name: str, path: object) -> None:
            if next(left) == 0:  # noqa: B023 - called in this round only
                images.append(machine.image.cut(Random(call)))  # noqa: B023
                raise PowerCut

        disk.hook = stop
        with suppress(PowerCut):
            cut_log(small_settings(directory), disk, begin)
        if not images:
            break
        later = SimDisk(images[0])
        async with store_at(directory, disk=later) as store:
            assert store.store.damage is None
            assert store.store.appended in {begin, *ends}
            shown = len(queue_bodies(store.store, "orders"))
            assert queue_bodies(store.store, "orders") == bodies[:shown]
        cut_log(small_settings(directory), later, begin)
        async with store_at(directory, disk=later) as store:
            assert store.store.appended == begin
        call += 7 if kept else 5
    assert call > 25


@pytest.mark.parametrize("call", ["make_sparse_file", "allocate", "write_at"])
async def test_a_full_disk_cuts_nothing_and_leaves_no_part_of_a_copy(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = QuickDisk()
    ends, bodies, _ = await filled(tmp_path / "s", disk)
    disk.fail(call, full_disk())
    cut_if_room(small_settings(tmp_path / "s"), disk, ends[5])
    assert [record.getMessage() for record in caplog.records][-1] == "disk.full"
    assert disk.names(tmp_path / "s" / OWN_DIRECTORY / DIVERGED_DIRECTORY) == []
    async with store_at(tmp_path / "s", disk=disk) as store:
        assert queue_bodies(store.store, "orders") == bodies


async def test_a_log_that_is_cut_to_nothing_begins_anywhere_again(tmp_path: Path) -> None:
    disk = QuickDisk()
    await filled(tmp_path / "s", disk)
    files = sorted((tmp_path / "s" / COMMIT_LOG_DIRECTORY).iterdir())
    disk.unlink(files[0])  # As if it had expired.
    begin = int(files[1].name)
    cut_log(small_settings(tmp_path / "s"), disk, begin)
    found = set_aside(disk, tmp_path / "s")
    assert 0 < found.message_count < COUNT
    assert found.size_bytes > found.message_count * 100
    async with store_at(tmp_path / "s", disk=disk) as store:
        assert (store.store.damage, store.store.appended) == (None, 0)
        assert (await store.send("orders", "new")).queue_offset == 0
        assert await store.found("orders", "k") == []


async def test_nothing_of_a_log_that_was_cut_whole_returns_after_a_power_cut() -> None:
    directory = Path("/store")
    disk = SimDisk()
    await filled(directory, disk)
    disk.sync_all(directory)
    cut_log(small_settings(directory), disk, 0)
    for seed in range(8):
        left = SimDisk(disk.image.cut(Random(seed)))
        queue = directory / CONSUME_QUEUE_DIRECTORY / "orders" / "0"
        assert not left.exists(queue) or left.names(queue) == []
        assert left.names(directory / COMMIT_LOG_DIRECTORY) == []


async def test_views_of_a_log_that_was_cut_do_not_return_after_a_power_cut() -> None:
    directory, disk = Path("/store"), SimDisk()
    async with store_at(directory, disk=disk) as store:
        await store.send("orders", "1")
        end = store.store.appended
        for number in range(8):  # More keys than a file of the index has room for.
            await store.send("late", "2", key=f"k{number} k{number}b k{number}c")
    disk.sync_all(directory)
    late = directory / CONSUME_QUEUE_DIRECTORY / "late" / "0"
    index = {*disk.names(directory / INDEX_DIRECTORY)}
    assert disk.names(late)
    cut_log(small_settings(directory), disk, end)
    async with store_at(directory, disk=disk) as store:
        assert store.store.appended == end
    for seed in range(8):
        left = SimDisk(disk.image.cut(Random(seed)))
        assert not left.exists(late) or left.names(late) == []
        assert not index & {*left.names(directory / INDEX_DIRECTORY)}
