"""LIKE in linear time: "%" matches any characters, "_" one character.

"%" splits a pattern into parts. The text must begin with the first part and end with the last. Each
other part is searched after the match of the previous part; the first match suffices.

A pattern with a long part that contains "_" is matched by an automaton, whose states are the bits
of one number. Bit i means that the first i characters of the pattern, without "%", match the text
so far. A state before "%" stays set.
"""

import re
from collections.abc import Callable
from typing import Final

MANY: Final = "%"
ONE: Final = "_"
PART_SIZE_MAX: Final = 16
"""Longest part with "_" that is searched. A search may compare the whole part at each position of
the text, so longer parts are matched by the automaton."""
AUTOMATON_WEIGHT: Final = 300
"""Estimated nanoseconds per character of the text; the unit of `weight_of`."""
STEP_WEIGHT: Final = 4
PLAIN_WEIGHT: Final = 2


def matcher(pattern: str, escape: str = "") -> Callable[[str], bool]:
    """Returns a predicate for texts that match a pattern.

    escape   character that makes the next character literal; "" for none
    Errors   ValueError: the pattern ends with the escape character
    """
    steps = _steps(pattern, escape)
    plain = "".join(step for step, is_literal in steps if is_literal)
    wild = [step for step, is_literal in steps if not is_literal]
    if not wild:
        return plain.__eq__
    if wild == [MANY] and steps[-1] == (MANY, False):
        return lambda text: text.startswith(plain)
    if wild == [MANY] and steps[0] == (MANY, False):
        return lambda text: text.endswith(plain)
    if wild == [MANY, MANY] and steps[0] == steps[-1] == (MANY, False):
        return lambda text: plain in text
    parts = _parts(steps)
    return _automaton(steps) if _is_long(parts) else _searched(parts)


def weight_of(pattern: str, escape: str = "") -> int:
    """Returns the estimated cost of a pattern in nanoseconds per character of a text.

    Errors   ValueError, as for `matcher`
    """
    parts = _parts(_steps(pattern, escape))
    if _is_long(parts):
        return AUTOMATON_WEIGHT
    wild = [len(part) for part in parts if (ONE, False) in part]
    return PLAIN_WEIGHT + STEP_WEIGHT * max(wild, default=0)


_Part = list[tuple[str, bool]]


def _parts(steps: _Part) -> list[_Part]:
    parts: list[_Part] = [[]]
    for step in steps:
        if step == (MANY, False):
            parts.append([])
        else:
            parts[-1].append(step)
    return parts


def _is_long(parts: list[_Part]) -> bool:
    return any(len(part) > PART_SIZE_MAX and (ONE, False) in part for part in parts)


Find = Callable[[str, int], int]


def _finder(part: _Part) -> Find:
    """Returns a function that finds a part from a position on; -1 if the part does not occur."""
    plain = "".join(step for step, _ in part)
    if all(is_literal for _, is_literal in part):
        return lambda text, begin: text.find(plain, begin)
    pattern = "".join(re.escape(step) if is_literal else "." for step, is_literal in part)
    search = re.compile(pattern, re.DOTALL).search

    def find(text: str, begin: int) -> int:
        found = search(text, begin)
        return -1 if found is None else found.start()

    return find


def _searched(parts: list[_Part]) -> Callable[[str], bool]:
    finders = [(_finder(part), len(part)) for part in parts]
    (find_first, first_size), (find_last, last_size) = finders[0], finders[-1]
    between = [(find, size) for find, size in finders[1:-1] if size]
    is_whole = len(parts) == 1

    def fits(text: str) -> bool:
        if is_whole:
            return len(text) == first_size and find_first(text, 0) == 0
        if len(text) < first_size + last_size or find_first(text[:first_size], 0) != 0:
            return False
        at, end = first_size, len(text) - last_size
        for find, size in between:
            at = find(text, at)
            if at < 0:
                return False
            at += size
        return at <= end and find_last(text[end:], 0) == 0

    return fits


def _steps(pattern: str, escape: str) -> list[tuple[str, bool]]:
    steps: list[tuple[str, bool]] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError("the pattern ends with its escape character")
            steps.append((following, True))
        else:
            steps.append((character, character not in (MANY, ONE)))
    return steps


def _automaton(steps: list[tuple[str, bool]]) -> Callable[[str], bool]:
    stays, any_of, count = 0, 0, 0
    takes: dict[str, int] = {}
    for step, is_literal in steps:
        if is_literal:
            takes[step] = takes.get(step, 0) | 1 << count
        elif step == ONE:
            any_of |= 1 << count
        else:
            stays |= 1 << count
            continue
        count += 1
    takes = {character: states | any_of for character, states in takes.items()}

    def fits(text: str) -> bool:
        states = 1
        for character in text:
            states = (states & takes.get(character, any_of)) << 1 | states & stays
            if not states:
                return False
        return bool(states >> count & 1)

    return fits
