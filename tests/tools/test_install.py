"""Installed views are the store's own: a broker starts on them and finds nothing lacking."""

import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from pocketmq.log.checkpoint import FlushedMark, StoreCheckpoint
from pocketmq.log.store_directory import ManifestFile
from pocketmq.rebuild.log_files import find_log_files
from pocketmq.rebuild.sequential import Rebuilt, rebuild
from pocketmq.tools.install import StagedViews, install_views
from tests.kit.log_bytes import EVERYTHING, rebuilt_files
from tests.kit.store_language import small_settings, store_at
from tests.kit.tool_sizes import shape_of
from tests.sim.quick_disk import PowerCut, QuickDisk

SETTINGS = small_settings(Path())
SIZES = shape_of(SETTINGS)


async def a_store(directory: Path) -> Path:
    """A store of our own with 60 messages in three queues, stopped in order."""
    async with store_at(directory) as store:
        for number in range(60):
            await store.send("T", f"body {number}", queue_id=number % 3, key=f"k{number}")
        await store.settled()
    return directory


def staged_in(store: Path, out: Path, upto: int = EVERYTHING) -> tuple[StagedViews, Rebuilt]:
    files = find_log_files(store, SIZES.commit_log_file_size_bytes)
    built = rebuild(files, replace(SIZES, check_crc=True), out, upto=upto)
    return StagedViews(out, built.queues, built.index_names, built.end), built


async def test_a_broker_starts_on_them_and_builds_nothing_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await a_store(tmp_path / "s")
    before = rebuilt_files(store)
    staged, _ = staged_in(store, tmp_path / "s/pocketmq/rebuild")
    for path in (store / CONSUME_QUEUE_DIRECTORY).rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    assert install_views(Disk(), store, staged, SIZES) is None
    assert rebuilt_files(store) == before
    assert not staged.directory.exists()
    with caplog.at_level(logging.WARNING):
        async with store_at(store) as again:
            assert len(await again.pulled("T", 2)) == 20
            assert await again.found("T", "k7") == ["body 7"]
    assert [record.message for record in caplog.records if "incomplete" in record.message] == []
    assert rebuilt_files(store) == before


async def test_views_that_end_early_are_filled_up_at_the_next_start(tmp_path: Path) -> None:
    store = await a_store(tmp_path / "s")
    before = rebuilt_files(store)
    _, whole = staged_in(store, tmp_path / "whole")
    staged, built = staged_in(store, tmp_path / "part", upto=whole.end // 2)
    assert built.end < whole.end
    install_views(Disk(), store, staged, SIZES)
    async with store_at(store) as again:
        await again.settled()
    assert rebuilt_files(store) == before


async def test_the_small_files_agree(tmp_path: Path) -> None:
    store = await a_store(tmp_path / "s")
    staged, built = staged_in(store, tmp_path / "views")
    kept = install_views(Disk(), store, staged, SIZES, keep_as="before")
    assert kept == store / "pocketmq/replaced/before"
    assert sorted(path.name for path in kept.iterdir()) == [
        CONSUME_QUEUE_DIRECTORY,
        INDEX_DIRECTORY,
    ]
    manifest = ManifestFile(Disk(), store / "pocketmq").read()
    assert manifest is not None
    assert manifest.closed is not None
    assert manifest.closed.index_files == built.index_names
    checkpoint = StoreCheckpoint(Disk(), store / "checkpoint")
    checkpoint.load()
    assert 0 < checkpoint.values.logics_physical_offset < built.end
    assert checkpoint.values.index_msg_timestamp > 0


class WatchedDisk(QuickDisk):
    """A disk that looks at something whenever two names are exchanged."""

    __slots__ = ("_look", "seen")

    def __init__(self, look: Callable[[], Any]) -> None:
        super().__init__()
        self._look = look
        self.seen: list[Any] = []

    def exchange(self, one: Path, other: Path) -> None:
        self.seen.append(self._look())
        super().exchange(one, other)


async def test_views_that_tell_of_less_never_stand_beside_a_checkpoint_that_promises_more(
    tmp_path: Path,
) -> None:
    """A real broker would not dispatch again what the checkpoint promises."""
    store = await a_store(tmp_path / "s")
    _, whole = staged_in(store, tmp_path / "whole")
    staged, built = staged_in(store, tmp_path / "part", upto=whole.end // 2)
    disk = WatchedDisk(lambda: checkpoint_of(store).logics_physical_offset)
    install_views(disk, store, staged, SIZES)
    assert len(disk.seen) == 2
    assert all(place < built.end for place in disk.seen)


def checkpoint_of(store: Path) -> CheckpointValues:
    checkpoint = StoreCheckpoint(Disk(), store / "checkpoint")
    checkpoint.load()
    return checkpoint.values


def mark_of(store: Path) -> int | None:
    mark = FlushedMark(Disk(), store / "pocketmq")
    mark.open()
    mark.close()
    return mark.valid_upto(encode_checkpoint(checkpoint_of(store)))


@pytest.mark.parametrize("call", ["write_at", "sync", "rename", "sync_directory"])
async def test_a_mark_stays_valid_when_installing_was_killed_and_is_done_again(
    tmp_path: Path, call: str
) -> None:
    store = await a_store(tmp_path / "s")
    flushed = mark_of(store)
    assert flushed
    _, whole = staged_in(store, tmp_path / "whole")
    for skip in range(8):
        for number, disk in enumerate((QuickDisk(), Disk())):
            staged, _ = staged_in(store, tmp_path / f"{skip} {number}", whole.end - 1_000 * skip)
            if isinstance(disk, QuickDisk):
                disk.fail(call, PowerCut(), skip=skip)
            with suppress(PowerCut):
                install_views(disk, store, staged, SIZES)
        assert mark_of(store) == flushed


async def test_what_a_killed_rebuild_would_go_on_with_is_gone_before_views_change_places(
    tmp_path: Path,
) -> None:
    store = await a_store(tmp_path / "s")
    staged, _ = staged_in(store, tmp_path / "views")
    (staged.directory / "rebuild-state").mkdir()
    (staged.directory / "rebuild-state/progress.json").write_text("{}")
    (staged.directory / "loose").touch()
    disk = WatchedDisk(lambda: sorted(path.name for path in staged.directory.iterdir()))
    install_views(disk, store, staged, SIZES)
    assert disk.seen == [["consumequeue", "index"]] * 2


async def test_the_manifest_tells_what_the_new_views_were_built_with(tmp_path: Path) -> None:
    store = await a_store(tmp_path / "s")
    staged, _ = staged_in(store, tmp_path / "views")
    own = replace(SIZES, index_style="5.3", time_zone="Asia/Shanghai")
    install_views(Disk(), store, staged, own)
    manifest = ManifestFile(Disk(), store / "pocketmq").read()
    assert manifest is not None
    assert (manifest.index_style, manifest.time_zone) == ("5.3", "Asia/Shanghai")
    assert manifest.cluster == SETTINGS.cluster


async def test_a_store_without_a_manifest_gets_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a broker would have to compare the whole log with views that end early."""
    store = await a_store(tmp_path / "s")
    before = rebuilt_files(store)
    shutil.rmtree(store / "pocketmq")
    _, whole = staged_in(store, tmp_path / "whole")
    staged, _ = staged_in(store, tmp_path / "part", upto=whole.end // 2)
    install_views(Disk(), store, staged, SIZES)
    async with store_at(store) as again:
        await again.settled()
    assert [record.message for record in caplog.records if "incomplete" in record.message] == []
    assert rebuilt_files(store) == before
