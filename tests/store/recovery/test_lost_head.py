"""Missing oldest files of the log: a replicated broker tells lost ones from expired ones."""

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    MARK_FILE,
    OWN_DIRECTORY,
    offset_file_name,
)
from pocketmq.log.checkpoint import CONFIRMED, MARK, OLDEST, SLOT_SIZE
from pocketmq.model.errors import StoreDamaged, WriteFailed
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.start import start_at_once
from tests.kit.rows import Row
from tests.kit.store_language import TalkingStore, put_row, small_settings, store_at
from tests.sim.clock import FakeClock
from tests.sim.disk import SimDisk
from tests.sim.disk_image import Image
from tests.sim.loop import SeededLoop
from tests.sim.quick_disk import QuickDisk
from tests.sim.seeded_store import STORE, SeededStore, tell_seeded

FILE_SIZE = 4096
COUNT = 20
"""Four messages to a file."""
FOLLOWER: dict[str, Any] = {"leader": "127.0.0.1:1"}
REPLICATED: list[dict[str, Any]] = [FOLLOWER, {"in_sync_replicas": 2}]


def log_file(store: Path, number: int) -> Path:
    """Returns the path of one of the first files of a log."""
    return store / COMMIT_LOG_DIRECTORY / offset_file_name(number * FILE_SIZE)


async def filled(store: TalkingStore) -> None:
    for number in range(COUNT):
        await store.stocked()
        await store.send("T", f"{number:02d}" + "x" * 900)
    await store.settled()
    await store.store.views.flush.finish()


async def expired(store: TalkingStore) -> None:
    oldest = store.store.views.expiry.oldest()
    assert oldest is not None
    await store.store.views.expiry.drop(oldest)


async def damage_of(store: Path, **settings: Any) -> StoreDamaged | None:
    async with store_at(store, **settings) as opened:
        assert (opened.store.damage is None) or opened.store.state == "damaged"
        return opened.store.damage


@pytest.mark.parametrize("settings", REPLICATED)
@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_replicated_broker_names_its_lost_oldest_files(
    tmp_path: Path, *, is_killed: bool, settings: dict[str, Any]
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        image = store.killed(tmp_path / "killed")
    image = image if is_killed else tmp_path / "s"
    for number in (0, 1):
        log_file(image, number).unlink()
    for _ in range(2):
        found = await damage_of(image, **settings)
        assert found is not None
        assert found.path == str(log_file(image, 0))
        assert (found.begin, found.end, found.file_position) == (0, 2 * FILE_SIZE, 0)
        assert "have not expired" in found.why
    assert await damage_of(image, accept_damage=True, **settings) is None
    assert await damage_of(image, **settings) is None
    log_file(image, 2).unlink()
    found = await damage_of(image, **settings)
    assert found is not None
    assert found.begin == 2 * FILE_SIZE


@pytest.mark.parametrize("settings", REPLICATED)
async def test_expired_files_are_no_damage_but_later_ones_are(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        await expired(store)
    assert await damage_of(tmp_path / "s", **settings) is None
    log_file(tmp_path / "s", 1).unlink()
    found = await damage_of(tmp_path / "s", **settings)
    assert found is not None
    assert found.path == str(log_file(tmp_path / "s", 1))


@pytest.mark.parametrize("settings", [{}, *REPLICATED])
async def test_messages_keep_their_offsets_if_a_crash_also_took_units_of_lost_ones(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(COUNT):
            await store.stocked()
            await store.send("T", f"{number:02d}" + "x" * 900)
            if number == 1:
                await store.settled()
                await store.store.views.flush.finish()
                durable = store.killed(tmp_path / "durable")
        await store.settled()
        image = store.killed(tmp_path / "killed")
    shutil.rmtree(image / CONSUME_QUEUE_DIRECTORY)
    shutil.copytree(durable / CONSUME_QUEUE_DIRECTORY, image / CONSUME_QUEUE_DIRECTORY)
    log_file(image, 0).unlink()
    async with store_at(image, **settings) as opened:
        assert opened.store.reading.queue_range("T", 0) == (4, COUNT)
        assert [int(body[:2]) for body in await opened.pulled("T")] == [*range(4, COUNT)]


async def test_a_single_broker_may_lose_its_oldest_files(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
    log_file(tmp_path / "s", 0).unlink()
    assert await damage_of(tmp_path / "s") is None
    assert await damage_of(tmp_path / "s", **FOLLOWER) is None


async def test_nothing_is_noticed_in_a_store_of_an_older_version(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
    path = tmp_path / "s" / OWN_DIRECTORY / MARK_FILE
    content = bytearray(path.read_bytes())
    for slot in (0, SLOT_SIZE):
        begin = slot + MARK.size + CONFIRMED.size
        content[begin : begin + OLDEST.size] = bytes(OLDEST.size)
    path.write_bytes(content)
    log_file(tmp_path / "s", 0).unlink()
    assert await damage_of(tmp_path / "s", **FOLLOWER) is None


async def test_a_file_that_could_not_be_removed_is_known_again(tmp_path: Path) -> None:
    disk = QuickDisk()
    async with store_at(tmp_path / "s", disk=disk) as store:
        await filled(store)
        disk.fail("unlink", WriteFailed(why="Input/output error"))
        with pytest.raises(WriteFailed):
            await expired(store)
        await store.send("T", "more")
        await store.settled()
        await store.store.views.flush.finish()
    log_file(tmp_path / "s", 0).unlink()
    found = await damage_of(tmp_path / "s", **FOLLOWER)
    assert found is not None
    assert found.begin == 0


def is_whole(image: Image) -> bool:
    """Returns whether a replicated broker starts with a store, and finds no damage."""
    parts = StoreComponents(small_settings(STORE, **FOLLOWER), SimDisk(image))
    try:
        return start_at_once(parts, FakeClock()).recovery.damage is None
    finally:
        parts.close()


def rows(number: int) -> Row:
    return put_row(f"{number:02d}" + "x" * 900)


def images_of_removals(seed: int) -> list[Image]:
    """Returns what power cuts and kills leave while files expire beside passes of the views."""
    random, images = Random(seed), list[Image]()

    async def story(loop: SeededLoop) -> None:
        store = SeededStore(loop, seed)
        await store.open()
        for number in range(COUNT):
            await store.put("T", 0, rows(number))
            await loop.pause(0.05)
        await store.store.views.flush.finish()

        def called(call: str, path: Path) -> None:
            image = store.disk.image
            images.append(image.cut(Random(random.getrandbits(32))))
            images.append(image.copy())

        store.disk.hook = called
        for number in range(3):
            await store.put("T", 0, rows(number))  # The pass writes a checkpoint.
            await loop.pause(random.choice((0.0, 0.05)))
            await asyncio.gather(store.expire(), store.store.views.flush.finish())
        assert store.store.min_offset == 3 * FILE_SIZE
        store.disk.hook = None
        await store.store.close()

    tell_seeded(seed, story, f"images_of_removals({seed})")
    return images


def distinct(images: list[Image]) -> list[Image]:
    return [*{image.key(): image for image in images}.values()]


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_while_files_expire_is_no_damage(seed: int) -> None:
    images = distinct(images_of_removals(seed))
    assert len(images) > 50
    assert all(map(is_whole, images))
