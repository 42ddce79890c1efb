"""`backfill verify` finds every wrong byte; `backfill status` shows a run from outside."""

from pathlib import Path

from tests.cli.backfill.conftest import Started
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def spoil(out: Path) -> Path:
    path = min(path for path in (out / "consumequeue").rglob("*") if path.is_file())
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    return path


def test_what_was_built_is_as_its_manifest_says(built: Path, golden: GoldenStores) -> None:
    store = str(golden.store("rebuild-base"))
    done = run("backfill", "verify", str(built), "--store", store, "--against", store)
    assert (done.code, done.document) == (0, [])
    count = len(golden.manifest("rebuild-base")["records"])
    assert f"Checked {count} units and" in done.err


def test_a_wrong_byte_is_found_in_each_way(built: Path, golden: GoldenStores) -> None:
    store = str(golden.store("rebuild-base"))
    path = spoil(built).relative_to(built).as_posix()
    plain = run("backfill", "verify", str(built), "-o", "jsonl")
    assert plain.code == 10
    assert [(row["kind"], row["file"]) for row in plain.rows] == [("sha256", path)]
    compared = run("backfill", "verify", str(built), "--against", store, "-o", "jsonl")
    assert [row["kind"] for row in compared.rows] == ["sha256", "content"]
    checked = run("backfill", "verify", str(built), "--store", store, "-o", "jsonl")
    assert checked.code == 10
    assert len(checked.rows) >= 2
    assert "pocketmq backfill run" in checked.err


def test_files_may_be_read_by_sparks_workers(built: Path, started: Started) -> None:
    assert run("backfill", "verify", str(built), "--master", "local[2]").code == 0
    assert started.masters == ["local[2]"]
    assert run("backfill", "verify", str(built)).code == 0
    assert len(started.masters) == 1
    assert run("backfill", "verify", str(built), PYSPARK_GATEWAY_PORT="1").code == 0
    assert started.masters[1:] == [""]


def test_only_a_finished_run_can_be_checked(tmp_path: Path) -> None:
    done = run("backfill", "verify", str(tmp_path))
    assert done.code == 3
    assert "pocketmq backfill status" in done.err


def test_the_state_of_a_run(built: Path, tmp_path: Path) -> None:
    document = run("backfill", "status", str(built)).document
    assert (document["phase"], document["is_running"]) == ("complete", False)
    assert document["ranges_finished"] == document["range_count"]
    assert run("backfill", "status", str(built), "-o", "table").out.startswith("out ")
    nothing = run("backfill", "status", str(tmp_path / "none"))
    assert nothing.code == 3
    assert "pocketmq backfill run DIR" in nothing.err
