"""`pocketmq store verify`: findings as rows or one document, exit 10, and what to do next."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.log.checkpoint import FlushedMark
from tests.cli.command_line import run
from tests.cli.store.other_process import run_elsewhere
from tests.golden_stores import GoldenStores
from tests.kit.store_language import store_at


def test_a_sound_store(golden: GoldenStores) -> None:
    done = run("store", "verify", str(golden.store("v533")))
    assert done.code == 0
    assert done.document["findings"] == []
    assert done.document["verdict"] == "The store is sound"
    assert done.document["is_sound"]
    assert done.document["summary"]["records"] == 1441
    assert "Checked 1441 records" in done.err


def test_a_store_without_its_topic_table_is_called_so(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("crash-kill.after", tmp_path / "s")
    for path in (store / "config").glob("topics.json*"):
        path.unlink()
    done = run("store", "verify", str(store), "-o", "table")
    assert done.code == 0
    assert done.out.splitlines()[0] == (
        "The store is sound, but its topic table is absent: see the note"
    )


def test_findings_and_the_exit_code(golden: GoldenStores) -> None:
    store = str(golden.store("crash-flip.before"))
    done = run("store", "verify", store, "-o", "jsonl")
    assert done.code == 10
    (finding,) = done.rows
    assert finding == {
        "kind": "record", "file": "commitlog/00000000000000393216", "offset": 30807,
        "expected": "a valid record", "found": "the CRC of its body is wrong, 304 bytes",
        "repairable": True, "count": 1,
        "lost": [{"topic": "CrashTopic", "queue_id": 1, "first": 96, "messages": 1}],
    }  # fmt: skip
    assert "pocketmq store repair" in done.err
    assert run("store", "verify", store, "--no-crc").code == 0
    lines = run("store", "verify", store, "-o", "table").out.splitlines()
    assert lines[:2] == [
        "The store is damaged: 1 message is lost", "  lost: CrashTopic:1 from offset 96 on: 1",
    ]  # fmt: skip
    assert lines[2].split()[:4] == ["KIND", "COUNT", "LOST", "FILE"]
    assert lines[3].split()[:3] == ["record", "1", "1"]
    document = run("store", "verify", store).document
    assert [*document][:4] == ["verdict", "is_sound", "messages_lost", "lost"]
    assert (document["messages_lost"], document["lost"]) == (1, finding["lost"])


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
    lacking = str(golden.store("rebuild-all.after"))
    done = run("store", "verify", store, "--views", lacking, "--max-findings", "3", *sizes)
    assert done.code == 10
    assert len(done.document["findings"]) == 3
    assert "Only the first 3 rows" in done.err
    assert "No message is lost" in done.document["verdict"]


def test_absent_views_are_told_with_exit_0(golden: GoldenStores) -> None:
    done = run("store", "verify", str(golden.store("rebuild-one-queue.before")), "-o", "table")
    assert done.code == 0
    verdict, _, row = done.out.splitlines()
    assert verdict == "The store is sound; the next start builds the absent views"
    assert "no file: built at the next start" in row


def test_without_a_file_of_the_log_the_loss_and_the_way_on_come_first(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("v533", tmp_path / "s")
    sorted((store / "commitlog").iterdir())[3].unlink()
    done = run("store", "verify", str(store))
    assert done.code == 10
    assert done.document["findings"][0]["kind"] == "missing_file"
    assert done.document["messages_lost"] > 0
    assert f"pocketmq store repair {store} --accept-loss" in done.err


def test_lost_records_have_a_next_step(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    (store / "pocketmq").mkdir()
    mark = FlushedMark(Disk(), store / "pocketmq")
    mark.open()
    mark.write(
        10**8, (store / "checkpoint").read_bytes()[: len(encode_checkpoint(CheckpointValues()))]
    )
    mark.close()
    done = run("store", "verify", str(store))
    document = done.document
    assert "lost_records" in document["summary"]["counts"]
    assert (
        "Note: lost_records: no repair restores these records; `store repair` ends the log at "
        f"{document['summary']['log_end']}, before them"
    ) in done.err
    assert "no repair restores" not in run("store", "verify", str(golden.store("v533"))).err


def test_each_finding_has_a_row_where_that_is_asked_for(golden: GoldenStores) -> None:
    store = str(golden.store("crash-behind.before"))
    folded, each = run("store", "verify", store), run("store", "verify", store, "--each")
    assert len(folded.document["findings"]) < 20
    assert len(each.document["findings"]) > 400
    assert folded.document["summary"]["counts"] == each.document["summary"]["counts"]


async def test_of_a_store_in_use_units_that_wait_are_none_that_lack(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "a", "b")
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
        assert "is in use: records that begin below" in done.err
        assert "Checked 2 records" in done.err


@pytest.mark.parametrize("earlier", [(), ("first",)])
async def test_a_store_whose_records_are_not_checked_yet_is_not_called_sound(
    tmp_path: Path, earlier: tuple[str, ...]
) -> None:
    directory = tmp_path / "s"
    command = ("store", "verify", str(directory), "--read-only")
    async with store_at(directory) as store:
        for body in earlier:
            await store.send("T", body)
    async with store_at(directory) as store:
        assert (await asyncio.to_thread(run_elsewhere, *command)).code == 0
        for body in "abcd":
            await store.send("T", body)
        await store.settled()
        await store.store.flush()
        done = await asyncio.to_thread(run_elsewhere, *command)
    assert done.code == 1
    assert not done.document["is_sound"]
    assert done.document["verdict"].startswith("The store was not checked: its records are beyond")
    assert "Next:  the same command in ten seconds" in done.err
