"""`pocketmq store ls` and `diff` on the command line."""

import asyncio
import os
import shutil
from pathlib import Path

from tests.cli.command_line import Ran, run
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import LogBytes
from tests.kit.store_language import store_at


def test_files_are_listed(golden: GoldenStores) -> None:
    done = run("store", "ls", str(golden.store("v533")), "--kind", "index", "-o", "jsonl")
    assert done.code == 0
    assert [row["kind"] for row in done.rows] == ["index"] * 4
    table = run("store", "ls", str(golden.store("v533")), "-o", "table").out.splitlines()
    assert table[0].split() == [
        "PATH", "KIND", "SIZE", "ALLOCATED", "BEGIN", "END", "FIRST_STORED", "LAST_STORED", "NOTE",
    ]  # fmt: skip
    paths = {path for path in golden.store("v533").rglob("*") if path.is_file()}
    assert len(table) == 1 + len(paths)


def test_files_are_listed_where_the_index_tells_no_geometry(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("v533", tmp_path / "s")
    for path in (store / "index").iterdir():
        path.write_bytes(b"x" * 1234)
    done = run("store", "ls", str(store), "--kind", "index", "-o", "jsonl")
    assert done.code == 0
    assert {row["note"] for row in done.rows} == {"its header is invalid"}
    assert "Note: " in done.err
    assert "set maxHashSlotNum and maxIndexNum" in done.err


def test_damaged_times_and_names_can_be_printed(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    path = min((store / "index").iterdir())
    with path.open("r+b") as file:
        file.write(b"\x7f" * 16)
    Path(os.fsdecode(os.fsencode(store / "commitlog") + b"/\xff")).touch()
    for output in ("table", "json", "jsonl"):
        done = run("store", "ls", str(store), "-o", output)
        assert done.code == 0
        assert "unexpected name" in done.out


def differences(*arguments: object) -> Ran:
    return run("store", "diff", *map(str, arguments), "-o", "jsonl")


def test_the_same_store_twice(golden: GoldenStores, tmp_path: Path) -> None:
    store, base = golden.copy("rebuild-base", tmp_path / "s"), golden.store("rebuild-base")
    for option in ((), ("--messages",), ("--files",), ("--views",), ("--messages", "--views")):
        done = differences(base, store, *option)
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_difference_is_exit_1(golden: GoldenStores, tmp_path: Path) -> None:
    store, base = golden.copy("rebuild-base", tmp_path / "s"), golden.store("rebuild-base")
    max((store / "commitlog").iterdir()).unlink()
    done = differences(base, store)
    assert done.code == 1
    assert "the stores differ" in done.err
    assert {row["part"] for row in done.rows} == {"queue", "message", "file"}
    assert {row["part"] for row in differences(base, store, "--files").rows} == {"file"}
    assert differences(base, store, "--views").code == 0
    table = run("store", "diff", str(base), str(store), "-o", "table").out
    assert table.split()[:5] == ["PART", "WHERE", "WHAT", "LEFT", "RIGHT"]


def test_what_lies_elsewhere_in_the_log_is_the_same_message(tmp_path: Path) -> None:
    for side, order in (("a", (0, 1)), ("b", (1, 0))):
        log = LogBytes(tmp_path / side)
        for queue_id in order:
            log.add("T", queue_id)
        log.close()
    sides = (tmp_path / "a", tmp_path / "b")
    assert differences(*sides, "--messages").code == 0
    assert {row["what"] for row in differences(*sides).rows} == {"physical_offset", "byte 15"}


def test_damage_is_exit_10(golden: GoldenStores) -> None:
    base, damaged = golden.store("crash-kill.after"), golden.store("crash-flip.before")
    done = differences(base, damaged, "--messages")
    assert done.code == 10
    assert "Damage: " in done.err
    assert f"Next:  pocketmq store verify {damaged}\n" in done.err


def test_tables_are_compared(golden: GoldenStores, tmp_path: Path) -> None:
    store, base = golden.copy("semantics", tmp_path / "s"), golden.store("semantics")
    path = store / "config/topics.json"
    path.write_text(path.read_text().replace('"perm":6', '"perm":4', 1))
    assert [row["part"] for row in differences(base, store).rows] == ["table"]


def test_a_copy_without_views_is_told_of(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    assert run("store", "backup", str(store), str(tmp_path / "b")).code == 0
    done = run("store", "diff", str(store), str(tmp_path / "b"), "--views")
    assert done.code == 1
    assert f"Note: {tmp_path / 'b'} has no queues and no index" in done.err
    assert "no queues" not in run("store", "diff", str(store), str(store), "--views").err


def test_views_alone_need_no_log(golden: GoldenStores, tmp_path: Path) -> None:
    store, base = golden.copy("rebuild-base", tmp_path / "s"), golden.store("rebuild-base")
    for path in (store / "commitlog").iterdir():
        path.unlink()
    assert differences(base, store, "--views").code == 0


async def test_a_store_in_use_is_compared_up_to_what_is_flushed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a")
        await store.settled()
        # Closing a copy of the lock would give it back; the draft may become a file meanwhile.
        left_out = shutil.ignore_patterns("lock", "*.draft")
        shutil.copytree(store.directory, tmp_path / "copy", ignore=left_out)
        command = ("store", "diff", str(store.directory), str(tmp_path / "copy"))
        refused = await asyncio.to_thread(run_elsewhere, *command)
        assert refused.code == 4
        looked = await asyncio.to_thread(run_elsewhere, *command, "--messages", "--read-only")
        assert looked.code == 0
        assert "is in use: records that begin below" in looked.err


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    assert differences(tmp_path, tmp_path / "none").code == 3
