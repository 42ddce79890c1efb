"""Hashes of texts in a buffer are Java's, whatever the texts are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.columns.texts import LENGTH_MAX, hash_texts
from pocketmq.format.java_hash import WRAP, java_hash

texts = st.one_of(
    st.text(max_size=40),
    st.integers(0, 70).map(lambda length: ("order-0123456789ABCDEF" * 4)[:length]),
    st.sampled_from(["", "x" * LENGTH_MAX, "x" * (LENGTH_MAX + 1), "é" * 300, "😀" * 90_000]),
).map(lambda text: text.replace("\x02", ""))


def hashed(found: list[bytes], prefixes: list[int] | None = None) -> list[int]:
    noise = b"\xff\x7f#"
    buffer = bytearray(b"\xee" * 16)
    begins = []
    for text in found:
        begins.append(len(buffer))
        buffer += text + noise
    buffer += bytes(16)
    hashes: list[int] = hash_texts(
        buffer,
        np.array(begins, dtype=np.int64),
        np.array([len(text) for text in found], dtype=np.int64),
        None if prefixes is None else np.array(prefixes, dtype=np.uint32),
    ).tolist()
    return hashes


@settings(max_examples=120)
@given(st.lists(texts, max_size=12))
def test_hashes_are_javas(found: list[str]) -> None:
    encoded = [text.encode("utf-8", "surrogatepass") for text in found]
    wanted = [java_hash(text.decode("utf-8", "replace")) & WRAP for text in encoded]
    assert hashed(encoded) == wanted


@settings(max_examples=80)
@given(st.lists(st.tuples(texts, st.text(max_size=9)), max_size=12))
def test_a_prefix_counts_as_what_stands_before(found: list[tuple[str, str]]) -> None:
    pairs = [(text.encode("utf-8", "replace").decode(), before) for text, before in found
             if not any("\ud800" <= c <= "\udfff" for c in text + before)]  # fmt: skip
    wanted = [java_hash(before + text) & WRAP for text, before in pairs]
    prefixes = [java_hash(before) & WRAP for _, before in pairs]
    assert hashed([text.encode() for text, _ in pairs], prefixes) == wanted


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\x02", b"")), max_size=8))
def test_bytes_that_are_no_text_are_replaced_first(found: list[bytes]) -> None:
    wanted = [java_hash(text.decode("utf-8", "replace")) & WRAP for text in found]
    assert hashed(found) == wanted


def test_more_text_than_one_go_of_the_power_tables() -> None:
    found = [f"订单{number:>9}".encode() * 3 for number in range(3_000)]
    assert hashed(found) == [java_hash(text.decode()) & WRAP for text in found]


@pytest.mark.parametrize("prefix", [0, 1, 31, WRAP, 0x8000_0000])
def test_every_length_up_to_the_longest_that_is_hashed_at_once(prefix: int) -> None:
    """Also when all are long, all are short, or only one is."""
    text = bytes(33 + number % 90 for number in range(LENGTH_MAX + 20))
    every = [text[:length] for length in range(len(text))]
    for found in (every, every[300:310], every[:1], every[:9], every[8:17], [every[-1], b""]):
        wanted = [
            (java_hash(text.decode()) + prefix * pow(31, len(text), 1 << 32)) & WRAP
            for text in found
        ]
        assert hashed(found, [prefix] * len(found)) == wanted


def test_one_odd_text_among_many_leaves_the_others_alone() -> None:
    found = [b"k%d" % number for number in range(2_000)]
    found[700], found[1_300] = "键".encode(), b"x" * 70_000
    prefixes = list(range(2_000))
    wanted = [
        (java_hash(text.decode()) + prefix * pow(31, len(text.decode()), 1 << 32)) & WRAP
        for text, prefix in zip(found, prefixes, strict=True)
    ]
    assert hashed(found, prefixes) == wanted
