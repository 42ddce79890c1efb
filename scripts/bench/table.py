"""Parts that every benchmark shares, and the printing of figures."""

import json
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple, Self, TypeVar

Item = TypeVar("Item")


class Figure(NamedTuple):
    """One measured number; `wanted` is text such as "≥ 0.8"."""

    name: str
    what: str
    value: float
    unit: str
    wanted: str
    rounds: list[float]

    @classmethod
    def of(cls, name: str, what: str, rounds: Iterable[float], unit: str, wanted: str = "") -> Self:
        """Returns the median of some rounds."""
        values = [*rounds]
        return cls(name, what, median(values), unit, wanted, values)

    def line(self) -> str:
        """Returns it as a JSON document."""
        return json.dumps(self._asdict(), ensure_ascii=False)


class Extent(NamedTuple):
    """How much is measured; scale 1 gives every figure about a minute, 0.1 a quick look."""

    rounds: int = 5
    scale: float = 1.0

    def count(self, value: int) -> int:
        """Returns how many of something, 1 at least."""
        return max(1, round(value * self.scale))

    def seconds(self, value: float) -> float:
        """Returns how long a load run takes; below half a second nothing can be told."""
        return max(0.5, value * self.scale)


def table(figures: Sequence[Figure]) -> str:
    """Returns the rows of a Markdown table."""
    lines = ["| figure | wanted | measured |", "|---|---|---|"]
    for row in figures:
        spread = f"[{min(row.rounds):.2f} to {max(row.rounds):.2f}]"
        lines.append(f"| {row.what} | {row.wanted or '–'} | {row.value:.2f} {row.unit} {spread} |")
    return "\n".join(lines)


def turns(items: Sequence[Item], number: int) -> list[Item]:
    """Returns items in an order that differs from one round to the next.

    Every item comes first once in as many rounds as there are items, so that none always pays for
    what the one before it left behind.
    """
    begin = number % len(items)
    turned = [*items[begin:], *items[:begin]]
    return turned if number // len(items) % 2 == 0 else turned[::-1]
