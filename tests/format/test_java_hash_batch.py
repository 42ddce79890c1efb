"""Many hashes at once are the hashes one by one."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.format.java_hash import java_hash, utf16_length
from broker.format.java_hash_batch import java_hashes

ASCII = st.text(st.characters(codec="ascii"))
ANY_TEXT = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]))
PIECES = st.sampled_from(["", "a", "k1", "中", "😀", "\ud83d", "x" * 70])
LIMIT = 65_536
"""Above so many characters in all, the work is cut into goes."""


def one_by_one(texts: list[str], prefixes: list[str] | None = None) -> list[int]:
    prefixes = prefixes or [""] * len(texts)
    return [java_hash(a + b) & 0xFFFFFFFF for a, b in zip(prefixes, texts, strict=True)]


def unsigned(text: str) -> int:
    return java_hash(text) & 0xFFFFFFFF


@given(st.lists(ASCII) | st.lists(ANY_TEXT) | st.lists(PIECES))
@example([])
@example([""])
@example(["", "a", "", ""])
@example(["\ud83d", "\ude00"])
@example(["polygenelubricants", "TopicA#k1", "中文", "😀"])
@settings(max_examples=300)
def test_hashes_of_any_texts(texts: list[str]) -> None:
    assert java_hashes(texts).tolist() == one_by_one(texts)


@given(st.lists(ANY_TEXT, min_size=1), ANY_TEXT)
@example([""], "")
def test_hashes_behind_one_prefix(texts: list[str], prefix: str) -> None:
    expected = one_by_one(texts, [prefix] * len(texts))
    assert java_hashes(texts, unsigned(prefix)).tolist() == expected


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1))
def test_hashes_behind_a_prefix_of_each(pairs: list[tuple[str, str]]) -> None:
    prefixes, texts = [prefix for prefix, _ in pairs], [text for _, text in pairs]
    hashed = np.array([unsigned(prefix) for prefix in prefixes], dtype=np.uint32)
    assert java_hashes(texts, hashed).tolist() == one_by_one(texts, prefixes)


def hash_of_repeats(letter: str, count: int, prefix: str = "") -> int:
    """Hash a letter repeated, as the sum of a geometric series: no step for each character."""
    power: int = 31 ** utf16_length(letter)
    series: int = (pow(power, count, (power - 1) << 32) - 1) // (power - 1)
    return (unsigned(prefix) * pow(power, count, 1 << 32) + unsigned(letter) * series) % 2**32


@pytest.mark.parametrize("letter", ["k", "中", "😀", "\ud83d"])
@pytest.mark.parametrize(
    "lengths",
    [
        [LIMIT - 1], [LIMIT], [LIMIT + 1], [3 * LIMIT + 7], [1, LIMIT - 2], [1, LIMIT - 1, 1],
        [LIMIT, LIMIT], [5, 0, LIMIT + 3, 0, 7, 2 * LIMIT, 0], [0, 3 * LIMIT, 0, 1], [100] * 2_000,
        [*range(600)],
    ],
    ids=lambda lengths: f"{len(lengths)} texts, {sum(lengths)}",
)  # fmt: skip
def test_long_texts_are_hashed_in_goes(letter: str, lengths: list[int]) -> None:
    texts = [letter * length for length in lengths]
    plain = [hash_of_repeats(letter, length) for length in lengths]
    prefixed = [hash_of_repeats(letter, length, "T#") for length in lengths]
    assert java_hashes(texts).tolist() == plain
    assert java_hashes(texts, unsigned("T#")).tolist() == prefixed


@given(st.lists(st.integers(0, 3 * LIMIT), max_size=4))
@settings(max_examples=20)
def test_long_texts_of_any_lengths(lengths: list[int]) -> None:
    letters = [chr(0x4E00 + number) for number in range(len(lengths))]
    pairs = list(zip(letters, lengths, strict=True))
    assert java_hashes([letter * length for letter, length in pairs]).tolist() == [
        hash_of_repeats(letter, length) for letter, length in pairs
    ]


@pytest.mark.parametrize("letter", ["k", "中", "😀"])
def test_the_series_is_the_hash(letter: str) -> None:
    assert hash_of_repeats(letter, 100, "T#") == unsigned("T#" + letter * 100)
