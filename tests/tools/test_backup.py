"""Backups: of running stores too, full files once, consistent while messages arrive."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.model.errors import NotAStore, StoreLocked
from broker.rebuild.log_files import find_log_files
from broker.tools import backup as module
from broker.tools.backup import first_damage, is_running
from broker.tools.backup_manifest import BackupTarget, Generation
from tests.fakes.backed_up import backed_up, fill, restored, stocked
from tests.fakes.log_bytes import LogBytes
from tests.fakes.quick_disk import PowerCut, QuickDisk
from tests.fakes.store_language import store_at

FILE = "commitlog/00000000000000000000"
FILE_SIZE = 4096


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store is taken for one that another process runs."""
    monkeypatch.setattr(module, "is_live", lambda directory: True)


def generations(target: Path) -> list[Generation]:
    return BackupTarget(QuickDisk(), target).catalog().generations


def paths(generation: Generation) -> list[str]:
    return [file.path for file in generation.files]


# -- running stores --------------------------------------------------------------------------------
@pytest.mark.usefixtures("live")
async def test_a_running_store_opens_again_with_all_that_was_flushed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 60)
        found = backed_up(store.directory, tmp_path / "b").generation
        assert found.upto == found.flushed == store.store.flushed
        await fill(store, 60, 70)
    assert found.is_live
    assert not found.is_whole
    assert found.left_out == ["consumequeue", "index"]
    assert not any(path.startswith(("consumequeue", "index")) for path in paths(found))
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again/abort").exists()
    async with store_at(tmp_path / "again") as again:
        assert await again.pulled("T") == [f"body {number}" for number in range(60)]
        assert await again.found("T", "k59") == ["body 59"]
        await fill(again, 60, 61)
        assert len(await again.pulled("T")) == 61


@pytest.mark.usefixtures("live")
async def test_a_store_that_is_being_written(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 20)
        for number in range(3):
            sending = asyncio.create_task(fill(store, 20 + 40 * number, 60 + 40 * number))
            await asyncio.to_thread(backed_up, store.directory, tmp_path / "b")
            await sending
    sent = [f"body {number}" for number in range(140)]
    counts = []
    for number, generation in enumerate(generations(tmp_path / "b")):
        assert not generation.damaged
        directory = restored(tmp_path / "b", tmp_path / f"again{number}", number)
        async with store_at(directory) as again:
            bodies = await again.pulled("T")
            assert bodies == sent[: len(bodies)]
            assert again.store.appended == generation.upto
            counts.append(len(bodies))
    assert counts[0] >= 20
    assert counts == sorted(counts)


@pytest.mark.usefixtures("live")
async def test_what_is_behind_the_mark_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 30)
    size = int.from_bytes((tmp_path / "s" / FILE).read_bytes()[:4])
    monkeypatch.setattr(module, "flushed_upto", lambda disk, directory: 3 * size)
    found = backed_up(tmp_path / "s", tmp_path / "b").generation
    assert (found.begin, found.upto) == (0, 3 * size)
    assert [(f.path, f.taken, f.is_sealed) for f in found.log_files] == [(FILE, 3 * size, False)]
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert len(await again.pulled("T")) == 3


@pytest.mark.usefixtures("live")
async def test_a_running_store_that_tells_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 30)
    monkeypatch.setattr(module, "flushed_upto", lambda disk, directory: None)
    backed_up(tmp_path / "s", tmp_path / "b")
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert len(await again.pulled("T")) == 30


@pytest.mark.usefixtures("live")
async def test_views_are_not_copied_of_a_running_store(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 2)
    with pytest.raises(StoreLocked):
        backed_up(tmp_path / "s", tmp_path / "b", with_views=True)
    assert not (tmp_path / "b").exists()


