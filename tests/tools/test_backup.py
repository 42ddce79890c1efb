"""Backups: of running stores too, full files once, whole generations or none."""

from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.format.index_layout import IndexGeometry
from broker.model.errors import NotAStore
from broker.tools.backup import BackupResult, backup, drop_generations, generations, object_path
from broker.tools.restore import restore
from broker.tools.store_access import Sizes
from tests.fakes.store_language import TalkingStore, small_settings, store_at

SETTINGS = small_settings(Path())
SIZES = Sizes(
    SETTINGS.commit_log_file_size_bytes,
    SETTINGS.consume_queue_file_size_bytes,
    IndexGeometry(SETTINGS.index_slot_count, SETTINGS.index_entry_count_max),
    time_zone=SETTINGS.time_zone,
)


def backed_up(
    store: Path, target: Path, name: str = "g1", *, with_views: bool = False
) -> BackupResult:
    return backup(Disk(), store, target, SIZES, name=name, with_views=with_views)


async def fill(store: TalkingStore, begin: int, end: int) -> None:
    for number in range(begin, end):
        await store.send("T", f"body {number}", key=f"k{number}")
    await store.settled()


async def test_a_running_store_is_copied_and_opens_with_all_that_was_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.tools.backup.is_live", lambda directory: True)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 60)
        found = backed_up(store.directory, tmp_path / "b")
        await fill(store, 60, 70)
    assert not any(
        file.path.startswith(("consumequeue", "index")) for file in found.generation.files
    )
    restore(Disk(), tmp_path / "b", generations(tmp_path / "b")[0], tmp_path / "again")
    async with store_at(tmp_path / "again") as again:
        assert await again.pulled("T") == [f"body {number}" for number in range(60)]
        assert await again.found("T", "k59") == ["body 59"]


async def test_full_files_of_the_log_are_read_once(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 80)
    first = backed_up(tmp_path / "s", tmp_path / "b", "g1")
    async with store_at(tmp_path / "s") as store:
        await fill(store, 80, 85)
    second = backed_up(tmp_path / "s", tmp_path / "b", "g2")
    assert first.files_known == 0
    assert second.files_known > 0
    assert second.bytes_read < first.bytes_read
    for generation, count in zip(generations(tmp_path / "b"), (80, 85), strict=True):
        directory = tmp_path / generation.name
        restore(Disk(), tmp_path / "b", generation, directory)
        async with store_at(directory) as again:
            assert len(await again.pulled("T")) == count


async def test_a_stopped_store_with_its_views(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 30)
    found = backed_up(tmp_path / "s", tmp_path / "b", with_views=True)
    assert found.generation.is_whole
    restore(Disk(), tmp_path / "b", found.generation, tmp_path / "again")
    names = {
        str(path.relative_to(tmp_path / "s"))
        for path in (tmp_path / "s").rglob("*")
        if path.is_file()
    }
    for name in names - {"lock"}:
        path = tmp_path / "again" / name
        if path.exists() or not name.startswith("commitlog"):  # A spare file is not copied.
            assert path.read_bytes() == (tmp_path / "s" / name).read_bytes()
    async with store_at(tmp_path / "again") as again:
        assert len(await again.pulled("T")) == 30


class Broken(Disk):
    """A disk that ends at a rename."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def rename(self, source: Path, target: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("the machine stopped")
        super().rename(source, target)


async def test_a_backup_that_is_killed_leaves_the_others(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 40)
    backed_up(tmp_path / "s", tmp_path / "b", "g1")
    for left in range(3):
        with pytest.raises(OSError, match="the machine stopped"):
            backup(Broken(left), tmp_path / "s", tmp_path / "b", SIZES, name="g2", with_views=True)
        assert [generation.name for generation in generations(tmp_path / "b")] == ["g1"]
    restore(Disk(), tmp_path / "b", generations(tmp_path / "b")[0], tmp_path / "again")


async def test_generations_go_and_with_them_objects_nobody_names(tmp_path: Path) -> None:
    for number in range(3):
        async with store_at(tmp_path / "s") as store:
            await fill(store, 10 * number, 10 * number + 10)
        backed_up(tmp_path / "s", tmp_path / "b", f"g{number}")
    dropped, count = drop_generations(Disk(), tmp_path / "b", 1)
    assert dropped == ["g0", "g1"]
    assert count > 0
    (left,) = generations(tmp_path / "b")
    assert all(
        object_path(tmp_path / "b", file.object).exists() for file in left.files if file.object
    )
    restore(Disk(), tmp_path / "b", left, tmp_path / "again")


async def test_a_target_is_of_one_store(tmp_path: Path) -> None:
    for name in ("s", "t"):
        async with store_at(tmp_path / name) as store:
            await fill(store, 0, 2)
    backed_up(tmp_path / "s", tmp_path / "b")
    with pytest.raises(NotAStore, match="backups of"):
        backed_up(tmp_path / "t", tmp_path / "b", "g2")
    (tmp_path / "b/generations/g3.json").write_text("{")
    with pytest.raises(NotAStore, match="no generation"):
        generations(tmp_path / "b")
