"""The cache of header blocks: its contents, invalidation and limit."""

from contextlib import suppress

import pytest
from hpack import Encoder

from pocketmq.wire.blocks import CACHE_SIZE_MAX, HeaderBlocks
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import ConnectionFault, StreamFault
from tests.wire.h2_client import REQUEST


def test_a_block_of_known_fields_is_read_once() -> None:
    blocks, encoder = HeaderBlocks(Limits()), Encoder()
    first = blocks.request(encoder.encode(REQUEST))
    again = encoder.encode(REQUEST)
    second = blocks.request(again)
    assert second is not first
    assert blocks.request(again) is second


@pytest.mark.parametrize("reader", ["request", "trailers", "skip"])
def test_a_block_means_something_else_when_the_table_has_changed(reader: str) -> None:
    blocks, encoder = HeaderBlocks(Limits()), Encoder()
    blocks.request(encoder.encode([*REQUEST, ("x", "old")]))
    block = encoder.encode([*REQUEST, ("x", "old")])
    assert blocks.request(block).value(b"x") == b"old"
    change = encoder.encode([("x", "new")])
    if reader == "request":
        with pytest.raises(StreamFault):  # no whole request; the table has moved all the same
            blocks.request(change)
    else:
        getattr(blocks, reader)(change)
    shifted = blocks.request(encoder.encode([*REQUEST, ("x", "new")]))
    assert shifted.value(b"x") == b"new"
    # The old bytes, now read with the new table, name other fields.
    with suppress(ConnectionFault, StreamFault):
        assert blocks.request(block).value(b"x") != b"old"


def test_a_malformed_block_is_malformed_again() -> None:
    blocks = HeaderBlocks(Limits())
    for _ in range(2):
        with pytest.raises(StreamFault):
            blocks.request(b"\x82\x82")


def test_what_is_remembered_has_a_bound() -> None:
    blocks, encoder = HeaderBlocks(Limits()), Encoder()
    encoder.header_table_size = 0
    made = [encoder.encode([*REQUEST, ("x", f"{at}" * 50)]) for at in range(1_000)]
    found = [blocks.request(block) for block in made]
    assert len({id(headers) for headers in found}) == 1_000
    kept = sum(blocks.request(block) is headers for block, headers in zip(made, found, strict=True))
    assert kept * 150 < CACHE_SIZE_MAX
