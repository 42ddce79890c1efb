"""LIKE against the plainest matcher there is, and the time it takes."""

from functools import cache
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.filter.sql.like import matcher

PATTERNS = st.text("ab%_!", max_size=9)


def fits(pattern: str, text: str) -> bool:
    @cache
    def from_here(place: int, position: int) -> bool:
        if place == len(pattern):
            return position == len(text)
        rest = position < len(text)
        if pattern[place] == "%":
            return from_here(place + 1, position) or (rest and from_here(place, position + 1))
        here = rest and pattern[place] in ("_", text[position])
        return here and from_here(place + 1, position + 1)

    return from_here(0, 0)


@given(PATTERNS, st.text("ab", max_size=12))
def test_every_pattern_fits_what_it_should(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) == fits(pattern, text)


@given(st.text("ab%_!", max_size=9))
def test_an_escaped_text_fits_itself_alone(text: str) -> None:
    escaped = "".join("!" + c if c in "%_!" else c for c in text)
    test = matcher(escaped, "!")
    assert test(text)
    assert not test(text + "a")
    assert not test("b" + text)


def test_time_grows_with_the_text() -> None:
    # By backtracking this pattern takes longer than the universe has; by states, milliseconds.
    test = matcher("%a_" * 60 + "b")
    begin = process_time()
    assert not test("a" * 20_000)
    assert process_time() - begin < 5
