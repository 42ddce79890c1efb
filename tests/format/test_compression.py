"""Compressed bodies decompress; whatever does not decompress whole stays as it is."""

import zlib
from collections.abc import Callable
from random import Random
from typing import Final

import lz4.frame
import pytest
import zstandard

from pocketmq.format import body_codec
from pocketmq.format.body_codec import ZSTD_STEP, plain_body
from tests.golden_stores import GoldenStores

COMPRESSED: Final = 0x001
PLAIN = b"Hello RocketMQ! " * 64
NOISE = Random(7).randbytes(3_000)
"""Stays about as long when compressed."""


def zstd_of_unknown_size(plain: bytes) -> bytes:
    """Compresses as a stream does that does not know how much will come."""
    folder = zstandard.ZstdCompressor().compressobj()
    return folder.compress(plain) + folder.flush()


Fold = Callable[[bytes], bytes]

FOLDS: list[tuple[Fold, int]] = [
    (lz4.frame.compress, 0x101), (zstandard.compress, 0x201), (zstd_of_unknown_size, 0x201),
    (zlib.compress, 0x301), (zlib.compress, 0x001),
]  # fmt: skip
KINDS = ["lz4", "zstd", "zstd-stream", "zlib", "zlib-of-old-clients"]
every_kind = pytest.mark.parametrize(("fold", "flag"), FOLDS, ids=KINDS)


@every_kind
@pytest.mark.parametrize("plain", [b"", b"x", PLAIN, NOISE, bytes(1_000_000)], ids=len)
def test_a_compressed_body_unfolds(fold: Fold, flag: int, plain: bytes) -> None:
    assert plain_body(fold(plain), flag) == plain


@every_kind
def test_only_the_bits_of_a_body_in_the_flag_matter(fold: Fold, flag: int) -> None:
    folded = fold(PLAIN)
    assert plain_body(folded, flag | 0x0FE) == PLAIN
    assert plain_body(folded, flag & ~COMPRESSED) is folded


@every_kind
@pytest.mark.parametrize("body", [b"", b"x", b"plain text", bytes(100), b"\xff" * 100])
def test_a_falsely_flagged_body_stays(fold: Fold, flag: int, body: bytes) -> None:
    assert plain_body(body, flag) == body


@every_kind
def test_a_body_of_another_kind_stays(fold: Fold, flag: int) -> None:
    others = [other(PLAIN) for other, kind in FOLDS if (kind | 0x300) != (flag | 0x300)]
    assert all(plain_body(body, flag) == body for body in others)


@every_kind
def test_a_body_that_lacks_its_end_stays(fold: Fold, flag: int) -> None:
    folded = fold(PLAIN + NOISE)
    torn = [folded[:length] for length in range(len(folded))]
    assert [plain_body(body, flag) for body in torn] == torn


@every_kind
def test_a_damaged_body_stays_or_unfolds_but_raises_nothing(fold: Fold, flag: int) -> None:
    folded = fold(PLAIN)
    for position in range(len(folded)):
        damaged = bytearray(folded)
        damaged[position] ^= 0xFF
        assert isinstance(plain_body(bytes(damaged), flag), bytes)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_a_kind_nobody_defined_is_taken_for_zlib(kind: int) -> None:
    assert plain_body(zlib.compress(PLAIN), COMPRESSED | kind << 8) == PLAIN


@every_kind
@pytest.mark.parametrize(
    ("size", "unfolds"), [(999, True), (1_000, True), (1_001, False), (10_000_000, False)]
)
def test_a_bomb_stays_folded(
    monkeypatch: pytest.MonkeyPatch, fold: Fold, flag: int, size: int, unfolds: bool
) -> None:
    monkeypatch.setattr(body_codec, "PLAIN_SIZE_MAX", 1_000)
    folded = fold(bytes(size))
    assert plain_body(folded, flag) == (bytes(size) if unfolds else folded)


def test_the_limit_leaves_room_for_every_body_a_producer_may_send() -> None:
    assert body_codec.PLAIN_SIZE_MAX >= 16 * 4 * 1024 * 1024


def test_real_stores_hold_all_three_kinds(golden: GoldenStores) -> None:
    """The decompressed bytes are compared in test_golden_records.py."""
    flags = {row["sysFlag"] for row in golden.manifest("basic")["records"]}
    assert {0x101, 0x201, 0x301} <= flags


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
