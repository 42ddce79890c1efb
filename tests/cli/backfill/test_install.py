"""`backfill install` replaces a store's views by ones that fit its log, and by no others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli.backfill.conftest import build
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import views

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.readline()
"""


def install(built: Path, store: Path, *options: str) -> tuple[int, str]:
    done = run("backfill", "install", str(built), "--store", str(store), *options)
    return done.code, done.err


def spoil_index(store: Path) -> None:
    for path in (store / "index").iterdir():
        path.write_bytes(path.read_bytes()[:-4] + b"oops")


def test_without_yes_nothing_is_done(built: Path, store: Path) -> None:
    before = views(store)
    code, told = install(built, store)
    assert (code, views(store)) == (4, before)
    assert "add --yes" in told


def test_spoilt_views_are_replaced(built: Path, store: Path, golden: GoldenStores) -> None:
    shutil.rmtree(store / "consumequeue")
    (store / "consumequeue").mkdir()
    spoil_index(store)
    params = golden.manifest("rebuild-base")["params"]
    sizes = ("--set", f"mappedFileSizeConsumeQueue={params['mappedFileSizeConsumeQueue']}")
    code, told = install(built, store, "--yes", *sizes)
    assert (code, told) == (0, "")
    assert views(store) == views(golden.store("rebuild-base"))
    assert views(built) == views(store)
    assert not (store / "pocketmq" / "rebuild").exists()


def test_old_views_can_be_kept(built: Path, store: Path) -> None:
    assert install(built, store, "--yes", "--keep-old")[0] == 0
    (kept,) = (store / "pocketmq" / "replaced").iterdir()
    assert views(kept) == views(store)


def test_a_store_in_use_is_left_alone(built: Path, store: Path) -> None:
    before = views(store)
    (store / "lock").write_bytes(b"lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(store / "lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        code, told = install(built, store, "--yes")
        holder.communicate(b"\n")
    assert (code, views(store)) == (4, before)
    assert f"is in use by process {holder.pid} (" in told


def test_views_that_end_before_the_log_are_refused(
    built: Path, store: Path, golden: GoldenStores
) -> None:
    records = golden.manifest("rebuild-base")["records"]
    shutil.rmtree(built)
    build(golden, store, built, upto=records[-3]["phy"])
    code, told = install(built, store, "--yes")
    assert code == 4
    assert f"the log has records after {records[-3]['phy']}" in told
    assert f"pocketmq backfill run {store} --out {built}" in told


def test_views_of_another_store_are_refused(
    built: Path, golden: GoldenStores, tmp_path: Path
) -> None:
    other = golden.copy("v533", tmp_path / "other")
    code, told = install(built, other, "--yes")
    assert code == 4
    assert "pocketmq backfill run" in told


def test_views_of_a_log_that_was_written_to_are_checked_first(built: Path, store: Path) -> None:
    os.utime(min((store / "commitlog").iterdir()))
    code, told = install(built, store, "--yes")
    assert code == 0
    assert "checking the views against the log" in told


def test_views_that_are_not_what_was_built_are_refused(built: Path, store: Path) -> None:
    before = views(store)
    spoil_index(built)
    code, told = install(built, store, "--yes")
    assert (code, views(store)) == (10, before)
    assert "differ from the manifest" in told
    assert not (store / "pocketmq" / "rebuild").exists()
