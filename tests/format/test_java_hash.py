"""Java's String.hashCode: values printed by a JVM, and the definition as an oracle."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.format.java_hash import java_hash, powers_down, tags_code, utf16_length

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
    ("text", "length"), [("", 0), ("abc", 3), ("中文", 2), ("😀", 2), ("\ud83d", 1), ("a😀b", 4)]
)
def test_length_is_counted_as_java_counts(text: str, length: int) -> None:
    assert utf16_length(text) == length


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
