"""The checkpoint: six numbers, and files of older writers that hold fewer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.format.checkpoint_layout import (
    CHECKPOINT,
    CHECKPOINT_FILE_SIZE,
    CheckpointValues,
    decode_checkpoint,
    encode_checkpoint,
)
from tests.golden_stores import GoldenStores

I64 = st.integers(-(2**63), 2**63 - 1)

SAMPLE = bytes.fromhex(
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
    assert decode_checkpoint(SAMPLE) == SAMPLE_VALUES
    assert encode_checkpoint(SAMPLE_VALUES) == SAMPLE + bytes(8)


def test_values_and_layout_name_the_same_fields() -> None:
    assert CheckpointValues._fields == tuple(field.name for field in CHECKPOINT.fields)


@given(st.builds(CheckpointValues, I64, I64, I64, I64, I64, I64))
def test_numbers_come_back(values: CheckpointValues) -> None:
    encoded = encode_checkpoint(values)
    assert len(encoded) == 48
    assert decode_checkpoint(encoded.ljust(CHECKPOINT_FILE_SIZE, b"\0")) == values


@pytest.mark.parametrize("length", [0, 8, 24, 40, 47, 48])
def test_what_a_short_file_lacks_reads_as_zero(length: int) -> None:
    content = encode_checkpoint(CheckpointValues(-1, -1, -1, -1, -1, -1))
    whole = length // 8
    found = decode_checkpoint(content[: whole * 8])
    assert found == (*([-1] * whole), *([0] * (6 - whole)))


@pytest.mark.parametrize("name", ["basic", "semantics", "cqext", "v533"])
def test_a_real_checkpoint_reads_as_rocketmq_reads_it(golden: GoldenStores, name: str) -> None:
    content = (golden.store(name) / "checkpoint").read_bytes()
    expected = golden.manifest(name)["checkpoint"]
    assert list(decode_checkpoint(content)) == [
        expected["physicMsgTimestamp"],
        expected["logicsMsgTimestamp"],
        expected["indexMsgTimestamp"],
        expected["masterFlushedOffset"],
        expected["confirmPhyOffset"],
        expected["at40"],
    ]
    assert encode_checkpoint(decode_checkpoint(content)) == content[:48]
    assert len(content) == CHECKPOINT_FILE_SIZE
