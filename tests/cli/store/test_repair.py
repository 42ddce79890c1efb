"""`pocketmq store repair`: a plan unless told to do it, exit 10 while anything is damaged."""

import json
from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below


def test_the_plan_comes_first(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("crash-flip.before", tmp_path / "s")
    before = files_below(store)
    done = run("store", "repair", str(store))
    assert done.code == 10
    (row,) = done.document["log"]
    assert (row["begin"], row["bytes"]) == (424_023, 304)
    assert done.document["messages_lost"] == 1
    assert "add --yes" in done.err
    assert files_below(store) == before


def test_then_it_is_done(golden: GoldenStores, tmp_path: Path) -> None:
    store, report = golden.copy("crash-flip.before", tmp_path / "s"), tmp_path / "report.json"
    done = run("store", "repair", str(store), "--yes", "--report", str(report), "-o", "table")
    assert done.code == 0
    assert (
        "(physical offset 424023), 304 bytes: the CRC of its body is wrong: filler records"
        in done.out
    )
    assert "pocketmq/quarantine/" in done.err
    written = json.loads(report.read_bytes())
    assert written["is_sound"]
    assert written["summary"] == done.out.splitlines()
    assert run("store", "verify", str(store)).code == 0
    again = run("store", "repair", str(store), "--yes")
    assert again.code == 0
    assert again.document["state"] == "nothing to do"
    assert "The store has no findings" in again.err


def test_a_sound_store(golden: GoldenStores) -> None:
    done = run("store", "repair", str(golden.store("v533")))
    assert done.code == 0
    assert done.document["log"] == []
    assert "The store has no findings" in done.err


def test_what_comes_back_from_a_copy_only(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    missing = sorted((store / "commitlog").iterdir())[3]
    missing.unlink()
    done = run("store", "repair", str(store))
    assert done.code == 10
    assert done.document["not_repairable"][0]["file"] == f"commitlog/{missing.name}"
    assert "from a backup" in done.err
    assert f"pocketmq store repair {store} --accept-loss" in done.err
    lost = done.document["messages_lost"]
    assert lost > 0
    done = run("store", "repair", str(store), "--yes")
    assert done.code == 10
    assert "a file is missing before it" in done.err
    before = files_below(store)
    done = run("store", "repair", str(store), "--accept-loss", "-o", "table")
    assert done.code == 10
    assert done.out.splitlines()[0] == f"messages lost: {lost}"
    assert "add --yes" in done.err
    assert files_below(store) == before
    done = run("store", "repair", str(store), "--accept-loss", "--yes")
    assert (done.code, done.document["messages_lost"]) == (0, lost)
    done = run("store", "verify", str(store))
    assert done.code == 0
    assert "messages are missing since an earlier repair" in done.document["verdict"]


def test_what_no_repair_mends_is_told(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    path = sorted((store / "commitlog").iterdir())[0]
    content = bytearray(path.read_bytes())
    content[40:48] = b"\x80" * 8  # the first record's born time
    path.write_bytes(content)
    for options in ([], ["--yes"]):
        done = run("store", "repair", str(store), *options)
        assert done.code == 10
        assert done.document["left_as_it_is"][0]["kind"] == "born_time"
        assert "a start serves these messages as they are" in done.err


def test_wrong_use(golden: GoldenStores) -> None:
    assert run("store", "repair", str(golden.store("v533")), "--yes", "--read-only").code == 2
