"""Tag expressions: what they let through, by hash and by tag, and which are refused."""

import pytest

from pocketmq.filter.tag import EVERYTHING, parse
from pocketmq.format.java_hash import tags_code
from pocketmq.model.errors import IllegalFilter


@pytest.mark.parametrize("expression", ["", "*", "  ", " * "])
def test_everything_passes_messages_without_a_tag_too(expression: str) -> None:
    found = parse(expression, tags_code)
    assert found is EVERYTHING
    assert found.matches_code(0)
    assert found.matches_tag(None)
    assert found.matches_tag("TagA")


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        ("  TagA ||  TagB  ", {"TagA", "TagB"}),
        ("TagA || TagA", {"TagA"}),
        ("TagA ||", {"TagA"}),
        ("|| TagA || || 中文", {"TagA", "中文"}),
        ("two words", {"two words"}),
        ("a*", {"a*"}),
    ],
)
def test_tags_are_split_and_trimmed(expression: str, tags: set[str]) -> None:
    assert parse(expression, tags_code).tags == tags


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("||", "no tag"),
        (" || || ", "no tag"),
        ("* || TagA", "cannot be combined"),
        ("a | b", "separated by"),
        ("a ||| b", "separated by"),
        ("a\nb", "control"),
        ("a\x00", "control"),
    ],
)
def test_bad_expressions_are_refused(expression: str, why: str) -> None:
    with pytest.raises(IllegalFilter, match=why):
        parse(expression, tags_code)


def test_the_low_32_bits_of_a_code_decide() -> None:
    found = parse("TagA || polygenelubricants", tags_code)
    assert found.matches_code(2598919)
    assert found.matches_code(-(2**31)), "a negative hash, sign-extended"
    assert found.matches_code(2**31), "the same hash, as unsigned"
    assert found.matches_code(2598919 + (7 << 32))
    assert not found.matches_code(2598920)
    assert not found.matches_code(0), "a message without a tag"


def test_colliding_tags_are_told_apart_by_their_text() -> None:
    found = parse("Aa", tags_code)
    assert found.matches_code(tags_code("BB"))
    assert not found.matches_tag("BB")
    assert found.matches_tag("Aa")
    assert not found.matches_tag(None)


def test_an_extension_address_passes_so_that_the_tag_decides() -> None:
    found = parse("TagA", tags_code)
    assert found.matches_code(-(2**63) + 20)
    assert not found.matches_code(-(2**31) + 1)
