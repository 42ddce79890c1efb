"""Restoring proves every byte; what cannot be proved leaves nothing behind."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.directory_lock import DirectoryLock
from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import decode_checkpoint, encode_checkpoint
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.log.deleted_topics import is_unstarted_copy
from pocketmq.model.errors import Corruption, NotAStore, StoreLocked
from pocketmq.tools.copies import read_backup
from pocketmq.tools.restore import restore
from tests.golden_stores import GoldenStores
from tests.kit.backed_up import backed_up, restored, stocked
from tests.kit.log_bytes import views
from tests.kit.store_golden import READ_WHOLE, golden_sizes
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import PowerCut, QuickDisk


@pytest.fixture
def copy(golden: GoldenStores, tmp_path: Path) -> Path:
    """A copy of a real broker's store with its views."""
    sizes = golden_tool_sizes(golden, "rebuild-base")
    backed_up(golden.store("rebuild-base"), tmp_path / "b", sizes=sizes, with_views=True)
    return tmp_path / "b"


@pytest.mark.parametrize("name", [*READ_WHOLE, "crash-torn.before", "clean-torn.after"])
def test_a_real_brokers_store_comes_back_byte_for_byte(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    base = golden.store(name)
    sizes = golden_tool_sizes(golden, name)
    found = backed_up(base, tmp_path / "b", sizes=sizes, with_views=True)
    again = restored(tmp_path / "b", tmp_path / "again")
    for path in base.rglob("*"):
        relative = path.relative_to(base)
        if path.is_file() and str(relative) not in ("lock", "abort"):
            assert (again / relative).read_bytes() == path.read_bytes(), relative
            assert (again / relative).stat().st_mtime_ns == path.stat().st_mtime_ns
    assert (again / "abort").exists() == (base / "abort").exists() == (not found.is_whole)


async def test_a_real_brokers_sizes_come_back_with_its_log(
    golden: GoldenStores, tmp_path: Path
) -> None:
    sizes = golden_tool_sizes(golden, "rebuild-base")
    backed_up(golden.store("rebuild-base"), tmp_path / "b", sizes=sizes)
    again = restored(tmp_path / "b", tmp_path / "again")
    async with store_at(again) as store:
        await store.settled()
        assert not store.store.made_here
    assert views(again) == views(golden.store("rebuild-base"))


async def test_a_real_brokers_log_is_enough(golden: GoldenStores, tmp_path: Path) -> None:
    sizes = golden_tool_sizes(golden, "semantics")
    backed_up(golden.store("semantics"), tmp_path / "b", sizes=sizes)
    again = restored(tmp_path / "b", tmp_path / "again")
    assert not (again / "consumequeue").exists()
    assert is_unstarted_copy(Disk(), again)
    async with store_at(again, **golden_sizes(golden, "semantics")) as store:
        await store.settled()
        assert not is_unstarted_copy(Disk(), again)
        for topic, queue_id in sorted(store.store.views.queues.queues):
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
def test_any_damaged_file_is_named_and_nothing_stays(copy: Path, tmp_path: Path) -> None:
    found = read_backup(QuickDisk(), copy)
    assert found is not None
    for file in [file for file in found.files if file.size][::9]:
        path = copy / file.path
        content = path.read_bytes()
        changes = [bytearray(content) for _ in range(5)]
        for changed, position in zip(changes, (0, file.size // 2, file.size - 1), strict=False):
            changed[position] ^= 0x55
        changes[3].pop()
        changes[4].append(0)
        for changed in changes:
            path.write_bytes(changed)
            with pytest.raises(Corruption, match="its sha256 is ") as caught:
                restore(QuickDisk(), copy, tmp_path / "again")
            assert caught.value.path == str(path)
        path.unlink()
        with pytest.raises(Corruption, match="it is missing"):
            restore(QuickDisk(), copy, tmp_path / "again")
        path.write_bytes(content)
    assert not list(tmp_path.glob("again*"))


def said(copy: Path) -> dict[str, Any]:
    """Returns the description of a copy, without its checksum."""
    document: dict[str, Any] = json.loads((copy / "backup.json").read_bytes())
    del document["sha256"]
    return document


def say(copy: Path, document: dict[str, Any]) -> None:
    """Replaces the description of a copy, with its checksum."""
    rest = {name: value for name, value in document.items() if name != "format"}
    digest = sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    (copy / "backup.json").write_text(json.dumps(document | {"sha256": digest}))


@pytest.mark.parametrize(
    "change",
    [
        {"files": []}, {"files": 7}, {"files": [7]}, {"files": [{"path": "x"}]}, {"begin": "0"},
        {"begin": -4096}, {"begin": 2**70}, {"upto": None}, {"upto": 2**40}, {"left_out": [1]},
        {"is_live": "no"}, {"store": 1}, {"flushed": 1.5}, {"more": 1},
        {"files": [{"path": "x\0", "size": 0, "sha256": "", "changed_ns": 0}]},
    ],
)  # fmt: skip
def test_a_backup_json_that_cannot_be_right(
    copy: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    say(copy, said(copy) | change)
    with pytest.raises(Corruption) as caught:
        restore(QuickDisk(), copy, tmp_path / "again")
    assert caught.value.path == str(copy / "backup.json")
    assert not list(tmp_path.glob("again*"))


async def test_a_log_that_is_not_whole(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 80)
    backed_up(tmp_path / "s", tmp_path / "b")
    document = said(tmp_path / "b")
    logs = [file for file in document["files"] if file["path"].startswith("commitlog/")]
    assert len(logs) > 2
    for gone in (logs[0], logs[1]):
        rest = [file for file in document["files"] if file is not gone]
        say(tmp_path / "b", document | {"files": rest})
        with pytest.raises(Corruption, match="no file of the log begins at "):
            restore(QuickDisk(), tmp_path / "b", tmp_path / "again")


@pytest.mark.parametrize("path", ["../letters", "/tmp/letters", "config/../../x"])
def test_a_path_that_leads_out_of_the_copy(copy: Path, tmp_path: Path, path: str) -> None:
    document = said(copy)
    document["files"][0]["path"] = path
    say(copy, document)
    with pytest.raises(Corruption, match="outside"):
        restore(QuickDisk(), copy, tmp_path / "again")
    assert not list(tmp_path.glob("again*"))


@pytest.mark.parametrize("call", ["rename", "sync", "sync_directory"])
async def test_a_restore_that_fails_leaves_nothing(tmp_path: Path, call: str) -> None:
    await stocked(tmp_path / "s", 0, 10)
    backed_up(tmp_path / "s", tmp_path / "b")
    disk = QuickDisk()
    disk.fail(call, PowerCut(), skip=call == "sync_directory")
    with pytest.raises(PowerCut):
        restore(disk, tmp_path / "b", tmp_path / "far/away/again")
    assert not list((tmp_path / "far/away").glob("*"))


# -- the place -------------------------------------------------------------------------------------
def test_only_into_an_empty_place(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for path, why in ((tmp_path / "full", "not empty"), (tmp_path / "full/x", "a file")):
        with pytest.raises(NotAStore, match=why):
            restore(QuickDisk(), copy, path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_mount", lambda path: True)
        with pytest.raises(NotAStore, match="mounted"):
            restore(QuickDisk(), copy, tmp_path / "empty")
    restore(QuickDisk(), copy, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty/commitlog").is_dir()


def test_what_a_killed_restore_left_is_cleared_away(copy: Path, tmp_path: Path) -> None:
    draft = tmp_path / "again.restoring"
    (draft / "commitlog").mkdir(parents=True)
    (draft / "commitlog/stray").touch()
    (draft / "checkpoint").touch()
    restore(QuickDisk(), copy, tmp_path / "again")
    assert not draft.exists()
    assert not (tmp_path / "again/commitlog/stray").exists()


def test_a_directory_of_that_name_that_is_no_draft_stays(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "again.restoring").mkdir()
    (tmp_path / "again.restoring/letters").touch()
    with pytest.raises(NotAStore, match="letters"):
        restore(QuickDisk(), copy, tmp_path / "again")
    assert (tmp_path / "again.restoring/letters").exists()


def test_two_restores_do_not_meet(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "again.restoring").mkdir()
    (tmp_path / "again.restoring/lock").touch()

    def is_taken(lock: DirectoryLock) -> None:
        raise StoreLocked(path=str(lock.path.parent))

    monkeypatch.setattr(DirectoryLock, "acquire", is_taken)
    with pytest.raises(StoreLocked, match=r"again\.restoring"):
        restore(QuickDisk(), copy, tmp_path / "again")
    assert (tmp_path / "again.restoring/lock").exists()


def test_a_copy_that_a_broker_has_open(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.tools.restore.is_live", lambda directory: True)
    with pytest.raises(StoreLocked):
        restore(QuickDisk(), copy, tmp_path / "again")


# -- what the store then knows ---------------------------------------------------------------------
async def test_what_was_flushed_is_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.tools.backup.is_live", lambda directory: True)
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a", "b")
        await store.settled()
        found = backed_up(store.directory, tmp_path / "b")
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
    backed_up(tmp_path / "s", tmp_path / "c")
    own = restored(tmp_path / "c", tmp_path / "third") / "pocketmq/store.json"
    assert own.read_text() == "?"


class Renaming(QuickDisk):
    """A disk that remembers what was durable when a directory got its name."""

    durable: frozenset[Path] = frozenset()

    def rename(self, source: Path, target: Path) -> None:
        self.durable = frozenset(self.synced)
        super().rename(source, target)


async def test_all_of_it_is_durable_before_it_has_its_name(tmp_path: Path) -> None:
    backed_up(await stocked(tmp_path / "s", 0, 40), tmp_path / "b", with_views=True)
    disk = Renaming()
    found = restore(disk, tmp_path / "b", tmp_path / "again")
    draft = tmp_path / "again.restoring"
    assert {draft / file.path for file in found.files} <= disk.durable
