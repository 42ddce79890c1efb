"""The index file: the specification's sample, its hashes, and what a record is found under."""

import pytest

from broker.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_HEADER,
    SECOND_DIFFERENCE_MAX,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    IndexHeaderValues,
    entry_keys,
    index_key,
    is_indexed,
    key_hash,
    second_difference,
)
from broker.format.java_hash import java_hash
from broker.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from tests.golden_stores import GoldenStores

GEOMETRY = IndexGeometry(slot_count=10, entry_count_max=8)
SAMPLE_HEADER = bytes.fromhex(
    "0000018bcfe5687b"  # begin timestamp        1700000000123
    "0000018bcfe57f6f"  # end timestamp          1700000005999
    "0000000000000000"  # begin physical offset  0
    "0000000000000384"  # end physical offset    900
    "00000002"  # ....... hash slot count        2
    "00000005"  # ....... index count            5
)
SAMPLE_SLOTS = bytes.fromhex(
    "00000000" * 8  # . slots 0 to 7  empty
    + "00000003"  # ... slot 8        entry 3 is the newest of its chain
    + "00000004"  # ... slot 9        entry 4
)
SAMPLE_ENTRIES = bytes.fromhex(
    "00000000 0000000000000000 00000000 00000000"  # number 0, never used
    "01778014 0000000000000000 00000000 00000000"  # 1: unique key, record at 0
    "717125c9 0000000000000000 00000000 00000000"  # 2: k1, record at 0
    "717125c8 0000000000000000 00000000 00000001"  # 3: k2, record at 0, before it entry 1
    "717125c9 0000000000000384 00000005 00000002"  # 4: k1, record at 900, 5 s on, before it 2
)
SAMPLE_PUTS = [
    ("7F0000010001000000000000000A0001", 0, 1_700_000_000_123),
    ("k1", 0, 1_700_000_000_123),
    ("k2", 0, 1_700_000_000_123),
    ("k1", 900, 1_700_000_005_999),
]


def test_the_header_of_the_sample() -> None:
    values = IndexHeaderValues(1_700_000_000_123, 1_700_000_005_999, 0, 900, 2, 5)
    assert HEADER.unpack(SAMPLE_HEADER) == values
    assert HEADER.pack(*values) == SAMPLE_HEADER
    assert INDEX_HEADER.decode(SAMPLE_HEADER) == values._asdict()


def test_the_entries_of_the_sample_follow_from_its_puts() -> None:
    slots, entries = [0] * GEOMETRY.slot_count, [(0, 0, 0, 0)]
    for key, physical_offset, time_ms in SAMPLE_PUTS:
        hashed = key_hash(java_hash(index_key("TopicA", key)))
        seconds = second_difference(time_ms, 1_700_000_000_123)
        previous, slots[hashed % 10] = slots[hashed % 10], len(entries)
        entries.append((hashed, physical_offset, seconds, previous))
    assert b"".join(ENTRY.pack(*values) for values in entries) == SAMPLE_ENTRIES
    assert b"".join(slot.to_bytes(4, "big") for slot in slots) == SAMPLE_SLOTS


def test_an_entry_by_names() -> None:
    assert INDEX_ENTRY.decode(SAMPLE_ENTRIES, 4 * ENTRY_SIZE) == {
        "key_hash": 1_903_240_649,
        "physical_offset": 900,
        "second_difference": 5,
        "previous": 2,
    }


def test_header_slots_and_entries_follow_on_each_other() -> None:
    assert len(SAMPLE_HEADER) == HEADER_SIZE
    assert GEOMETRY.entries_position == len(SAMPLE_HEADER + SAMPLE_SLOTS)
    assert GEOMETRY.file_size == GEOMETRY.entries_position + 8 * ENTRY_SIZE
    assert IndexGeometry(5_000_000, 20_000_000).file_size == 420_000_040


