"""One property of a stored record, as the decoder of all properties finds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.named_properties import property_block
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.format.properties import (
    decode_properties,
    led_by_separator,
    property_key,
    property_text,
)
from pocketmq.format.record import split_record
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import record_positions

NAMES = ("a", "b", "ab")
BLOCKS = st.lists(
    st.sampled_from([b"a", b"b", b"x", b"\x01", b"\x02", b"a\x01", b"\x02a\x01x\x02", b"\xc3"]),
    max_size=20,
).map(b"".join)


@given(BLOCKS)
def test_every_block_is_read_as_the_decoder_reads_it(block: bytes) -> None:
    wanted = decode_properties(block)
    for name in NAMES:
        found = property_text(led_by_separator(block), property_key(name))
        assert found == wanted.get(name)


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc"])
def test_the_block_of_every_real_record_is_found(golden: GoldenStores, name: str) -> None:
    seen = 0
    for path in sorted((golden.store(name) / COMMIT_LOG_DIRECTORY).iterdir()):
        content = path.read_bytes()
        for position, size in record_positions(path):
            record = content[position : position + size]
            begin, end = split_record(record, 0)[4:]
            assert property_block(record) == led_by_separator(record[begin:end])
            seen += 1
    assert seen > 100
