"""`pocketmq store ls` and `diff` on the command line."""

from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_files_are_listed(golden: GoldenStores) -> None:
    done = run("store", "ls", str(golden.store("v533")), "--kind", "index", "-o", "jsonl")
    assert done.code == 0
    assert [row["kind"] for row in done.rows] == ["index"] * 4
    assert run("store", "ls", str(golden.store("v533")), "-o", "table").out.startswith("FILE")


def test_the_same_store_twice(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    base = str(golden.store("rebuild-base"))
    assert run("store", "diff", base, str(store)).code == 0
    assert run("store", "diff", base, str(store), "--files").code == 0


def test_a_difference_is_exit_1(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    sorted((store / "commitlog").iterdir())[-1].unlink()
    done = run("store", "diff", str(golden.store("rebuild-base")), str(store), "-o", "jsonl")
    assert done.code == 1
    assert "the stores differ" in done.err
    assert done.rows[0]["right"] == "missing"
