"""A dump shows what a real broker's own decoder shows, and goes on behind damage."""

import hashlib
from typing import Any

import pytest

from broker.files.disk import Disk
from broker.format.addresses import offset_message_id
from broker.format.index_layout import index_key, key_hash
from broker.format.java_hash import java_hash
from broker.model.message import StoredMessage
from broker.tools.dump import index_rows, queue_units
from broker.tools.selection import LogSearch
from tests.fakes.log_bytes import golden_files
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import NAMES, GoldenStores

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
