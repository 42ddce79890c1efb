"""Pending messages in a real broker's store are those it was to deliver."""

import json
from collections import Counter

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