@pytest.mark.usefixtures("live")
async def test_positions_are_read_before_the_log_and_names_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 2)
    config = tmp_path / "s/config"
    config.mkdir()
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:2}}}')
    (config / "topics.json").write_text('{"topicConfigTable":{}}')

    def while_the_log_is_looked_at(disk: Disk, directory: Path) -> None:
        (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:99}}}')
        (config / "topics.json").write_text('{"topicConfigTable":{"New":{}}}')

    monkeypatch.setattr(module, "flushed_upto", while_the_log_is_looked_at)
    backed_up(tmp_path / "s", tmp_path / "b")
    again = restored(tmp_path / "b", tmp_path / "again") / "config"
    assert "0:2" in (again / "consumerOffset.json").read_text()
    assert "New" in (again / "topics.json").read_text()


@pytest.mark.usefixtures("live")
async def test_a_table_that_is_torn_or_gone_for_a_moment(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 2)
    config = tmp_path / "s/config"
    config.mkdir()
    (config / "topics.json.bak").write_text("{}")
    (config / "topics.json").unlink(missing_ok=True)
    (config / "delayOffset.json").write_text('{"offs')
    (config / "empty.json").touch()
    backed_up(tmp_path / "s", tmp_path / "b")
    again = restored(tmp_path / "b", tmp_path / "again") / "config"
    assert (again / "topics.json.bak").read_text() == "{}"
    assert (again / "delayOffset.json").read_text() == '{"offs'
    assert (again / "empty.json").read_bytes() == b""


@pytest.mark.usefixtures("live")
async def test_files_that_retention_takes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 90)
    files = find_log_files(tmp_path / "s", FILE_SIZE)

    def while_the_first_is_copied(file: object, upto: int) -> str:
        Path(files[1].path).unlink(missing_ok=True)
        return ""

    monkeypatch.setattr(module, "first_damage", while_the_first_is_copied)
    found = backed_up(tmp_path / "s", tmp_path / "b").generation
    assert found.begin == files[2].base
    assert [file.base for file in found.log_files][:1] == [files[2].base]


# -- stopped stores --------------------------------------------------------------------------------
async def test_a_stopped_store_with_its_views_comes_back_byte_for_byte(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 30)
    found = backed_up(store, tmp_path / "b", with_views=True).generation
    assert found.is_whole
    assert found.left_out == []
    again = restored(tmp_path / "b", tmp_path / "again")
    for path in store.rglob("*"):
        if path.is_file() and path.name not in ("lock", "reserve"):
            assert (again / path.relative_to(store)).read_bytes() == path.read_bytes()
    assert not (again / "abort").exists()
    async with store_at(again) as reopened:
        assert len(await reopened.pulled("T")) == 30


async def test_a_stopped_store_without_its_views_builds_them_again(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 30)
    found = backed_up(tmp_path / "s", tmp_path / "b").generation
    assert (found.is_live, found.is_whole, found.left_out) == (
        False, False, ["consumequeue", "index"],
    )  # fmt: skip
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert len(await again.pulled("T")) == 30
        assert await again.found("T", "k3") == ["body 3"]


async def test_a_store_that_was_killed_keeps_its_torn_tail(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 30)
        image = store.killed(tmp_path / "image")
    last = sorted((image / "commitlog").iterdir())[-1]
    content = bytearray(last.read_bytes())
    end = len(content.rstrip(b"\0")) + 8
    content[end : end + 8] = b"torn off"
    last.write_bytes(content)
    found = backed_up(image, tmp_path / "b", with_views=True).generation
    assert not found.is_whole
    assert found.damaged == []
    again = restored(tmp_path / "b", tmp_path / "again")
    assert (again / "commitlog" / last.name).read_bytes() == content
    assert (again / "abort").exists()
    async with store_at(again) as reopened:
        assert len(await reopened.pulled("T")) == 30


async def test_a_store_that_is_started_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stocked(tmp_path / "s", 0, 3)
    answers = iter([False, True])
    monkeypatch.setattr(module, "is_live", lambda directory: next(answers))
    with pytest.raises(StoreLocked):
        backed_up(store, tmp_path / "b", with_views=True)
    assert generations(tmp_path / "b") == []


