"""Layouts of fixed size: the checkpoint and units of queues."""

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format import checkpoint_layout
from pocketmq.format.checkpoint_layout import (
    CHECKPOINT,
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from pocketmq.format.columns.units import valid_unit_count
from pocketmq.format.consume_unit import (
    EXTENSION_ADDRESS_MAX,
    EXTENSION_HEAD,
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    encode_extension,
    extension_address,
    extension_position,
    first_file_position,
    is_extension_address,
    round_file_size,
)
from pocketmq.format.layout import Layout

LAYOUT = Layout(
    ("number", "q", "a number"),
    ("host", "8s", "some bytes"),
    ("small", "h", "a small number; may be negative"),
)

ROW = re.compile(r"^ *(\d+) +(\d+) {2}(\w+) +(\S.*)$", re.MULTILINE)
"""Position, width, name, meaning."""


def test_all_follows_from_the_rows() -> None:
    """Numbers are big-endian and not padded."""
    assert LAYOUT.size == 18
    assert LAYOUT.positions == {"number": 0, "host": 8, "small": 16}
    packed = LAYOUT.struct.pack(1, b"hosthost", -2)
    assert packed.hex() == "0000000000000001" + b"hosthost".hex() + "fffe"


def test_a_docstring_shows_the_layout_as_it_is() -> None:
    shown = ROW.findall(checkpoint_layout.__doc__ or "")
    assert shown == [
        (str(CHECKPOINT.positions[name]), str(struct.calcsize(">" + code)), name, meaning)
        for name, code, meaning in CHECKPOINT.fields
    ]


I64 = st.integers(-(2**63), 2**63 - 1)

CHECKPOINT_SAMPLE = bytes.fromhex(
    "0000018bcfe5687b"  # physic message timestamp   1700000000123
    "0000018bcfe569c8"  # logics message timestamp   1700000000456
    "0000000000000000"  # index message timestamp    0
    "0000000000000000"  # master flushed offset      0
    "000000000000011d"  # confirm physical offset    285
)
SAMPLE_VALUES = CheckpointValues(
    physic_msg_timestamp=1_700_000_000_123,
    logics_msg_timestamp=1_700_000_000_456,
    confirm_physical_offset=285,
)


def test_the_sample_of_an_older_writer() -> None:
    assert decode_checkpoint(CHECKPOINT_SAMPLE) == SAMPLE_VALUES
    assert encode_checkpoint(SAMPLE_VALUES) == CHECKPOINT_SAMPLE + bytes(8)


def test_values_and_layout_name_the_same_fields() -> None:
    assert CheckpointValues._fields == tuple(field.name for field in CHECKPOINT.fields)


@given(st.builds(CheckpointValues, I64, I64, I64, I64, I64, I64))
def test_numbers_come_back(values: CheckpointValues) -> None:
    encoded = encode_checkpoint(values)
    assert len(encoded) == 48
    assert decode_checkpoint(encoded.ljust(CHECKPOINT_FILE_SIZE, b"\0")) == values


SAMPLE_OF_A_DELAY = bytes.fromhex(
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
    assert UNIT.unpack(SAMPLE_OF_A_DELAY) == (700, 158, 1_700_000_012_000)
    assert UNIT.unpack(SAMPLE_OF_A_TAG) == (0, 174, -(2**31))
    assert UNIT.pack(700, 158, 1_700_000_012_000) == SAMPLE_OF_A_DELAY
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


REAL = bytes.fromhex(
    "0022"  # 34 bytes
    "00000000000d1457"  # tags code
    "000001a1fb8cb4a6"  # stored
    "000e"  # a bitmap of 14 bytes
    "0004000000000001040000000000"
)


def test_a_unit_is_laid_out_as_a_real_one() -> None:
    assert encode_extension(0xD1457, 0x1A1FB8CB4A6, REAL[20:]) == REAL
    assert EXTENSION_HEAD.unpack_from(REAL) == (34, 0xD1457, 0x1A1FB8CB4A6, 14)


@given(st.integers(0, 2**40))
def test_an_address_leads_back_to_its_byte_and_is_no_tags_code(position: int) -> None:
    address = extension_address(position)
    assert extension_position(address) == position
    assert is_extension_address(address)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_tags_code_is_no_address(code: int) -> None:
    assert not is_extension_address(code)


def test_the_second_unit_of_a_queue_has_the_address_of_byte_20() -> None:
    assert extension_address(20) & 0xFFFFFFFFFFFFFFFF == 0x8000000000000014
