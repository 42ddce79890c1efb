"""Finds the name that the user of a mistyped one probably meant."""

from collections.abc import Iterable
from typing import Final

FAR: Final = 0.5
"""Minimum similarity for a few fixed names, as difflib measures it (0 to 1)."""
NEAR: Final = 0.75
"""The same for names that users choose, which may resemble each other."""


def nearest(name: str, known: Iterable[str], similarity: float = FAR) -> str:
    """Returns the most similar other name, whatever its case; "" if none is similar enough."""
    from difflib import get_close_matches  # Only an error needs it.

    by_lower_case = {other.lower(): other for other in known if other != name}
    near = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=similarity)
    return by_lower_case[near[0]] if near else ""
