"""`pocketmq store verify`: findings as rows or one document, exit 10, and what to do next."""

import asyncio
from pathlib import Path

from tests.cli.command_line import run
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.store_language import store_at


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


async def test_of_a_store_in_use_units_that_wait_are_none_that_lack(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        for body in "abcd":
            await store.send("T", body)
            await store.settled()
        await store.store.flush()
        (queue,) = store.store.views.queues.queues.values()
        assert queue.buffer.size_bytes
        command = ("store", "verify", str(store.directory), "--read-only")
        done = await asyncio.to_thread(run_elsewhere, *command)
        assert done.code == 0
        assert "is in use: records below" in done.err
