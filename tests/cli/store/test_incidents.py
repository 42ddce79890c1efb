"""Commands on a damaged store, or a wrong directory, report the fault and a step that helps."""

from pathlib import Path

import pytest

from pocketmq.format.names import COMMIT_LOG_DIRECTORY, TIMER_LOG_DIRECTORY
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores

LOG_FILE = "00000000000000524288"
"""A file in the middle of the log of `rebuild-base`."""


def without_a_file(golden: GoldenStores, to: Path) -> Path:
    store = golden.copy("rebuild-base", to)
    (store / COMMIT_LOG_DIRECTORY / LOG_FILE).unlink()
    return store


@pytest.mark.parametrize("command", ["verify", "repair", "info", "dump", "stats", "rebuild"])
def test_an_empty_directory_is_no_sound_store(tmp_path: Path, command: str) -> None:
    done = run("store", command, str(tmp_path))
    assert done.code == 3
    assert f"{tmp_path} is empty: there is no store in it" in done.err
    assert "mount its disk" in done.err
    assert not [*tmp_path.iterdir()]


def test_a_dump_of_a_damaged_log_names_the_command_that_shows_the_way(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = without_a_file(golden, tmp_path / "s")
    done = run("store", "dump", str(store), "-o", "jsonl")
    assert (done.code, len(done.rows) > 900) == (10, True)
    assert f"pocketmq store verify {store}" in done.err


def test_a_file_that_is_too_long_is_not_given_up(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    file = store / COMMIT_LOG_DIRECTORY / LOG_FILE
    size = file.stat().st_size
    with file.open("ab") as end:
        end.write(b"more")
    done = run("store", "repair", str(store), "--yes")
    assert done.code == 10
    assert f"has {size + 4} bytes, expected {size}" in done.err
    assert "without --yes shows the needed files" in done.err
    assert "gives up" not in done.err
    assert f"truncate -s {size} {file}" in run("store", "repair", str(store)).err


def test_a_store_that_lacks_a_file_of_its_log_is_described(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = without_a_file(golden, tmp_path / "s")
    done = run("store", "info", str(store))
    assert done.code == 10
    log = done.document["commit_log"]
    assert (log["files"], log["min_offset"]) == (16, 0)
    assert [(gap["begin"], gap["end"]) for gap in log["missing"]] == [(524288, 589824)]
    assert f"{LOG_FILE} at 524288: the file is missing" in done.err
    assert f"pocketmq store verify {store}" in done.err


def test_a_store_is_no_backup_and_the_way_to_a_copy_is_named(
    golden: GoldenStores, tmp_path: Path
) -> None:
    done = run("store", "restore", str(golden.store("basic")), str(tmp_path / "new"))
    assert done.code == 4
    assert "is a store, but no finished backup" in done.err
    assert "cp -a" in done.err
    assert not (tmp_path / "new").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    done = run("store", "restore", str(tmp_path / "other"), str(tmp_path / "new"))
    assert (done.code, "is a store" in done.err) == (4, False)


def test_a_log_elsewhere_is_not_called_lost(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    (store / COMMIT_LOG_DIRECTORY).rename(tmp_path / "log")
    done = run("store", "verify", str(store), "-o", "table")
    assert done.code == 10
    assert done.out.startswith("The log is not here")
    assert f"move the files of the log to {store}/commitlog" in done.err
    assert "store repair" not in done.err


def test_delayed_messages_hidden_by_damage_are_reported(
    golden: GoldenStores, tmp_path: Path
) -> None:
    sound = run("store", "dump", str(golden.store("semantics")), "--timers", "-o", "jsonl")
    store = golden.copy("semantics", tmp_path / "s")
    file = min((store / TIMER_LOG_DIRECTORY).iterdir())
    with file.open("r+b") as opened:
        opened.seek(200)
        opened.write(bytes(200))
    done = run("store", "dump", str(store), "--timers", "-o", "jsonl")
    assert (sound.code, done.code) == (0, 10)
    assert len(done.rows) < len(sound.rows)
    assert "delayed messages may be missing above" in done.err
    assert f"pocketmq store verify {store}" in done.err
    found = run("store", "verify", str(store), "-o", "table")
    assert found.out.startswith("No message is lost; files of delayed messages are damaged")
