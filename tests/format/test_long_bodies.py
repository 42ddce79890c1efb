"""Compressed bodies that stay long: they unfold in several goes, and whole or not at all."""

import zlib
from collections.abc import Callable
from random import Random

import lz4.frame
import pytest
import zstandard

from broker.format.compression import ZSTD_STEP, plain_body

every_kind = pytest.mark.parametrize(
    ("fold", "flag"),
    [(lz4.frame.compress, 0x101), (zstandard.compress, 0x201), (zlib.compress, 0x301)],
    ids=["lz4", "zstd", "zlib"],
)


@every_kind
@pytest.mark.parametrize("length", [ZSTD_STEP - 20, ZSTD_STEP, ZSTD_STEP + 20, 300_000])
def test_a_body_that_does_not_shrink_comes_back(
    fold: Callable[[bytes], bytes], flag: int, length: int
) -> None:
    plain = Random(length).randbytes(length)
    folded = fold(plain)
    assert plain_body(folded, flag) == plain
    assert plain_body(folded[:-1], flag) == folded[:-1]
    assert plain_body(folded[: len(folded) // 2], flag) == folded[: len(folded) // 2]


@every_kind
def test_bytes_behind_the_end_are_dropped(fold: Callable[[bytes], bytes], flag: int) -> None:
    plain = Random(1).randbytes(5_000)
    assert plain_body(fold(plain) + b"junk" * ZSTD_STEP, flag) == plain
