"""Lays out a map of the log: one square for each part, in the colour of its topic."""

from collections.abc import Sequence
from typing import Final, NamedTuple

ROW: Final = 60
"""Squares of one row."""
CELL: Final = 12
"""Distance between the left edges of two neighbours, in pixels."""
COLOURS: Final = 6
"""Topics with a colour of their own; the others share one."""
OTHER: Final = "t-other"
NONE: Final = "t-none"


class Square(NamedTuple):
    """A part of the log, as an SVG rectangle."""

    x: int
    y: int
    colour: str
    title: str


class LegendRow(NamedTuple):
    """A row of the map's legend: a colour, its topic, and the bytes of its records."""

    colour: str
    topic: str
    size_bytes: int


def square_at(number: int, colour: str, title: str) -> Square:
    """Returns the square of a part by its number."""
    assert number >= 0, "a part before the first one"
    return Square(number % ROW * CELL, number // ROW * CELL, colour, title)


def colours_of(topics: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Returns topic -> colour of the largest topics; `topics` are sorted, the largest first."""
    return {topic: f"t{at}" for at, (topic, _) in enumerate(topics[:COLOURS])}


def legend_of(topics: Sequence[tuple[str, int]]) -> list[LegendRow]:
    """Returns the legend of a map; topics without a colour of their own share its last row."""
    legend = [LegendRow(f"t{at}", *pair) for at, pair in enumerate(topics[:COLOURS])]
    if len(topics) > COLOURS:
        rest = sum(size for _, size in topics[COLOURS:])
        count = len(topics) - COLOURS
        name = "1 further topic" if count == 1 else f"{count} further topics"
        legend.append(LegendRow(OTHER, name, rest))
    return legend
