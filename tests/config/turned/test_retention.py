"""When old messages go, as an operator says: each setting moves what a whole broker lets go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from pocketmq.app.parts import retention_of
from pocketmq.config.load import load
from pocketmq.config.sections import Config
from pocketmq.config.units import GIB
from pocketmq.files.disk import Disk
from pocketmq.services.retention import Retention
from pocketmq.store.message_store import open_store
from tests.kit.store_language import TalkingStore, pauses_of
from tests.running_broker import SMALL
from tests.sim.clock import START_MS, FakeClock, at
from tests.sim.quick_disk import QuickDisk

HOUR_MS: Final = 3_600_000
ON: Final = ("retention.mode=on", "retention.hours=", "retention.age_ms=10h")
VIEWS_DURABLE_SOON: Final = (
    "store.view_flush_interval_ms=1ms", "store.view_flush_thorough_interval_ms=1ms",
)  # fmt: skip
"""A file goes once the views of its messages are durable."""
NINE_O_CLOCK: Final = START_MS - START_MS % (24 * HOUR_MS) + 9 * HOUR_MS


class Kept(TalkingStore):
    """A store with five full files, stored an hour apart, and what lets them go."""

    config: Config
    retention: Retention

    async def round(self, hours_later: int = 0) -> list[int]:
        """Runs retention until it asks for a long pause; returns its pauses."""
        later_ms = hours_later * HOUR_MS
        now = at(24 * HOUR_MS + later_ms, self.clock.wall_ms() + later_ms)
        return await pauses_of(self.retention, now, longest_ms=999)

    @property
    def file_count(self) -> int:
        return len(self.store.log.files.files)


class UsedDisk(QuickDisk):
    """A disk of which so many percent are used."""

    percent = 50

    def space(self, path: Path) -> tuple[int, int]:
        return self.percent * GIB, (100 - self.percent) * GIB


@asynccontextmanager
async def kept(directory: Path, *assignments: str, percent: int = 50) -> AsyncIterator[Kept]:
    where = f"store.directory={directory}"
    config = load(assignments=[*SMALL, *VIEWS_DURABLE_SOON, where, *assignments])
    clock, disk = FakeClock(NINE_O_CLOCK), UsedDisk()
    disk.percent = percent
    store = await open_store(config.store_settings(), clock, disk)
    talking = Kept(store, clock, disk)
    try:
        for _ in range(6):
            await talking.stocked()
            await talking.send("T", b"x" * 15_000, b"y" * 15_000, b"z" * 15_000, b"." * 15_000)
            await talking.stocked()
            await talking.send("T", b"." * 4_000)
            clock.advance(HOUR_MS)
        await talking.settled()
        await store.flush()
        parts = store._structures
        last_base = parts.log.files.files[-1].base
        while parts.checkpoint.values.logics_physical_offset < last_base:
            clock.advance(1)
            await asyncio.sleep(0)
        # A time that was believed once: the tests begin at any later time, and wait for no clock.
        await store.tables.believed_time.put(clock.wall_ms() + 365 * 24 * HOUR_MS)
        talking.config, talking.retention = config, retention_of(store, config)
        yield talking
    finally:
        await store.close()


@pytest.mark.knob("retention.mode")
async def test_switched_off_nothing_goes(tmp_path: Path) -> None:
    async with kept(tmp_path / "off", *ON, "retention.mode=off") as store:
        before = store.file_count
        await store.round(hours_later=100)
        assert store.file_count == before
        assert store.retention.status == "off"
    async with kept(tmp_path / "on", *ON) as store:
        await store.round(hours_later=100)
        assert store.file_count == 1


async def test_a_start_long_after_the_last_time_in_the_store_waits_an_hour(tmp_path: Path) -> None:
    async with kept(tmp_path, *ON) as store:
        believed = store.store.tables.believed_time
        await believed.put(0)
        store.retention = retention_of(store.store, store.config)
        before, last_ms = store.file_count, store.store.marks.appended.time_ms
        await store.round(hours_later=100)
        assert (store.file_count, believed.time_ms) == (before, last_ms)
        assert store.retention.status.startswith("on, held until ")


@pytest.mark.knob("retention.age_ms")
async def test_files_go_at_this_age(tmp_path: Path) -> None:
    async with kept(tmp_path, *ON, "retention.age_ms=5h") as store:
        before = store.file_count
        await store.round(hours_later=-3)
        assert store.file_count == before
        await store.round(hours_later=0)
        assert store.file_count < before
        assert store.file_count > 1


@pytest.mark.knob("retention.archive_hold")
async def test_files_go_once_they_are_archived(tmp_path: Path) -> None:
    async with kept(tmp_path, *ON, "retention.archive_hold=true") as store:
        before, end = store.file_count, store.store.flushed
        await store.round(hours_later=100)
        assert store.file_count == before
        assert store.retention.status == "on, held by archive at offset 0"
        assert (await store.store.tables.archive_mark.report(end, "s3://lake")).upto == end
        assert (await store.store.tables.archive_mark.report(3, "other")).upto == 3
        await store.round(hours_later=100)
        assert store.file_count == before
        assert (await store.store.tables.archive_mark.report(end, "other")).upto == end
        await store.round(hours_later=100)
        assert store.file_count == 1


@pytest.mark.knob("retention.hours")
async def test_files_go_in_these_hours_only(tmp_path: Path) -> None:
    async with kept(tmp_path, *ON, "retention.hours=4;16") as store:
        before = store.file_count
        await store.round(hours_later=24)  # It is three in the afternoon.
        assert store.file_count == before
        await store.round(hours_later=25)
        assert store.file_count == 1


@pytest.mark.knob(
    "retention.size_bytes", "retention.disk_expire_percent", "retention.disk_force_percent"
)
@pytest.mark.parametrize(
    ("given", "percent", "hours_later", "left"),
    [
        (["retention.size_bytes=192KiB"], 50, 0, 3),
        (["retention.hours=4", "retention.disk_expire_percent=60"], 61, 24, 1),
        (["retention.disk_expire_percent=60", "retention.disk_force_percent=70"], 71, 0, 1),
    ],
    ids=["a log this long", "a fuller disk, at any hour", "a much fuller disk, young files too"],
)
async def test_files_go_for_other_reasons(
    tmp_path: Path, given: list[str], percent: int, hours_later: int, left: int
) -> None:
    async with kept(tmp_path, *ON, *given, percent=percent) as store:
        await store.round(hours_later=hours_later)
        assert store.file_count == left


@pytest.mark.knob("retention.disk_refuse_percent")
async def test_above_this_sends_are_refused(tmp_path: Path) -> None:
    given = ("retention.disk_expire_percent=60", "retention.disk_force_percent=70")
    async with kept(tmp_path, *ON, *given, "retention.disk_refuse_percent=75", percent=76) as store:
        await store.round()
        assert store.store.state == "read_only"
        assert store.retention.status.startswith("refusing sends: the disk is 76 % used, the limit")


@pytest.mark.knob("retention.disk_margin_bytes")
async def test_with_less_free_than_this_and_the_next_files_sends_are_refused(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path, *ON, "retention.disk_margin_bytes=1GiB", percent=99) as store:
        await store.round()
        assert store.store.state == "read_only"
    async with kept(
        tmp_path / "other", *ON, "retention.disk_margin_bytes=1MiB", percent=99
    ) as store:
        await store.round()
        assert store.retention.status == "on"


@pytest.mark.knob("retention.file_batch_max")
async def test_a_round_takes_so_many_files(tmp_path: Path) -> None:
    async with kept(tmp_path, *ON, "retention.file_batch_max=2") as store:
        before = store.file_count
        await store.round(hours_later=100)
        assert store.file_count == before - 2


@pytest.mark.knob("retention.interval_ms", "retention.pause_ms")
async def test_pauses_within_a_round_and_between_two(tmp_path: Path) -> None:
    given = ("retention.file_batch_max=2", "retention.interval_ms=7s", "retention.pause_ms=30ms")
    async with kept(tmp_path, *ON, *given) as store:
        assert await store.round(hours_later=100) == [30, 7_000]


async def test_the_disk_itself_is_asked(tmp_path: Path) -> None:
    used, usable = await asyncio.to_thread(Disk().space, tmp_path)
    assert used > 0
    assert usable > 0
