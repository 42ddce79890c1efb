"""The chain of records by their sizes: compiled, it ends where that in Python does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from pocketmq.format.columns import heads
from pocketmq.format.record import RECORD_SIZE_MIN
from pocketmq.format.record_chain import record_chain

SIZES = some.lists(some.integers(RECORD_SIZE_MIN, 300), max_size=8)


@given(sizes=SIZES, last=some.binary(max_size=120), front=some.integers(0, 70))
def test_the_chain_is_that_of_the_columns(sizes: list[int], last: bytes, front: int) -> None:
    content = b"".join(size.to_bytes(4) + bytes(size - 4) for size in sizes) + last
    found = np.frombuffer(record_chain(content, RECORD_SIZE_MIN), dtype=">i8")
    buffer = bytearray(front) + content
    assert (found + front).tolist() == heads.starts(buffer, front, len(buffer)).tolist()
    assert found[: len(sizes)].tolist() == np.cumsum([0, *sizes])[:-1].tolist()


def test_a_record_that_ends_with_the_content_counts_and_a_longer_one_does_not() -> None:
    content = (91).to_bytes(4) + bytes(87)
    assert record_chain(content, 91) == bytes(8)
    assert (
        record_chain(content[:-1], 91) == record_chain(content, 92) == record_chain(b"", 91) == b""
    )


def test_a_negative_size_ends_the_chain() -> None:
    assert record_chain(b"\xff" * 200, 91) == b""