def test_an_empty_file_begins_to_count_at_one() -> None:
    assert IndexHeaderValues() == (0, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("signed", "hashed"),
    [(0, 0), (1, 1), (-1, 1), (2**31 - 1, 2**31 - 1), (-(2**31) + 1, 2**31 - 1), (-(2**31), 0)],
)
def test_a_stored_hash_is_never_negative(signed: int, hashed: int) -> None:
    assert key_hash(signed) == hashed


def test_a_key_without_an_absolute_hash_has_none() -> None:
    assert key_hash(java_hash("polygenelubricants")) == 0
    assert key_hash(java_hash("TopicA#k1")) == 1_903_240_649


def test_a_key_belongs_to_its_topic_and_may_have_a_type() -> None:
    assert index_key("T", "k") == "T#k"
    assert index_key("T", "k", "T") == "T#T#k"


@pytest.mark.parametrize(
    ("unique_key", "keys", "tag", "texts"),
    [
        ("U", "k1 k2", "tag", ["U", "k1", "k2", "T#tag"]),
        ("U", "", "", ["U"]),
        ("", "k1", "", ["k1"]),
        ("", "", "tag", ["T#tag"]),
        ("", "", "", []),
        ("", " k1  k2 ", "", ["k1", "k2"]),
        ("", " ", "", []),
        ("U", "U", "U", ["U", "U", "T#U"]),
        ("", "k1 k1", "", ["k1", "k1"]),
        ("", "a\tb", "two words", ["a\tb", "T#two words"]),
    ],
)
def test_a_record_is_found_under_its_keys_and_its_tag(
    unique_key: str, keys: str, tag: str, texts: list[str]
) -> None:
    assert entry_keys(unique_key, keys, tag, STYLE_5_5) == texts
    assert entry_keys(unique_key, keys, tag, STYLE_5_3) == [
        text for text in texts if not text.startswith("T#")
    ]


@pytest.mark.parametrize(
    ("transaction", "indexed"),
    [
        (TRANSACTION_NONE, True),
        (TRANSACTION_PREPARED, True),
        (TRANSACTION_COMMIT, True),
        (TRANSACTION_ROLLBACK, False),
    ],
)
def test_all_but_rollbacks_are_indexed(transaction: int, indexed: bool) -> None:
    assert is_indexed(transaction) is indexed


@pytest.mark.parametrize(
    ("elapsed_ms", "seconds"),
    [
        (0, 0),
        (999, 0),
        (1_000, 1),
        (5_876, 5),
        (-1, 0),
        (-10_000, 0),
        (SECOND_DIFFERENCE_MAX * 1_000, SECOND_DIFFERENCE_MAX),
        (SECOND_DIFFERENCE_MAX * 1_000 + 999, SECOND_DIFFERENCE_MAX),
        (2**62, SECOND_DIFFERENCE_MAX),
    ],
)
def test_an_entry_keeps_whole_seconds_from_the_begin(elapsed_ms: int, seconds: int) -> None:
    begin_ms = 1_700_000_000_123
    assert second_difference(begin_ms + elapsed_ms, begin_ms) == seconds


@pytest.mark.parametrize("begin_ms", [0, -1])
def test_a_file_without_a_begin_keeps_no_seconds(begin_ms: int) -> None:
    assert second_difference(1_700_000_000_123, begin_ms) == 0


@pytest.mark.parametrize("name", ["basic", "semantics", "rebuild-base", "v533"])
def test_a_real_header_reads_as_rocketmq_reads_it(golden: GoldenStores, name: str) -> None:
    params = golden.manifest(name)["params"]
    geometry = IndexGeometry(params["maxHashSlotNum"], params["maxIndexNum"])
    paths = sorted((golden.store(name) / "index").iterdir())
    for path, row in zip(paths, golden.manifest(name)["indexFiles"], strict=True):
        content = path.read_bytes()
        assert HEADER.unpack_from(content) == (
            *(row["beginTimestamp"], row["endTimestamp"]),
            *(row["beginPhyOffset"], row["endPhyOffset"]),
            *(row["hashSlotCount"], row["indexCount"]),
        )
        assert len(content) == geometry.file_size
