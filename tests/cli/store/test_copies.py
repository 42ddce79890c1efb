"""`pocketmq store backup` and `restore` on the command line."""

from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_there_and_back(golden: GoldenStores, tmp_path: Path) -> None:
    store, target = str(golden.store("rebuild-base")), str(tmp_path / "b")
    done = run("store", "backup", store, target, "--with-views")
    assert done.code == 0
    assert done.document["objects_new"] > 10
    again = run("store", "backup", store, target)
    assert again.document["files_known"] > 0
    listed = run("store", "restore", target, "--list", "-o", "jsonl")
    assert [row["is_whole"] for row in listed.rows] == [True, False]
    name = listed.rows[0]["name"]
    copy = str(tmp_path / "copy")
    assert run("store", "restore", target, copy, "--generation", name).code == 0
    assert run("store", "diff", store, copy, "--files").code == 0


def test_what_cannot_be(golden: GoldenStores, tmp_path: Path) -> None:
    store, target = str(golden.store("v533")), str(tmp_path / "b")
    assert run("store", "restore", target, str(tmp_path / "x")).code == 3
    assert run("store", "restore", target).code == 2
    assert run("store", "backup", str(tmp_path / "none"), target).code == 3
    run("store", "backup", store, target)
    done = run("store", "backup", store, target, "--keep", "1")
    assert done.code == 4
    assert len(done.document["would_remove"]) == 1
    done = run("store", "backup", store, target, "--keep", "1", "--yes")
    assert done.code == 0
    assert len(done.document["generations_removed"]) == 1
    assert run("store", "restore", target, str(tmp_path / "x"), "--generation", "no").code == 3
