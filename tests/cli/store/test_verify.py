"""`pocketmq store verify`: findings as rows or one document, exit 10, and what to do next."""

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores


def test_a_sound_store(golden: GoldenStores) -> None:
    done = run("store", "verify", str(golden.store("v533")))
    assert done.code == 0
    assert done.document["findings"] == []
    assert done.document["summary"]["records"] == 1441
    assert "Checked 1441 records" in done.err


def test_findings_and_the_exit_code(golden: GoldenStores) -> None:
    store = str(golden.store("crash-flip.before"))
    done = run("store", "verify", store, "-o", "jsonl")
    assert done.code == 10
    (finding,) = done.rows
    assert finding == {
        "kind": "record", "file": "commitlog/00000000000000393216", "offset": 30807,
        "expected": "a sound record", "found": "the CRC of its body is wrong, 304 bytes",
        "repairable": True,
    }  # fmt: skip
    assert "pocketmq store repair" in done.err
    assert run("store", "verify", store, "--no-crc").code == 0
    assert run("store", "verify", store, "-o", "table").out.startswith("KIND")


def test_views_of_another_directory(golden: GoldenStores) -> None:
    store, base = str(golden.store("rebuild-all.before")), str(golden.store("rebuild-base"))
    # KnownShape that no file shows any more are given.
    params = golden.manifest("rebuild-base")["params"]
    sizes = (
        "--set", f"maxHashSlotNum={params['maxHashSlotNum']}",
        "--set", f"maxIndexNum={params['maxIndexNum']}",
        "--set", f"mappedFileSizeConsumeQueue={params['mappedFileSizeConsumeQueue']}",
    )  # fmt: skip
    assert run("store", "verify", store, "--views", base, *sizes).code == 0
    done = run("store", "verify", store, "--max-findings", "3", *sizes)
    assert done.code == 10
    assert len(done.document["findings"]) == 3
    assert "Only the first 3 findings" in done.err
