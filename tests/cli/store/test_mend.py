"""`pocketmq store repair`: a plan first, then a store that verify has nothing to say of."""

import json
from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_the_plan_changes_nothing(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("crash-flip.before", tmp_path / "s")
    log = {path.name: path.read_bytes() for path in (store / "commitlog").iterdir()}
    done = run("store", "repair", str(store), "-o", "table")
    assert done.code == 10
    assert "at 424023, 304 bytes" in done.out
    assert "add --yes" in done.err
    assert {path.name: path.read_bytes() for path in (store / "commitlog").iterdir()} == log


def test_it_mends_and_writes_a_report(golden: GoldenStores, tmp_path: Path) -> None:
    store, report = golden.copy("crash-flip.before", tmp_path / "s"), tmp_path / "report.json"
    done = run("store", "repair", str(store), "--yes", "--report", str(report))
    assert done.code == 0
    assert json.loads(report.read_text())
    assert run("store", "verify", str(store)).code == 0
    assert list((store / "pocketmq/quarantine").rglob("*@*424023*"))


def test_a_sound_store_needs_nothing(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    assert run("store", "repair", str(store)).code == 0
