"""Units, entries, sizes and lag of a store are those that a real broker tells."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.addresses import offset_message_id
from pocketmq.format.index_layout import IndexGeometry, index_key, key_hash
from pocketmq.format.java_hash import java_hash
from pocketmq.model.errors import WrongFileSize
from pocketmq.model.message import StoredMessage
from pocketmq.tools.dump import index_rows, queue_units
from pocketmq.tools.inspect import Description, describe
from pocketmq.tools.lag import GroupLag, group_lags, queue_ranges, ranges_in_log
from pocketmq.tools.selection import LogSearch
from tests.golden_stores import NAMES, GoldenStores
from tests.kit.log_bytes import LogBytes, golden_files
from tests.kit.store_language import small_settings, store_at
from tests.kit.tool_sizes import golden_tool_sizes, known_shape, shape_of
from tests.store.recovery.test_lost_head import FILE_SIZE, filled, log_file

SOUND = [name for name in NAMES if not name.startswith(("crash-", "clean-torn"))]


def as_manifest(message: StoredMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "size": message.store_size,
        "msgId": offset_message_id(message.store_host, message.physical_offset),
        "sysFlag": message.system_flag,
        "flag": message.flag,
        "bodyCRC": message.body_crc,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "plainBodySha1": hashlib.sha1(message.body).hexdigest(),
    }


@pytest.mark.parametrize("name", SOUND)
def test_every_record_is_shown_as_rocketmq_shows_it(golden: GoldenStores, name: str) -> None:
    walk = LogSearch(golden_files(golden, name))
    shown = [as_manifest(message) for message in walk.messages()]
    records = golden.manifest(name)["records"]
    expected = [{"plainBodySha1": record["bodySha1"], **record} for record in records]
    fields = set(shown[0])
    assert shown == [{k: v for k, v in record.items() if k in fields} for record in expected]
    assert walk.end == golden.manifest(name)["lastRecordEnd"]
    assert walk.holes == []
    assert walk.tail is None


@pytest.mark.parametrize("name", ["basic", "v533", "semantics", "propcrc"])
def test_units_of_a_queue_are_those_the_broker_iterates(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    for queue in manifest["queues"]:
        key = queue["topic"], queue["queueId"]
        units = queue_units(Disk(), golden.store(name), golden_tool_sizes(golden, name), *key)
        rows = [(u.queue_offset, [u.physical_offset, u.size, u.tags_code]) for u in units]
        numbered = enumerate(queue["units"], queue["maxOffset"] - len(queue["units"]))
        assert rows == [(n, unit) for n, unit in numbered if unit[1] != 2**31 - 1]


def test_an_unknown_queue_has_no_units(golden: GoldenStores) -> None:
    store, sizes = golden.store("basic"), golden_tool_sizes(golden, "basic")
    assert list(queue_units(Disk(), store, sizes, "none", 0)) == []


def test_index_entries_lead_to_records_with_their_keys(golden: GoldenStores) -> None:
    manifest = golden.manifest("basic")
    rows = list(index_rows(Disk(), golden.store("basic"), golden_tool_sizes(golden, "basic")))
    counts = [file["indexCount"] - 1 for file in manifest["indexFiles"]]
    assert len(rows) == sum(counts)
    assert [row.number for row in rows[: counts[0]]] == list(range(1, counts[0] + 1))
    record = manifest["records"][0]
    wanted = key_hash(java_hash(index_key(record["topic"], record["uniqKey"])))
    first = rows[0]
    assert (first.key_hash, first.physical_offset) == (wanted, 0)
    assert first.slot == wanted % manifest["params"]["maxHashSlotNum"]
    assert first.store_time_ms == record["storeTimestamp"]


# -- a store as a whole ----------------------------------------------------------------------------
def described(golden: GoldenStores, name: str) -> Description:
    return describe(Disk(), golden.store(name), golden_tool_sizes(golden, name))


@pytest.mark.parametrize("name", ["basic", "semantics", "v533", "rebuild-base"])
def test_a_store_is_described_as_rocketmq_sees_it(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    found = described(golden, name)
    assert found["left_in_order"] is not manifest["abortFile"]
    assert found["in_use"] is False
    assert found["commit_log"]["files"] == len(manifest["commitLogFiles"])
    assert found["commit_log"]["end_offset"] == manifest["lastRecordEnd"]
    ours = {(q["topic"], q["queue_id"]): q["max_offset"] for q in found["consume_queues"]["queues"]}
    theirs = {(q["topic"], q["queueId"]): q["maxOffset"] for q in manifest["queues"]}
    assert ours == theirs
    assert [file["entries"] for file in found["index"]["files"]] == [
        file["indexCount"] - 1 for file in manifest["indexFiles"]
    ]
    assert (
        found["checkpoint"]["physic_msg_timestamp"] == manifest["checkpoint"]["physicMsgTimestamp"]
    )
    assert found["manifest"] is None
    assert found["flushed_mark"] is None


def test_a_queue_with_a_file_of_a_wrong_length_is_listed_and_the_rest_is_described(
    golden: GoldenStores, tmp_path: Path
) -> None:
    sizes, copy = (
        golden_tool_sizes(golden, "rebuild-base"),
        golden.copy("rebuild-base", tmp_path / "s"),
    )
    whole = describe(Disk(), copy, sizes)["consume_queues"]
    path = sorted((copy / "consumequeue/RebuildTopic/1").iterdir())[-1]
    os.truncate(path, path.stat().st_size // 2)
    found = describe(Disk(), copy, sizes)["consume_queues"]
    assert found["damaged_queues"] == ["RebuildTopic:1"]
    damaged = {"topic": "RebuildTopic", "queue_id": 1}
    assert found["queues"] == [
        row for row in whole["queues"] if {name: row[name] for name in damaged} != damaged
    ]
    assert ("RebuildTopic", 1) not in queue_ranges(Disk(), copy, sizes, LogSearch([]))
    for path in (copy / "consumequeue").rglob("0*"):
        if path.is_file():
            os.truncate(path, 20)
    with pytest.raises(WrongFileSize, match="mappedFileSizeConsumeQueue"):
        describe(Disk(), copy, sizes)


@pytest.mark.parametrize(("number", "begin"), [(0, 0), (4, 4 * FILE_SIZE)])
async def test_missing_first_and_last_files_of_our_own_store_are_missing_ranges(
    tmp_path: Path, number: int, begin: int
) -> None:
    async with store_at(tmp_path / "s") as store:
        await filled(store)
        durable = store.store.flushed
    sizes = shape_of(small_settings(tmp_path / "s"))
    assert describe(Disk(), tmp_path / "s", sizes)["commit_log"]["missing"] == []
    log_file(tmp_path / "s", number).unlink()
    (gap,) = describe(Disk(), tmp_path / "s", sizes)["commit_log"]["missing"]
    assert gap["path"] == str(log_file(tmp_path / "s", number))
    assert begin - FILE_SIZE < gap["begin"] <= begin
    assert gap["end"] == (durable if number else FILE_SIZE)


def test_topics_are_those_of_the_topic_table(golden: GoldenStores) -> None:
    found = described(golden, "semantics")
    assert "SCHEDULE_TOPIC_XXXX" in found["topics"]


def test_a_store_left_in_a_crash_says_so(golden: GoldenStores) -> None:
    assert described(golden, "crash-kill.before")["left_in_order"] is False


def test_a_description_is_json(golden: GoldenStores) -> None:
    found = described(golden, "basic")
    assert json.loads(json.dumps(found)) == found


def test_an_empty_directory_is_an_empty_store(tmp_path: Path, golden: GoldenStores) -> None:
    found = describe(Disk(), tmp_path, golden_tool_sizes(golden, "basic"))
    assert found["commit_log"]["end_offset"] == 0
    assert found["consume_queues"]["queues"] == []
    assert found["index"]["files"] == []
    assert found["topics"] == []
    assert list(tmp_path.iterdir()) == []


# -- lag of groups ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["basic", "semantics", "v533"])
def test_what_queues_hold(golden: GoldenStores, name: str) -> None:
    queues = [queue for queue in golden.manifest(name)["queues"] if queue["maxOffset"]]
    expected = {(q["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"]) for q in queues}
    sizes = golden_tool_sizes(golden, name)
    search = LogSearch(golden_files(golden, name))
    assert queue_ranges(Disk(), golden.store(name), sizes, search) == expected
    assert ranges_in_log(search) == expected


def test_lags(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    table = {"offsetTable": {"T@g": {0: 3, "1": 9}, "T@a": {"0": 0}, "gone@g": {"0": 7}}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(table))
    ranges = {("T", 0): (2, 5), ("T", 1): (0, 8), ("%RETRY%g", 0): (1, 4), ("other", 0): (0, 9)}
    assert group_lags(Disk(), tmp_path, ranges) == [
        GroupLag("a", "T", 0, 0, 5, 3),
        GroupLag("a", "T", 1, None, 8, 8),
        GroupLag("g", "%RETRY%g", 0, None, 4, 3),
        GroupLag("g", "T", 0, 3, 5, 2),
        GroupLag("g", "T", 1, 9, 8, 0),
        GroupLag("g", "gone", 0, 7, None, 0),
    ]


def test_purged_messages_are_no_lag(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    table = {"offsetTable": {"T@g": {0: 3}, "T@ahead": {0: 7}}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(table))
    (tmp_path / "pocketmq").mkdir()
    floors = tmp_path / "pocketmq" / "floors.json"
    floors.write_text(json.dumps({"T": {"0": 5, "1": 99}, "other": 3}))
    ranges = {("T", 0): (2, 9), ("T", 1): (0, 8)}
    assert group_lags(Disk(), tmp_path, ranges) == [
        GroupLag("ahead", "T", 0, 7, 9, 2),
        GroupLag("ahead", "T", 1, None, 8, 0),
        GroupLag("g", "T", 0, 3, 9, 4),
        GroupLag("g", "T", 1, None, 8, 0),
    ]
    floors.write_text("{")
    assert [row.lag for row in group_lags(Disk(), tmp_path, ranges)] == [2, 8, 6, 8]


def test_a_store_without_groups_or_queues(tmp_path: Path) -> None:
    assert group_lags(Disk(), tmp_path, {}) == []
    log = LogBytes(tmp_path)
    log.add("T", 2, queue_offset=4)
    log.add("H", 0, queue_offset=9, flags=0x4)
    log.add("T", 2, queue_offset=5)
    search = LogSearch(log.close().found())
    sizes = known_shape(4096, 200, IndexGeometry(7, 10))
    assert queue_ranges(Disk(), tmp_path, sizes, search) == {("T", 2): (4, 6)}


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("{")
    with pytest.raises(ValueError):
        group_lags(Disk(), tmp_path, {})
