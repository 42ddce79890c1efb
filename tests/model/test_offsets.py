"""The three offsets are plain numbers at run time, and the largest fits a signed i64."""

import struct

import pytest

from broker.model.offsets import OFFSET_MAX, FilePosition, PhysicalOffset, QueueOffset


def test_an_offset_is_a_number_without_a_wrapper() -> None:
    assert type(PhysicalOffset(7)) is int
    assert type(QueueOffset(7)) is int
    assert type(FilePosition(7)) is int


def test_the_largest_offset_is_the_largest_that_can_be_stored() -> None:
    assert struct.pack(">q", OFFSET_MAX).hex() == "7fffffffffffffff"
    with pytest.raises(struct.error):
        struct.pack(">q", OFFSET_MAX + 1)
