"""`pocketmq store backup` and `restore` on the command line."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.command_line import Ran, run
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.backed_up import fill
from tests.kit.store_language import store_at


@pytest.fixture
def store(golden: GoldenStores) -> Path:
    return golden.store("rebuild-base")


def backup(store: Path, target: Path, *options: str) -> Ran:
    return run("store", "backup", str(store), str(target), *options)


def restore(target: Path, *options: object) -> Ran:
    return run("store", "restore", str(target), *map(str, options))


def test_there_and_back(store: Path, tmp_path: Path) -> None:
    done = backup(store, tmp_path / "b", "--with-views")
    assert done.code == 0
    assert done.document["is_whole"]
    assert done.document["files_known"] == 0
    assert "Log from 0 to" in done.err
    assert run("store", "diff", str(store), str(tmp_path / "b")).code == 0
    assert backup(store, tmp_path / "b", "--with-views").document["bytes_copied"] == 0
    assert restore(tmp_path / "b", tmp_path / "whole").code == 0
    assert run("store", "diff", str(store), str(tmp_path / "whole")).code == 0
    again = backup(store, tmp_path / "b")
    assert again.document["files_known"] > 0
    assert again.document["left_out"] == ["consumequeue", "index"]
    assert "Note: left out: consumequeue, index" in again.err
    assert restore(tmp_path / "b", tmp_path / "newest").document["left_out"]
    assert run("store", "diff", str(store), str(tmp_path / "newest"), "--messages").code == 0


async def test_a_store_in_use(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 40)
        command = ("store", "backup", str(store.directory), str(tmp_path / "b"))
        assert (await asyncio.to_thread(run_elsewhere, *command, "--with-views")).code == 4
        sending = asyncio.create_task(fill(store, 40, 80))
        done = await asyncio.to_thread(run_elsewhere, *command)
        await sending
    assert done.code == 0
    assert done.document["is_live"]
    assert restore(tmp_path / "b", tmp_path / "again").code == 0
    async with store_at(tmp_path / "again") as again:
        bodies = await again.pulled("T")
    assert len(bodies) >= 40
    assert bodies == [f"body {number}" for number in range(len(bodies))]


def test_what_is_not_there(store: Path, tmp_path: Path) -> None:
    assert restore(tmp_path / "b", tmp_path / "x").code == 3
    assert restore(tmp_path / "b").code == 2
    assert backup(tmp_path / "none", tmp_path / "b").code == 3
    assert restore(store, tmp_path / "x").code == 4
    backup(store, tmp_path / "b")
    done = restore(tmp_path / "b", store)
    assert done.code == 4
    assert f"nothing can be restored to {store}: it is not empty\nNext:  name a dir" in done.err


def test_a_damaged_copy_is_exit_10(store: Path, tmp_path: Path) -> None:
    backup(store, tmp_path / "b")
    path = tmp_path / "b/commitlog" / ("0" * 20)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = restore(tmp_path / "b", tmp_path / "again")
    assert done.code == 10
    assert str(path) in done.err
    assert "nothing was restored" in done.err
    assert "make the copy again: pocketmq store backup " in done.err
    assert "an earlier generation" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_changed_backup_json_is_exit_10(store: Path, tmp_path: Path) -> None:
    backup(store, tmp_path / "b")
    path = tmp_path / "b/backup.json"
    path.write_text(path.read_text().replace('"begin": 0', '"begin": "0"'))
    for done in (restore(tmp_path / "b", tmp_path / "again"), backup(store, tmp_path / "b")):
        assert done.code == 10
        assert str(path) in done.err
    path.write_text("{}")
    for done in (restore(tmp_path / "b", tmp_path / "again"), backup(store, tmp_path / "b")):
        assert done.code == 4
        assert "no backup wrote its backup.json" in done.err


def test_a_damaged_store_is_copied_and_exit_10(golden: GoldenStores, tmp_path: Path) -> None:
    damaged = golden.store("crash-flip.before")
    done = backup(damaged, tmp_path / "b")
    assert done.code == 10
    assert done.document["damaged_files"] == 1
    assert "Damage: commitlog/" in done.err
    assert f"Next:  pocketmq store verify {damaged}\n" in done.err
    done = restore(tmp_path / "b", tmp_path / "again")
    assert done.code == 10
    assert "restored as it was" in done.err
    assert f"Next:  pocketmq store verify {tmp_path / 'again'}\n" in done.err
    assert run("store", "diff", str(damaged), str(tmp_path / "again"), "--files").code == 1
    log = sorted(path.name for path in (damaged / "commitlog").iterdir())
    for name in log:
        content = (damaged / "commitlog" / name).read_bytes()
        assert (tmp_path / "again/commitlog" / name).read_bytes() == content


def test_a_file_that_cannot_be_read(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "/store/config/topics.json")

    monkeypatch.setattr("pocketmq.tools.backup.backup", refuse)
    done = backup(golden.store("rebuild-base"), tmp_path / "b")
    assert done.code == 1
    assert "/store/config/topics.json" in done.err
