"""The extension unit, against one that a real broker wrote."""

from hypothesis import given
from hypothesis import strategies as st

from broker.format.extension_unit import (
    HEAD,
    address_of,
    encode_unit,
    is_address,
    position_of,
)

REAL = bytes.fromhex(
    "0022"  # 34 bytes
    "00000000000d1457"  # tags code
    "000001a1fb8cb4a6"  # stored
    "000e"  # a bitmap of 14 bytes
    "0004000000000001040000000000"
)


def test_a_unit_is_laid_out_as_a_real_one() -> None:
    assert encode_unit(0xD1457, 0x1A1FB8CB4A6, REAL[20:]) == REAL
    assert HEAD.unpack_from(REAL) == (34, 0xD1457, 0x1A1FB8CB4A6, 14)


@given(st.integers(0, 2**40))
def test_an_address_leads_back_to_its_byte_and_is_no_tags_code(position: int) -> None:
    address = address_of(position)
    assert position_of(address) == position
    assert is_address(address)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_tags_code_is_no_address(code: int) -> None:
    assert not is_address(code)


def test_the_second_unit_of_a_queue_has_the_address_of_byte_20() -> None:
    assert address_of(20) & 0xFFFFFFFFFFFFFFFF == 0x8000000000000014