def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "s/commitlog").mkdir(parents=True)
    found = backed_up(tmp_path / "s", tmp_path / "b").generation
    assert (found.begin, found.upto, found.files) == (0, 0, [])
    assert restored(tmp_path / "b", tmp_path / "again").is_dir()


def test_whether_a_store_runs_where_its_lock_may_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = QuickDisk()
    assert not is_running(disk, tmp_path)
    (tmp_path / "lock").touch()
    assert not is_running(disk, tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert not is_running(disk, tmp_path)
    (tmp_path / "abort").touch()
    assert is_running(disk, tmp_path)


# -- generations after the first -------------------------------------------------------------------
async def test_full_files_of_the_log_are_read_once(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 80)
    first = backed_up(tmp_path / "s", tmp_path / "b")
    objects = set((tmp_path / "b/objects").iterdir())
    await stocked(tmp_path / "s", 80, 85)
    second = backed_up(tmp_path / "s", tmp_path / "b")
    assert first.files_known == 0
    assert second.files_known == sum(file.is_sealed for file in first.generation.files) > 1
    assert second.bytes_read < first.bytes_read - 2 * FILE_SIZE + 1000
    assert set((tmp_path / "b/objects").iterdir()) > objects
    assert len(list((tmp_path / "b/objects").iterdir())) == len(objects) + second.objects_new
    assert first.generation.name < second.generation.name
    for number, count in enumerate((80, 85)):
        directory = restored(tmp_path / "b", tmp_path / f"again{number}", number)
        async with store_at(directory) as again:
            assert len(await again.pulled("T")) == count


async def test_a_full_file_that_was_touched_or_whose_object_is_gone_is_read_again(
    tmp_path: Path,
) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    known = sum(file.is_sealed for file in backed_up(store, tmp_path / "b").generation.files)
    (store / FILE).touch()
    assert backed_up(store, tmp_path / "b").files_known == known - 1
    file = next(f for f in generations(tmp_path / "b")[-1].files if f.path == FILE)
    (tmp_path / "b/objects" / f"{file.object}.zst").unlink()
    again = backed_up(store, tmp_path / "b")
    assert (again.files_known, again.objects_new) == (known - 1, 1)
    restored(tmp_path / "b", tmp_path / "again")


async def test_a_file_closed_by_a_blank_is_sealed_without_a_later_one(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    files = sorted((store / "commitlog").iterdir())
    for path in files[2:]:
        path.unlink()
    found = backed_up(store, tmp_path / "b").generation
    assert [file.is_sealed for file in found.log_files] == [True, True]
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again/commitlog" / files[1].name).read_bytes() == files[1].read_bytes()


async def test_a_check_reads_everything_and_mends_a_bad_object(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    found = backed_up(store, tmp_path / "b")
    known = sum(file.is_sealed for file in found.generation.files)
    assert backed_up(store, tmp_path / "b", check=True).files_known == known
    file = next(f for f in found.generation.files if f.path == FILE)
    path = tmp_path / "b/objects" / f"{file.object}.zst"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    assert backed_up(store, tmp_path / "b").files_known == known
    again = backed_up(store, tmp_path / "b", check=True)
    assert (again.files_known, again.changed) == (known - 1, [])
    assert path.read_bytes() == content


async def test_a_check_finds_a_file_that_changed_in_silence(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 80)
    backed_up(store, tmp_path / "b")
    times = (store / FILE).stat()
    content = bytearray((store / FILE).read_bytes())
    content[100] ^= 1
    with (store / FILE).open("r+b") as opened:
        opened.write(content)
    os.utime(store / FILE, ns=(times.st_atime_ns, times.st_mtime_ns))
    before = backed_up(store, tmp_path / "b").generation
    assert before.damaged == []
    found = backed_up(store, tmp_path / "b", check=True)
    assert found.changed == [FILE]
    (damaged,) = found.generation.damaged
    assert damaged.damage == f"its content is not what it was in {before.name}"
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_bytes() == content


# -- damage, accidents -----------------------------------------------------------------------------
async def test_a_damaged_store_is_copied_as_it_is_and_said_to_be(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 60)
    content = bytearray((store / FILE).read_bytes())
    content[90] ^= 0xFF
    (store / FILE).write_bytes(content)
    found = backed_up(store, tmp_path / "b").generation
    assert [file.path for file in found.damaged] == [FILE]
    assert found.damaged[0].damage.startswith("at ")
    again = backed_up(store, tmp_path / "b")
    assert again.files_known > 0
    assert again.generation.damaged == found.damaged
    restored(tmp_path / "b", tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_bytes() == content


@pytest.mark.usefixtures("live")
async def test_records_that_are_missing_below_the_mark(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 30)
    files = sorted((store / "commitlog").iterdir())
    last = [path for path in files if path.read_bytes().strip(b"\0")][-1]
    content = last.read_bytes().rstrip(b"\0")
    last.write_bytes(content[:-30].ljust(FILE_SIZE, b"\0"))
    found = backed_up(store, tmp_path / "b").generation
    assert found.flushed is not None
    assert found.upto < found.flushed
    assert [file.path for file in found.damaged] == [f"commitlog/{last.name}"]


def test_where_the_first_damage_is(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    places = [log.add("T", queue_offset=number) for number in range(5)]
    log.damage(places[3] + 90, b"??")
    (file,) = log.close().found()
    assert first_damage(file, places[3]) == ""
    assert first_damage(file, log.end).startswith(f"at {places[3]}: ")
    assert first_damage(file, file.end).startswith(f"at {places[3]}: ")


@pytest.mark.parametrize("call", ["sync", "rename", "sync_directory", "write_file"])
async def test_a_backup_that_is_killed_leaves_the_others(tmp_path: Path, call: str) -> None:
    store = await stocked(tmp_path / "s", 0, 40)
    backed_up(store, tmp_path / "b")
    await stocked(tmp_path / "s", 40, 70)
    disk, skip = QuickDisk(), 0
    while True:
        disk.fail(call, PowerCut(), skip=skip)
        try:
            backed_up(store, tmp_path / "b", disk=disk)
        except PowerCut:
            (tmp_path / "b/objects/1.draft").write_bytes(b"left behind")
            skip += 1
        else:
            break
        known = generations(tmp_path / "b")
        assert len(known) <= 2
        for number in range(len(known)):
            restored(tmp_path / "b", tmp_path / f"{skip}-{number}", number)
    assert skip > 0
    async with store_at(restored(tmp_path / "b", tmp_path / "again")) as again:
        assert len(await again.pulled("T")) == 70


# -- the target ------------------------------------------------------------------------------------
async def test_a_target_is_of_one_store_wherever_it_lies(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 40)
    other = await stocked(tmp_path / "t", 0, 2)
    backed_up(store, tmp_path / "b")
    with pytest.raises(NotAStore, match="it holds backups of"):
        backed_up(other, tmp_path / "b")
    moved = store.rename(tmp_path / "moved")
    await stocked(moved, 40, 60)
    assert backed_up(moved, tmp_path / "b").generation.store == str(moved)


async def test_a_target_inside_the_store(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 2)
    for target in (store, store / "backups"):
        with pytest.raises(NotAStore, match="lies in the store"):
            backed_up(store, target)
    assert not (store / "backups").exists()


async def test_a_manifest_that_cannot_be_read_hinders_nobody(tmp_path: Path) -> None:
    store = await stocked(tmp_path / "s", 0, 60)
    backed_up(store, tmp_path / "b")
    (tmp_path / "b/manifests/20991231T000000.000000Z.json").write_text("{")
    assert backed_up(store, tmp_path / "b").files_known > 0
    manifest = json.loads(sorted((tmp_path / "b/manifests").iterdir())[0].read_bytes())
    assert manifest["format_version"] == 1
