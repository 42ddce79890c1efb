"""A dump shows what a real broker's own decoder shows, and goes on behind damage."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from broker.files.disk import Disk
from broker.format.index_layout import index_key, key_hash
from broker.format.java_hash import java_hash
from broker.format.message_id import offset_message_id
from broker.model.message import StoredMessage
from broker.tools.dump import LogDump, index_rows, queue_units
from tests.golden_stores import NAMES, GoldenStores
from tests.tools.offline import record_positions, sizes_of

SOUND = [name for name in NAMES if not name.startswith(("crash-", "clean-torn"))]


def dump(golden: GoldenStores, name: str) -> tuple[list[StoredMessage], LogDump]:
    walk = LogDump(Disk(), golden.store(name), sizes_of(golden.manifest(name)))
    return list(walk), walk


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
    messages, walk = dump(golden, name)
    shown = [as_manifest(message) for message in messages]
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
        units = queue_units(
            Disk(),
            golden.store(name),
            sizes_of(manifest),
            topic=queue["topic"],
            queue_id=queue["queueId"],
        )
        rows = [(u.queue_offset, [u.physical_offset, u.size, u.tags_code]) for u in units]
        numbered = enumerate(queue["units"], queue["maxOffset"] - len(queue["units"]))
        assert rows == [(n, unit) for n, unit in numbered if unit[1] != 2**31 - 1]


def test_an_unknown_queue_has_no_units(golden: GoldenStores) -> None:
    store, sizes = golden.store("basic"), sizes_of(golden.manifest("basic"))
    assert list(queue_units(Disk(), store, sizes, topic="none", queue_id=0)) == []


def test_index_entries_lead_to_records_with_their_keys(golden: GoldenStores) -> None:
    manifest = golden.manifest("basic")
    rows = list(index_rows(Disk(), golden.store("basic"), sizes_of(manifest)))
    counts = [file["indexCount"] - 1 for file in manifest["indexFiles"]]
    assert len(rows) == sum(counts)
    assert [row.number for row in rows[: counts[0]]] == list(range(1, counts[0] + 1))
    record = manifest["records"][0]
    wanted = key_hash(java_hash(index_key(record["topic"], record["uniqKey"])))
    first = rows[0]
    assert (first.key_hash, first.physical_offset) == (wanted, 0)
    assert first.slot == wanted % manifest["params"]["maxHashSlotNum"]
    assert first.store_time_ms == record["storeTimestamp"]


def test_a_torn_tail_is_told_and_nothing_is_lost_before_it(golden: GoldenStores) -> None:
    messages, walk = dump(golden, "crash-torn.before")
    records = golden.manifest("crash-torn.before")["records"]
    assert [m.physical_offset for m in messages] == [r["phy"] for r in records]
    assert walk.tail is not None
    assert walk.holes == []


class Broken:
    """A golden store's copy with three files, to be damaged."""

    def __init__(self, golden: GoldenStores, to: Path) -> None:
        self.directory = golden.copy("rebuild-base", to / "store")
        self.sizes = sizes_of(golden.manifest("rebuild-base"))
        self.files = sorted((self.directory / "commitlog").iterdir())
        self.sound = self.offsets()

    def offsets(self) -> list[int]:
        self.walk = LogDump(Disk(), self.directory, self.sizes)
        return [message.physical_offset for message in self.walk]

    def flip(self, file: Path, position: int) -> None:
        content = bytearray(file.read_bytes())
        content[position] ^= 0xFF
        file.write_bytes(content)

    def zero(self, file: Path, begin: int) -> None:
        content = bytearray(file.read_bytes())
        content[begin:] = bytes(len(content) - begin)
        file.write_bytes(content)


@pytest.fixture
def broken(golden: GoldenStores, tmp_path: Path) -> Broken:
    return Broken(golden, tmp_path)


def test_behind_a_flipped_body_the_dump_goes_on(broken: Broken) -> None:
    file = broken.files[1]
    position, size = record_positions(file)[3]
    broken.flip(file, position + 90)
    lost = int(file.name) + position
    assert broken.offsets() == [place for place in broken.sound if place != lost]
    (hole,) = broken.walk.holes
    assert (hole.path, hole.physical_offset) == (str(file), lost)
    assert "CRC" in hole.reason
    assert broken.walk.tail is None
    assert size > 90


def test_behind_a_flipped_size_it_goes_on_with_the_next_file(broken: Broken) -> None:
    file, following = broken.files[1:3]
    position, _ = record_positions(file)[3]
    broken.flip(file, position)
    begin, end = int(file.name) + position, int(following.name)
    assert broken.offsets() == [place for place in broken.sound if not begin <= place < end]
    assert [hole.physical_offset for hole in broken.walk.holes] == [begin]


def test_a_file_that_ends_early_is_a_hole_when_records_follow(broken: Broken) -> None:
    file = broken.files[1]
    position, _ = record_positions(file)[3]
    broken.zero(file, position)
    broken.offsets()
    (hole,) = broken.walk.holes
    assert hole.physical_offset == int(file.name) + position
    assert "no record" in hole.reason


def test_the_same_at_the_end_is_the_end(broken: Broken) -> None:
    last = broken.files[-1]
    position, _ = record_positions(last)[-1]
    broken.zero(last, position)
    assert broken.offsets() == broken.sound[:-1]
    assert broken.walk.holes == []
    assert broken.walk.tail is None
    assert broken.walk.end == int(last.name) + position


def test_a_directory_without_a_log_has_no_records(tmp_path: Path, broken: Broken) -> None:
    walk = LogDump(Disk(), tmp_path / "empty", broken.sizes)
    assert list(walk) == []
    assert walk.end == 0
