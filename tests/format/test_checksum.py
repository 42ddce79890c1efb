"""The checksum is zlib's, whoever computes it."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from broker.format.checksum import CRC_MASK, crc32


@given(st.binary(max_size=5_000))
def test_it_is_the_crc_of_zlib(content: bytes) -> None:
    assert crc32(content) == zlib.crc32(content)
    assert crc32(memoryview(content)) & CRC_MASK == zlib.crc32(content) & 0x7FFFFFFF
