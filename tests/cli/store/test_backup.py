"""`pocketmq store backup` and `restore` on the command line."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command_line import Ran, run
from tests.cli.store.other_process import run_elsewhere
from tests.fakes.backed_up import fill
from tests.fakes.store_language import store_at
from tests.golden_stores import GoldenStores


@pytest.fixture
def store(golden: GoldenStores) -> Path:
    return golden.store("rebuild-base")


def backup(store: Path, target: Path, *options: str) -> Ran:
    return run("store", "backup", str(store), str(target), *options)


def restore(target: Path, *options: object) -> Ran:
    return run("store", "restore", str(target), *map(str, options))


def generations(target: Path) -> list[str]:
    return [row["name"] for row in restore(target, "--list", "-o", "jsonl").rows]


def test_there_and_back(store: Path, tmp_path: Path) -> None:
    done = backup(store, tmp_path / "b", "--with-views")
    assert done.code == 0
    assert done.document["objects_new"] > 10
    assert "The log from 0 up to" in done.err
    again = backup(store, tmp_path / "b", "--check", "--level", "1")
    assert again.document["files_known"] > 0
    assert again.document["left_out"] == ["consumequeue", "index"]
    assert "Note: left out: consumequeue, index" in again.err
    listed = restore(tmp_path / "b", "--list", "-o", "jsonl")
    assert [row["is_whole"] for row in listed.rows] == [True, False]
    whole, without_views = (row["name"] for row in listed.rows)
    copy = str(tmp_path / "copy")
    assert restore(tmp_path / "b", copy, "--generation", whole).code == 0
    assert run("store", "diff", str(store), copy).code == 0
    newest = restore(tmp_path / "b", tmp_path / "newest")
    assert newest.document["name"] == without_views
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


def test_by_time(store: Path, tmp_path: Path) -> None:
    for _ in range(2):
        backup(store, tmp_path / "b")
    first, second = restore(tmp_path / "b", "--list", "-o", "jsonl").rows
    early = restore(tmp_path / "b", tmp_path / "early", "--at", str(first["time_ms"]))
    expected = first if second["time_ms"] > first["time_ms"] else second
    assert early.document["name"] == expected["name"]
    assert (
        restore(tmp_path / "b", tmp_path / "late", "--at", "now").document["name"] == second["name"]
    )
    assert restore(tmp_path / "b", tmp_path / "x", "--at", "2001-01-01").code == 3
    assert restore(tmp_path / "b", tmp_path / "x", "--at", "now", "--generation", "g").code == 2


def test_only_so_many_are_kept(store: Path, tmp_path: Path) -> None:
    for _ in range(3):
        backup(store, tmp_path / "b")
    names = generations(tmp_path / "b")
    done = backup(store, tmp_path / "b", "--keep", "2")
    assert done.code == 4
    assert done.document["generations_removed"] == names[:2]
    assert "add --yes" in done.err
    assert generations(tmp_path / "b") == names
    done = backup(store, tmp_path / "b", "--keep", "2", "--yes")
    assert done.code == 0
    assert done.document["generations_removed"] == names[:2]
    assert generations(tmp_path / "b")[0] == names[2]
    assert len(generations(tmp_path / "b")) == 2
    assert restore(tmp_path / "b", tmp_path / "again").code == 0


def test_what_is_not_there(store: Path, tmp_path: Path) -> None:
    assert restore(tmp_path / "b", tmp_path / "x").code == 3
    assert restore(tmp_path / "b").code == 2
    assert backup(tmp_path / "none", tmp_path / "b").code == 3
    backup(store, tmp_path / "b")
    done = restore(tmp_path / "b", tmp_path / "x", "--generation", "no")
    assert done.code == 3
    assert "there is no generation no" in done.err
    assert restore(tmp_path / "b", store).code == 4


def test_a_damaged_object_is_exit_10(store: Path, tmp_path: Path) -> None:
    backup(store, tmp_path / "b")
    path = max((tmp_path / "b/objects").iterdir(), key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = restore(tmp_path / "b", tmp_path / "again")
    assert done.code == 10
    assert path.name in done.err
    assert "it holds commitlog/" in done.err
    assert "nothing was restored" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_damaged_manifest_is_not_passed_over(store: Path, tmp_path: Path) -> None:
    for _ in range(2):
        backup(store, tmp_path / "b")
    first, second = generations(tmp_path / "b")
    manifest = tmp_path / "b/manifests" / f"{second}.json"
    manifest.write_text(manifest.read_text().replace('"size": 4096', '"size": 4097', 1)[:-1])
    listed = restore(tmp_path / "b", "--list", "-o", "jsonl")
    assert (listed.code, [row["name"] for row in listed.rows]) == (10, [first])
    for choice in ((), ("--generation", second), ("--at", "now")):
        done = restore(tmp_path / "b", tmp_path / "again", *choice)
        assert done.code == 10
        assert manifest.name in done.err
    assert restore(tmp_path / "b", tmp_path / "again", "--generation", first).code == 0
    done = backup(store, tmp_path / "b")
    assert done.code == 0
    assert "Damage: " in done.err
    assert restore(tmp_path / "b", tmp_path / "newest").code == 0
    assert backup(store, tmp_path / "b", "--keep", "1").code == 10


def test_a_damaged_store_is_copied_and_exit_10(golden: GoldenStores, tmp_path: Path) -> None:
    damaged = golden.store("crash-flip.before")
    done = backup(damaged, tmp_path / "b")
    assert done.code == 10
    assert done.document["damaged_files"] == 1
    assert "Damage: commitlog/" in done.err
    done = restore(tmp_path / "b", tmp_path / "again")
    assert done.code == 10
    assert "restored as it was" in done.err
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

    monkeypatch.setattr("broker.tools.backup.backup", refuse)
    done = backup(golden.store("rebuild-base"), tmp_path / "b")
    assert done.code == 1
    assert "/store/config/topics.json" in done.err


def test_the_output_for_people(store: Path, tmp_path: Path) -> None:
    backup(store, tmp_path / "b")
    table = restore(tmp_path / "b", "--list", "-o", "table").out.splitlines()
    assert table[0].startswith("GENERATION")
    assert len(table) == 2
    assert json.loads(restore(tmp_path / "b", "--list", "-o", "json").out)[0]["is_live"] is False
