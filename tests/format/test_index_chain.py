"""Chains made at once are the chains made entry by entry."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.format.index_chain import ENTRY_TYPE, link_entries, second_differences
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


@settings(max_examples=200, deadline=None, derandomize=True)
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
