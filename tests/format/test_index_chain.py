"""Chains made at once are the chains made entry by entry."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.index_chain import ENTRY_TYPE, LINKED_MAX, link_entries, second_differences
from broker.format.index_layout import ENTRY_SIZE, second_difference


def linked_one_by_one(hashes: list[int], slots: list[int], number: int) -> tuple[list[int], int]:
    previous, used = [], 0
    for key_hash in hashes:
        slot = key_hash % len(slots)
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
