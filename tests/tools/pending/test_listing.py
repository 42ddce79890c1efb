"""Pending messages in a real broker's store are those it was to deliver."""

import json
from collections import Counter
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.model.batch import Destination, Run
from pocketmq.model.message import (
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DELETE,
    TIMER_OUT,
    TIMER_OUT_NOW,
    TIMER_ROLLS,
    UNIQUE_KEY,
)
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.rebuild.log_files import KnownShape, find_readable_files
from pocketmq.tools.pending.listing import pending_messages
from pocketmq.tools.pending.timers import LEASE, LEVEL, TIMER, timer_rows
from tests.golden_stores import GoldenStores
from tests.kit.rows import batch
from tests.kit.store_language import STORE_HOST, put_row, small_settings, store_at
from tests.kit.tool_sizes import golden_tool_sizes, shape_of

DUE_MS = 1_900_000_000_000
READ_MS = 1_795_221_494_000
"""Up to when the store's timer delivered."""


def test_messages_that_a_real_broker_was_to_deliver(golden: GoldenStores) -> None:
    store = golden.store("semantics")
    found = list(pending_messages(Disk(), store, golden_tool_sizes(golden, "semantics")))
    waiting = Counter(row.topic for row in found if row.kind != LEVEL)
    counts = json.loads((store / "config" / "timermetrics").read_text())["timingCount"]
    wanted = {topic: row["count"] for topic, row in counts.items()}
    wanted["TimerT"] += 1  # Its recall counts -1, and looks in another slot than the message's.
    assert waiting == wanted
    assert {row.kind for row in found} == {TIMER, LEVEL, LEASE}
    assert all(row.due_timestamp_ms >= READ_MS for row in found)


def test_each_has_the_place_and_time_of_its_record(golden: GoldenStores) -> None:
    store = golden.store("semantics")
    records = {record["phy"]: record for record in golden.manifest("semantics")["records"]}
    for row in pending_messages(Disk(), store, golden_tool_sizes(golden, "semantics")):
        record = records[row.physical_offset]
        properties = record["properties"]
        assert (row.topic, row.queue_id) == (properties["REAL_TOPIC"], int(properties["REAL_QID"]))
        assert (row.queue_offset, row.message_id) == (record["queueOffset"], properties["UNIQ_KEY"])
        if record["topic"] == TIMER_TOPIC:
            assert row.due_timestamp_ms == int(properties["TIMER_OUT_MS"])
        else:
            assert row.due_timestamp_ms == record["tagsCode"]


def test_delay_offsets_that_a_start_ignores_hide_no_message(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("semantics", tmp_path / "s")
    path = store / "config" / "delayOffset.json"
    sizes = golden_tool_sizes(golden, "semantics")

    def waiting(offsets: str) -> int:
        path.write_text('{"offsetTable":' + offsets + "}")
        return sum(row.kind == LEVEL for row in pending_messages(Disk(), store, sizes))

    levels = range(1, 19)
    of_all = waiting("{}")
    assert of_all > waiting("{" + ",".join(f"{n}:1" for n in levels) + "}")
    for odd in ("true", "1e3", f"{2**63}", '"5"'):
        path.with_name("delayOffset.json.bak").unlink(missing_ok=True)
        assert waiting("{" + ",".join(f"{n}:{odd}" for n in levels) + "}") == of_all
    path.with_name("delayOffset.json.bak").write_text('{"offsetTable":{1:99}}')
    assert waiting("[]") == waiting("{1:99}")


def timed(*messages: dict[str, str]) -> Run:
    made = batch(*(put_row("x") for _ in messages))
    real = {REAL_TOPIC: "orders", REAL_QUEUE: "0", TIMER_OUT: str(DUE_MS)}
    pairs = [{**real, **message}.items() for message in messages]
    blocks = ["".join(f"{name}\x01{text}\x02" for name, text in its).encode() for its in pairs]
    made.property_blocks[:] = blocks
    return Destination(TIMER_TOPIC, 0, STORE_HOST), made


async def stored(directory: Path, run: Run) -> KnownShape:
    async with store_at(directory) as store:
        await store.store.writing.put([run])
        await store.settled()
    return shape_of(small_settings(directory))


async def test_timer_records_wait_as_the_timer_itself_reads_them(tmp_path: Path) -> None:
    rolled = {TIMER_OUT_NOW: str(DUE_MS + 60_000), TIMER_ROLLS: "1"}
    run = timed(
        {UNIQUE_KEY: "waits"},
        {UNIQUE_KEY: "gone", TIMER_OUT: str(DUE_MS + 100)},
        {TIMER_DELETE: "gone", TIMER_OUT: str(DUE_MS + 900)},
        {UNIQUE_KEY: "of no other", TIMER_DELETE: ""},
        {UNIQUE_KEY: "another second", TIMER_OUT: str(DUE_MS + 1_100)},
        {TIMER_DELETE: "another second"},
        {UNIQUE_KEY: "moved", **rolled},
    )
    shape = await stored(tmp_path / "s", run)
    found = {row.message_id: row for row in pending_messages(Disk(), tmp_path / "s", shape)}
    assert [*found] == ["waits", "of no other", "another second", "moved"]
    assert found["waits"].due_timestamp_ms == DUE_MS
    assert found["moved"].due_timestamp_ms == DUE_MS + 60_000
    files, _ = find_readable_files(tmp_path / "s", shape.commit_log_file_size_bytes)
    (rows,) = timer_rows(Disk(), tmp_path / "s", shape, files)
    assert rows["is_marker"].tolist() == [False, False, True, False, False, True, False]
    assert (rows["due_ms"] - rows["out_ms"]).tolist() == [0, 0, 0, 0, 0, 0, 60_000]
