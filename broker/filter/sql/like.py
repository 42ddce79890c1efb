"""LIKE: "%" stands for any characters, "_" for one; time grows with the text, never faster.

The pattern is an automaton whose states are the bits of one number: bit i says that the first i
characters of the pattern, "%" not counted, fit what was read. A state that "%" follows stays.
"""

from collections.abc import Callable
from typing import Final

MANY: Final = "%"
ONE: Final = "_"


def matcher(pattern: str, escape: str = "") -> Callable[[str], bool]:
    """Return what tells whether a text fits a pattern.

    escape   a character that takes the meaning from the one behind it, "" for none
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
    return _automaton(steps)


def _steps(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return the characters of a pattern, each with whether it stands for itself."""
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
