"""The index file: the specification's sample, its hashes, and what a record is found under."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.index_entries import (
    ENTRY_TYPE,
    LINKED_MAX,
    link_entries,
    second_differences,
)
from pocketmq.format.index_layout import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    INDEX_HEADER,
    SECOND_DIFFERENCE_MAX,
    STYLE_5_3,
    STYLE_5_5,
    IndexGeometry,
    IndexHeaderValues,
    entry_keys,
    index_key,
    key_hash,
    second_difference,
)
from pocketmq.format.java_hash import java_hash

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


def test_the_header_of_the_sample() -> None:
    values = IndexHeaderValues(1_700_000_000_123, 1_700_000_005_999, 0, 900, 2, 5)
    assert HEADER.unpack(SAMPLE_HEADER) == values
    assert HEADER.pack(*values) == SAMPLE_HEADER
    assert values._fields == tuple(field.name for field in INDEX_HEADER.fields)


def test_an_entry_of_the_sample() -> None:
    assert ENTRY.unpack_from(SAMPLE_ENTRIES, 4 * ENTRY_SIZE) == (1_903_240_649, 900, 5, 2)


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


def linked_one_by_one(hashes: list[int], slots: list[int], number: int) -> tuple[list[int], int]:
    previous, used = [], 0
    for hashed in hashes:
        slot = hashed % len(slots)
        before = slots[slot] if 0 < slots[slot] <= number else 0
        used += before == 0
        previous.append(before)
        slots[slot] = number
        number += 1
    return previous, used


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=60),
    st.lists(st.integers(-3, 12), min_size=1, max_size=9),
    st.integers(1, 10),
)
def test_chains_are_those_of_one_by_one(hashes: list[int], heads: list[int], number: int) -> None:
    plain, table = list(heads), np.array(heads, dtype=">i4")
    wanted, used = linked_one_by_one(hashes, plain, number)
    # A slot that names a number still to come is a broken file's: it counts as empty only at once.
    later = [h for h in heads if h > number]
    previous, found_used = link_entries(np.array(hashes, dtype=np.int32), table, number)
    if not later:
        assert (previous.tolist(), found_used) == (wanted, used)
        assert table.tolist() == plain


def test_seconds_are_those_of_one_by_one() -> None:
    times = [0, 999, 1_000, 5_001, 2**31 * 1_000 + 7, 2**45]
    for begin in (0, -1, 1, 1_000, 4_000):
        found = second_differences(np.array(times, dtype=np.int64), begin).tolist()
        assert found == [second_difference(time, begin) for time in times]


def test_an_entry_has_no_gaps() -> None:
    assert ENTRY_TYPE.itemsize == ENTRY_SIZE


@settings(max_examples=60)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=80), st.integers(1, 7), st.data())
def test_blocks_of_any_size_make_the_chains_of_one_go(
    hashes: list[int], slot_count: int, data: st.DataObject
) -> None:
    whole, pieces = np.zeros(slot_count, dtype=np.int32), np.zeros(slot_count, dtype=np.int32)
    column = np.array(hashes, dtype=np.int32)
    wanted, wanted_used = link_entries(column, whole, 1)
    found, used, begin = [], 0, 0
    while begin < len(hashes):
        end = begin + data.draw(st.integers(1, len(hashes) - begin))
        previous, first_uses = link_entries(column[begin:end], pieces, 1 + begin)
        found += previous.tolist()
        used += first_uses
        begin = end
    assert (found, used) == (wanted.tolist(), wanted_used)
    assert pieces.tolist() == whole.tolist()
    assert used == np.count_nonzero(whole)


def test_one_slot_is_one_chain() -> None:
    slots = np.zeros(1, dtype=np.int32)
    previous, used = link_entries(np.full(50_000, 7, dtype=np.int32), slots, 1)
    assert previous.tolist() == list(range(50_000))
    assert (used, slots.tolist()) == (1, [50_000])


def test_as_many_entries_as_may_be_linked_at_once() -> None:
    slots = np.zeros(3, dtype=np.int32)
    hashes = np.arange(LINKED_MAX, dtype=np.int32)
    previous, used = link_entries(hashes, slots, 5)
    assert used == 3
    assert previous[:4].tolist() == [0, 0, 0, 5]
    assert (previous[3:] == np.arange(LINKED_MAX - 3) + 5).all()
    assert sorted(slots.tolist()) == [LINKED_MAX + 2, LINKED_MAX + 3, LINKED_MAX + 4]


def test_the_highest_hashes_and_slots() -> None:
    slots = np.zeros(5_000_000, dtype=np.int32)
    hashes = [2**31 - 1, 0, 4_999_999, 2**31 - 1, 5_000_000]
    previous, used = link_entries(np.array(hashes, dtype=np.int32), slots, 20_000_000)
    assert previous.tolist() == [0, 0, 0, 20_000_000, 20_000_001]
    assert used == 3
    assert slots[0] == 20_000_004
