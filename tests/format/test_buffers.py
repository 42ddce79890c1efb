"""Zeros are recognised wherever they lie and whatever holds them."""

import pytest

from broker.format.buffers import Buffer, is_zero

LENGTH = 10_000


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_zeros_are_zeros_in_any_buffer(kind: type[bytes | bytearray | memoryview]) -> None:
    buffer: Buffer = kind(bytes(LENGTH))
    assert is_zero(buffer, 0, LENGTH)
    assert is_zero(buffer, 4_095, 4_097)
    assert is_zero(buffer, 7, 7)


@pytest.mark.parametrize("position", [0, 1, 4_095, 4_096, 4_097, 8_191, 9_999])
def test_one_byte_makes_the_difference(position: int) -> None:
    buffer = bytearray(LENGTH)
    buffer[position] = 1
    assert not is_zero(buffer, 0, LENGTH)
    assert not is_zero(buffer, position, position + 1)
    assert is_zero(buffer, 0, position)
    assert is_zero(buffer, position + 1, LENGTH)
