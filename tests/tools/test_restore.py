"""Restoring proves every byte; what cannot be proved leaves nothing behind."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from broker.files.directory_lock import DirectoryLock
from broker.files.disk import Disk
from broker.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from broker.log.flushed_mark import FlushedMark
from broker.model.errors import Corruption, NotAStore, StoreLocked
from broker.tools.backup_manifest import BackupTarget, Generation
from broker.tools.restore import restore
from tests.fakes.backed_up import backed_up, restored, stocked
from tests.fakes.quick_disk import PowerCut, QuickDisk
from tests.fakes.store_golden import READ_WHOLE, golden_sizes
from tests.fakes.store_language import store_at
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores


@pytest.fixture
def target(golden: GoldenStores, tmp_path: Path) -> BackupTarget:
    """A real broker's store with its views."""
    sizes = golden_tool_sizes(golden, "rebuild-base")
    backed_up(golden.store("rebuild-base"), tmp_path / "b", sizes=sizes, with_views=True)
    return BackupTarget(QuickDisk(), tmp_path / "b")


def newest(target: BackupTarget) -> Generation:
    return target.catalog().generations[-1]


@pytest.mark.parametrize("name", [*READ_WHOLE, "crash-torn.before", "clean-torn.after"])
def test_a_real_brokers_store_comes_back_byte_for_byte(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    base = golden.store(name)
    sizes = golden_tool_sizes(golden, name)
    found = backed_up(base, tmp_path / "b", sizes=sizes, with_views=True).generation
    again = restored(tmp_path / "b", tmp_path / "again")
    for path in base.rglob("*"):
        relative = path.relative_to(base)
        if path.is_file() and str(relative) not in ("lock", "abort"):
            assert (again / relative).read_bytes() == path.read_bytes(), relative
            assert (again / relative).stat().st_mtime_ns == path.stat().st_mtime_ns
    assert (again / "abort").exists() == (base / "abort").exists() == (not found.is_whole)


async def test_a_real_brokers_log_is_enough(golden: GoldenStores, tmp_path: Path) -> None:
    sizes = golden_tool_sizes(golden, "semantics")
    backed_up(golden.store("semantics"), tmp_path / "b", sizes=sizes)
    again = restored(tmp_path / "b", tmp_path / "again")
    assert not (again / "consumequeue").exists()
    async with store_at(again, **golden_sizes(golden, "semantics")) as store:
        await store.settled()
        for topic, queue_id in sorted(store.store.structures.queues.queues):
            low, high = store.store.reading.queue_range(topic, queue_id)
            assert low <= high


def test_files_stay_sparse(tmp_path: Path) -> None:
    (tmp_path / "s/commitlog").mkdir(parents=True)
    with (tmp_path / "s/timerwheel").open("wb") as wheel:
        wheel.seek(8 << 20)
        wheel.write(b"in the middle")
        wheel.truncate(30 << 20)
    backed_up(tmp_path / "s", tmp_path / "b")
    again = restored(tmp_path / "b", tmp_path / "again") / "timerwheel"
    assert again.read_bytes() == (tmp_path / "s/timerwheel").read_bytes()
    assert again.stat().st_blocks * 512 < 1 << 20


# -- damage ----------------------------------------------------------------------------------------
def test_any_damaged_object_is_named_and_nothing_stays(
    target: BackupTarget, tmp_path: Path
) -> None:
    generation = newest(target)
    for file in [file for file in generation.files if file.object][::9]:
        path = target.object_path(file.object)
        content = path.read_bytes()
        for position in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[position] ^= 0x55
            path.write_bytes(changed)
            with pytest.raises(Corruption, match="it holds ") as caught:
                restore(QuickDisk(), target, generation, tmp_path / "again")
            assert caught.value.path == str(path)
        path.unlink()
        with pytest.raises(Corruption, match="it holds "):
            restore(QuickDisk(), target, generation, tmp_path / "again")
        path.write_bytes(content)
    assert not list(tmp_path.glob("again*"))


async def test_a_log_that_is_not_sound_up_to_where_the_copy_reaches(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 40)
    found = backed_up(tmp_path / "s", tmp_path / "b").generation
    target = BackupTarget(QuickDisk(), tmp_path / "b")
    too_far = replace(found, upto=found.upto + 1)
    with pytest.raises(Corruption, match="no sound record at"):
        restore(QuickDisk(), target, too_far, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "again.restoring").exists()


@pytest.mark.parametrize("call", ["rename", "sync", "sync_directory", "write_file"])
async def test_a_restore_that_fails_leaves_nothing(tmp_path: Path, call: str) -> None:
    await stocked(tmp_path / "s", 0, 10)
    backed_up(tmp_path / "s", tmp_path / "b")
    target = BackupTarget(QuickDisk(), tmp_path / "b")
    disk = QuickDisk()
    disk.fail(call, PowerCut(), skip=call == "sync_directory")
    with pytest.raises(PowerCut):
        restore(disk, target, newest(target), tmp_path / "far/away/again")
    assert not list((tmp_path / "far/away").glob("*"))


# -- the place -------------------------------------------------------------------------------------
def test_only_into_an_empty_place(
    target: BackupTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for path, why in ((tmp_path / "full", "not empty"), (tmp_path / "full/x", "a file")):
        with pytest.raises(NotAStore, match=why):
            restore(QuickDisk(), target, newest(target), path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_mount", lambda path: True)
        with pytest.raises(NotAStore, match="mounted"):
            restore(QuickDisk(), target, newest(target), tmp_path / "empty")
    restore(QuickDisk(), target, newest(target), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty/commitlog").is_dir()


def test_what_a_killed_restore_left_is_cleared_away(target: BackupTarget, tmp_path: Path) -> None:
    draft = tmp_path / "again.restoring"
    (draft / "commitlog").mkdir(parents=True)
    (draft / "commitlog/stray").touch()
    (draft / "checkpoint").touch()
    restore(QuickDisk(), target, newest(target), tmp_path / "again")
    assert not draft.exists()
    assert not (tmp_path / "again/commitlog/stray").exists()


def test_a_directory_of_that_name_that_is_no_draft_stays(
    target: BackupTarget, tmp_path: Path
) -> None:
    (tmp_path / "again.restoring").mkdir()
    (tmp_path / "again.restoring/letters").touch()
    with pytest.raises(NotAStore, match="letters"):
        restore(QuickDisk(), target, newest(target), tmp_path / "again")
    assert (tmp_path / "again.restoring/letters").exists()


def test_two_restores_do_not_meet(
    target: BackupTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "again.restoring").mkdir()
    (tmp_path / "again.restoring/lock").touch()

    def is_taken(lock: DirectoryLock) -> None:
        raise StoreLocked(path=str(lock.path.parent))

    monkeypatch.setattr(DirectoryLock, "acquire", is_taken)
    with pytest.raises(StoreLocked, match=r"again\.restoring"):
        restore(QuickDisk(), target, newest(target), tmp_path / "again")
    assert (tmp_path / "again.restoring/lock").exists()


# -- what the store then knows ---------------------------------------------------------------------
async def test_what_was_flushed_is_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.tools.backup.is_live", lambda directory: True)
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a", "b")
        await store.settled()
        found = backed_up(store.directory, tmp_path / "b").generation
    again = restored(tmp_path / "b", tmp_path / "again")
    mark = FlushedMark(Disk(), again / "pocketmq")
    mark.open()
    content = (again / "checkpoint").read_bytes()
    assert mark.valid_upto(encode_checkpoint(decode_checkpoint(content))) == found.upto
    mark.close()
    log = again / "commitlog" / ("0" * 20)
    content = log.read_bytes()
    log.write_bytes(content[: found.upto - 20].ljust(len(content), b"\0"))
    async with store_at(again) as store:
        assert store.store.state == "damaged"


async def test_what_store_json_lists_of_views_is_taken_back(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 3)
    backed_up(tmp_path / "s", tmp_path / "b")
    own = restored(tmp_path / "b", tmp_path / "again") / "pocketmq/store.json"
    assert json.loads(own.read_bytes())["closed"] is None
    (tmp_path / "s/pocketmq/store.json").write_text("?")
    (tmp_path / "s/pocketmq/store.json.bak").unlink()
    backed_up(tmp_path / "s", tmp_path / "b")
    own = restored(tmp_path / "b", tmp_path / "third") / "pocketmq/store.json"
    assert own.read_text() == "?"
