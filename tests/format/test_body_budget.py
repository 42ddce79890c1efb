"""A call decompresses no more than its budget, and no body stops what lies behind it."""

import gzip
import zlib
from collections.abc import Callable
from typing import Final

import lz4.frame
import pytest
import zstandard

from pocketmq.format.body_codec import SHOWN_SIZE_MAX, BodyBudget, PlainBody, is_gzip

FLAG_ZLIB: Final = 0x301
Fold = Callable[[bytes], bytes]
CODECS: list[tuple[Fold, int, str]] = [
    (lz4.frame.compress, 0x101, "lz4"), (zstandard.compress, 0x201, "zstd"),
    (zlib.compress, FLAG_ZLIB, "zlib"), (gzip.compress, 0x001, "zlib"),
]  # fmt: skip
every_codec = pytest.mark.parametrize(("fold", "flag", "name"), CODECS)


def budget(bytes_max: int = 1_000, body_max: int = 1_000) -> BodyBudget:
    return BodyBudget(bytes_max, body_max=body_max)


@every_codec
def test_a_body_within_the_budget_is_decompressed_and_counted(
    fold: Fold, flag: int, name: str
) -> None:
    one = budget()
    assert one.plain(fold(bytes(600)), flag) == PlainBody(bytes(600))
    assert one.left_bytes == 400


@every_codec
def test_a_body_beyond_what_is_left_belongs_to_the_next_call(
    fold: Fold, flag: int, name: str
) -> None:
    one = budget()
    one.plain(fold(bytes(600)), flag)
    assert one.plain(fold(bytes(401)), flag) is None
    assert one.plain(fold(bytes(1)), flag) is None
    assert one.plain(b"plain", 0) == PlainBody(b"plain")
    assert budget().plain(fold(bytes(401)), flag) == PlainBody(bytes(401))


@every_codec
def test_a_body_too_large_for_any_call_is_given_as_it_is_stored(
    fold: Fold, flag: int, name: str
) -> None:
    stored = fold(bytes(1_001))
    one = budget(2_500)
    assert one.plain(stored, flag) == PlainBody(stored, name)
    assert one.left_bytes == 1_500, "what was decompressed in vain counts"
    assert one.plain(stored, flag) == PlainBody(stored, name)
    assert one.plain(stored, flag) is None
    assert budget().plain(fold(bytes(1_000)), flag) == PlainBody(bytes(1_000))


@every_codec
def test_behind_a_spent_budget_bodies_may_be_given_as_they_are_stored(
    fold: Fold, flag: int, name: str
) -> None:
    one, stored = budget(), fold(bytes(900))
    assert one.plain_or_stored(stored, flag) == PlainBody(bytes(900))
    assert one.plain_or_stored(stored, flag) == PlainBody(stored, name)


@every_codec
def test_a_falsely_flagged_body_costs_nothing(fold: Fold, flag: int, name: str) -> None:
    one = budget()
    assert one.plain(b"plain text", flag) == PlainBody(b"plain text")
    assert one.plain(b"", flag) == PlainBody(b"")
    assert one.left_bytes == 1_000


def test_only_a_body_in_gzip_is_what_clients_decompress() -> None:
    packed = gzip.compress(b"x")
    assert is_gzip(packed, 0x001)
    assert is_gzip(packed, FLAG_ZLIB)
    assert not is_gzip(packed, 0)
    assert not is_gzip(packed, 0x101)
    assert not is_gzip(zlib.compress(b"x"), 0x001)


def test_a_reply_holds_what_one_call_decompresses() -> None:
    assert BodyBudget().left_bytes == SHOWN_SIZE_MAX < 16 * 1024 * 1024
