"""Pending messages in a real broker's store are those it was to deliver."""

import json
from collections import Counter
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.tools.pending.listing import LEASE, LEVEL, TIMER, pending_messages
from tests.golden_stores import GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

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
