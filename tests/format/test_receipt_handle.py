"""Handles are RocketMQ's eight fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.receipt_handle import PREFIX_LENGTH_MAX, LeasePlace, read_handle
from pocketmq.model.message import OFFSET_MAX

NUMBERS = st.integers(0, OFFSET_MAX)
PLACES = st.builds(
    LeasePlace, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 3),
    st.text(st.characters(categories=["L", "N", "Zs"]), max_size=20), NUMBERS,
)  # fmt: skip


def test_a_handle_has_the_fields_in_order() -> None:
    place = LeasePlace(10, 1_700_000_000_000, 60_000, 3, 1, "b", 2)
    assert f"{place.prefix}17" == "10 1700000000000 60000 3 1 b 2 17"


@given(PLACES, NUMBERS)
def test_a_handle_is_read_as_it_was_made(place: LeasePlace, queue_offset: int) -> None:
    assert read_handle(f"{place.prefix}{queue_offset}") == (place, queue_offset)


@given(st.text() | st.text("0123456789 -b", max_size=60))
def test_whatever_is_sent_is_a_handle_or_none(text: str) -> None:
    read = read_handle(text)
    assert read is None or read[1] >= 0


@pytest.mark.parametrize(
    "handle",
    [
        "", "1 2 3 4 0 b 5", "1 2 3 4 4 b 5 6", "-1 2 3 4 0 b 5 6", "1 2 3 4 0 b 5 -6",
        "1 2 3 4 0 b 5 9223372036854775808", "1 2 3 4 0 b 5 ١", "x" * PREFIX_LENGTH_MAX + " 1",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(handle: str) -> None:
    assert read_handle(handle) is None
