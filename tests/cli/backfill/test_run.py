"""`backfill plan` shows what `backfill run` does; neither hides damage."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.backfill.conftest import Started
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import views

UTC = ("--time-zone", "UTC")


def test_a_run_builds_rocketmqs_files(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    store = golden.store("basic")
    done = run("backfill", "run", str(store), "--out", str(tmp_path / "out"), *UTC)
    assert done.code == 0
    assert views(tmp_path / "out") == views(store)
    assert done.document["records"] == len(golden.manifest("basic")["records"])
    assert done.document["files"] == len([p for p in views(store) if p])
    assert (started.masters, started.stopped) == ([""], 1)


def test_spark_is_started_as_told(golden: GoldenStores, tmp_path: Path, started: Started) -> None:
    out = ("--out", str(tmp_path / "out"))
    spark = ("--master", "local[3]", "--partitions", "5", "--conf", "spark.a=b=c")
    assert run("backfill", "run", str(golden.store("v533")), *out, *spark, *UTC).code == 0
    assert (started.masters, started.partitions) == (["local[3]"], [5])
    assert started.settings == {"spark.a": "b=c"}
    assert views(tmp_path / "out") == views(golden.store("v533"))


def test_a_plan_tells_what_a_run_finds(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    arguments = (str(golden.store("basic")), "--out", str(tmp_path / "out"), *UTC)
    before = run("backfill", "plan", *arguments, "--partitions", "2")
    assert before.code == 0
    document = before.document
    assert len(document["ranges"]) == 20
    assert 0 <= document["rebuild_seconds"] < document["spark_seconds"]
    assert document["log_bytes"] == document["upto"] == sum(r["bytes"] for r in document["ranges"])
    assert 0 < document["needed_bytes"] < document["free_bytes"]
    assert not (tmp_path / "out").exists()
    assert started.masters == []
    run("backfill", "run", *arguments)
    after = run("backfill", "plan", *arguments)
    assert all(part["reused"] for part in after.document["ranges"])
    assert "a run would do nothing" in after.err
    other = run("backfill", "plan", *arguments, "--compat", "5.3")
    assert other.document["is_cleared"]
    assert "would be removed" in other.err


def test_a_plan_for_people_is_short(golden: GoldenStores, tmp_path: Path) -> None:
    store, out = str(golden.store("basic")), str(tmp_path / "out")
    cuts = ("--piece-size", "64KiB")
    done = run("backfill", "plan", store, "--out", out, *cuts, "-o", "table")
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert lines["ranges"].startswith("38, ")
    assert "are free" in lines["disk"]
    assert "s by store rebuild" in lines["time"]
    assert lines["quicker"] == f"pocketmq store rebuild {store} --out {out}"


def test_damage_ends_a_run_unless_it_is_accepted(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    store, out = str(golden.store("crash-flip.before")), str(tmp_path / "out")
    arguments = ("backfill", "run", store, "--out", out, "--check-crc")
    refused = run(*arguments)
    assert refused.code == 10
    assert "the CRC of its body is wrong" in refused.err
    assert "is damaged at byte" in refused.err
    accepted = run(*arguments, "--accept-damage")
    assert (accepted.code, accepted.document["holes"]) == (0, 1)
    assert "Damage: " in accepted.err


def test_a_torn_tail_is_noted(golden: GoldenStores, tmp_path: Path, started: Started) -> None:
    store = str(golden.store("crash-torn.before"))
    done = run("backfill", "run", store, "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert "Note: after the last record, at" in done.err


def test_too_little_room_is_noted(
    golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    done = run("backfill", "plan", str(golden.store("basic")), "--out", str(tmp_path / "out"))
    assert "more than the free space" in done.err


def test_an_address_is_refused_in_one_line(golden: GoldenStores, tmp_path: Path) -> None:
    store = str(golden.store("basic"))
    for words in (("s3a://b/s", "--out", str(tmp_path / "o")), (store, "--out", "hdfs://n/v")):
        for command in ("plan", "run"):
            done = run("backfill", command, *words)
            assert done.code == 4
            assert "it is an address, and only directories" in done.err
            assert "mount it on every worker" in done.err
            assert "Traceback" not in done.err
    assert not Path("hdfs:").exists()
