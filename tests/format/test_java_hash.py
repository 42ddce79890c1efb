"""Java's String.hashCode, alone and of many texts at once; and the checksum, which is zlib's."""

import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pocketmq.format.java_hash import java_hash, java_hashes, powers_down, tags_code
from pocketmq.format.layout import CRC_MASK, crc32

ANY_TEXT = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]))
"""Lone surrogates too: Java strings may hold them."""

OF_A_JVM = [
    ("", 0),
    ("a", 97),
    ("TagA", 2_598_919),
    ("TagB", 2_598_920),
    ("hello", 99_162_322),
    ("polygenelubricants", -(2**31)),
    ("中文", 646_394),
    ("😀", 1_772_899),
    ("Aa", 2_112),
    ("BB", 2_112),
    ("TopicA", -1_784_167_150),
    ("TopicA#7F0000010001000000000000000A0001", 24_608_788),
    ("TopicA#k1", -1_903_240_649),
    ("TopicA#k2", -1_903_240_648),
]


def horner(text: str) -> int:
    """Hash as the definition says, unit by unit."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[position : position + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(("text", "hashed"), OF_A_JVM)
def test_a_hash_is_what_a_jvm_prints(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


@given(ANY_TEXT)
@example("\ud83d\ude00")
@example("\ude00\ud83d")
@example("\uffff\U0010ffff")
@settings(max_examples=300)
def test_a_hash_is_what_the_definition_says(text: str) -> None:
    assert java_hash(text) == horner(text)
    assert -(2**31) <= java_hash(text) < 2**31


def test_a_character_outside_the_plane_counts_as_its_two_surrogates() -> None:
    assert java_hash("😀") == java_hash("\ud83d\ude00") == 31 * 0xD83D + 0xDE00


def test_a_long_text() -> None:
    text = "Ab中😀" * 4_000
    assert java_hash(text) == horner(text)


def test_powers_run_down_to_one() -> None:
    assert powers_down(0) == ()
    assert powers_down(3) == (961, 31, 1)
    assert powers_down(8)[0] == 31**7 % 2**32


@pytest.mark.parametrize(
    ("tag", "field"),
    [
        ("", "0000000000000000"), ("a", "0000000000000061"), ("TagA", "000000000027a807"),
        ("TagB", "000000000027a808"), ("hello", "0000000005e918d2"),
        ("polygenelubricants", "ffffffff80000000"), ("中文", "000000000009dcfa"),
        ("😀", "00000000001b0d63"), ("BB", "0000000000000840"),
    ],
)  # fmt: skip
def test_a_tags_code_is_the_hash_sign_extended(tag: str, field: str) -> None:
    assert tags_code(tag).to_bytes(8, "big", signed=True).hex() == field


ASCII = st.text(st.characters(codec="ascii"))
PIECES = st.sampled_from(["", "a", "k1", "中", "😀", "\ud83d", "x" * 70])
LIMIT = 16_384
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
    power: int = 31 ** (len(letter.encode("utf-16-le", "surrogatepass")) // 2)
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


@pytest.mark.parametrize("letter", ["k", "中", "😀"])
def test_the_series_is_the_hash(letter: str) -> None:
    assert hash_of_repeats(letter, 100, "T#") == unsigned("T#" + letter * 100)


@given(st.binary(max_size=5_000))
def test_it_is_the_crc_of_zlib(content: bytes) -> None:
    assert crc32(content) == zlib.crc32(content)
    assert crc32(memoryview(content)) & CRC_MASK == zlib.crc32(content) & 0x7FFFFFFF
