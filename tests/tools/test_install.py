"""Installed views are the store's own: a broker starts on them and finds nothing lacking."""

import logging
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.format.names import CONSUME_QUEUE_DIRECTORY, INDEX_DIRECTORY
from broker.log.checkpoint import Checkpoint
from broker.log.store_manifest import ManifestFile
from broker.rebuild.log_files import find_log_files
from broker.rebuild.sequential import Rebuilt, rebuild
from broker.tools.install import StagedViews, install_views
from broker.tools.store_access import Sizes, view_settings
from tests.fakes.log_bytes import EVERYTHING, rebuilt_files
from tests.fakes.store_language import small_settings, store_at

SETTINGS = small_settings(Path())
SIZES = Sizes(
    SETTINGS.commit_log_file_size_bytes,
    SETTINGS.consume_queue_file_size_bytes,
    IndexGeometry(SETTINGS.index_slot_count, SETTINGS.index_entry_count_max),
    time_zone=SETTINGS.time_zone,
)


async def a_store(directory: Path) -> Path:
    """A store of our own with 60 messages in three queues, stopped in order."""
    async with store_at(directory) as store:
        for number in range(60):
            await store.send("T", f"body {number}", queue_id=number % 3, key=f"k{number}")
        await store.settled()
    return directory


def staged_in(store: Path, out: Path, upto: int = EVERYTHING) -> tuple[StagedViews, Rebuilt]:
    files = find_log_files(store, SIZES.commit_log_file_bytes)
    built = rebuild(files, view_settings(SIZES, check_crc=True), out, upto=upto)
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
    checkpoint = Checkpoint(Disk(), store / "checkpoint")
    checkpoint.load()
    assert 0 < checkpoint.values.logics_physical_offset < built.end
    assert checkpoint.values.index_msg_timestamp > 0
