"""The consume unit: 20 bytes, where they lie, and where a file's units end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.format.consume_unit import (
    CONSUME_UNIT,
    EXTENSION_ADDRESS_MAX,
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    first_file_position,
    round_file_size,
    valid_unit_count,
)

SAMPLE = bytes.fromhex(
    "00000000000002bc"  # physical offset  700
    "0000009e"  # ........ size             158
    "0000018bcfe596e0"  # tags code        1700000012000, a delivery time
)
SAMPLE_OF_A_TAG = bytes.fromhex(
    "0000000000000000"  # physical offset  0
    "000000ae"  # ........ size             174
    "ffffffff80000000"  # tags code        -2**31, sign-extended
)


def test_units_of_the_specification() -> None:
    assert UNIT.unpack(SAMPLE) == (700, 158, 1_700_000_012_000)
    assert UNIT.unpack(SAMPLE_OF_A_TAG) == (0, 174, -(2**31))
    assert UNIT.pack(700, 158, 1_700_000_012_000) == SAMPLE


def test_a_unit_by_names() -> None:
    assert CONSUME_UNIT.decode(b"?" + SAMPLE, 1) == {
        "physical_offset": 700,
        "size": 158,
        "tags_code": 1_700_000_012_000,
    }


def test_the_pre_blank_unit() -> None:
    assert PRE_BLANK.hex() == "0000000000000000" + "7fffffff" + "0000000000000000"
    assert UNIT.unpack(PRE_BLANK) == (0, PRE_BLANK_SIZE, 0)


def test_an_extension_address_is_below_every_hash() -> None:
    hash_min, address_of_byte_20 = -(2**31), -(2**63) + 20
    assert address_of_byte_20 <= EXTENSION_ADDRESS_MAX < hash_min


@pytest.mark.parametrize(
    ("size", "rounded"), [(20, 20), (21, 40), (39, 40), (1, 20), (6_000_000, 6_000_000)]
)
def test_a_file_holds_whole_units(size: int, rounded: int) -> None:
    assert round_file_size(size) == rounded


@pytest.mark.parametrize(
    ("queue_offset", "base"), [(0, 0), (4, 0), (5, 100), (9, 100), (10, 200), (10**12, 2 * 10**13)]
)
def test_a_unit_lies_in_the_file_that_reaches_its_position(queue_offset: int, base: int) -> None:
    assert first_file_position(queue_offset, 5 * UNIT_SIZE) == base


@pytest.mark.parametrize(
    ("units", "count"),
    [
        ([], 0), ([(0, 0, 0)], 0), ([(0, 91, 0)], 1), ([(0, 91, 0), (91, 91, -1), (0, 0, 0)], 2),
        ([(0, 91, 0), (0, 0, 0), (91, 91, 0)], 1), ([(0, PRE_BLANK_SIZE, 0), (91, 91, 0)], 2),
        ([(0, -1, 0)], 0), ([(-1, 91, 0)], 0), ([(0, 91, 0), (-1, 91, 0)], 1),
    ],
)  # fmt: skip
def test_units_end_at_the_first_that_holds_nothing(
    units: list[tuple[int, int, int]], count: int
) -> None:
    content = b"".join(UNIT.pack(*unit) for unit in units)
    assert valid_unit_count(content) == count
    assert valid_unit_count(memoryview(bytearray(content))) == count


def counted_one_by_one(units: bytes) -> int:
    count = 0
    for physical_offset, size, _ in UNIT.iter_unpack(units):
        if physical_offset < 0 or size <= 0:
            break
        count += 1
    return count


NUMBER = st.sampled_from([-(2**31), -1, 0, 1, 91, 2**31 - 1])
OFFSET = st.sampled_from([-(2**63), -1, 0, 1, 2**31, 2**63 - 1])


@given(st.lists(st.builds(UNIT.pack, OFFSET, NUMBER | st.just(91), OFFSET)).map(b"".join))
def test_units_of_any_numbers_are_counted_as_one_by_one(content: bytes) -> None:
    assert valid_unit_count(content) == counted_one_by_one(content)
