"""Geometry of SVG pictures: lines, bars and histograms, as attributes only."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

LEAST_SHARE: Final = 0.01
"""Share of the width that the bar of a value above 0 has at least."""


class HistogramBar(NamedTuple):
    """A column of a histogram."""

    x: float
    y: float
    width: float
    height: float
    value: float
    label: str


def nice_ceiling(value: float) -> float:
    """Returns the smallest of 1, 2, 5 · 10^n that is not below a value; 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)


def line(values: Sequence[float], width: float, height: float, top: float, slots: int) -> str:
    """Returns the points of a polyline that ends at the right edge.

    top     value at the upper edge
    slots   number of values that the width has room for
    """
    if not values:
        return ""
    step = width / max(slots - 1, 1)
    shown = values[-slots:]
    left = width - step * (len(shown) - 1)
    return " ".join(
        f"{left + step * at:.1f},{height - height * min(value / top, 1.0):.1f}"
        for at, value in enumerate(shown)
    )


def area(values: Sequence[float], width: float, height: float, top: float, slots: int) -> str:
    """Returns the points of the polygon below a `line`."""
    points = line(values, width, height, top, slots)
    if not points:
        return ""
    left = points.partition(",")[0]
    return f"{left},{height:.1f} {points} {width:.1f},{height:.1f}"


def share(value: float, largest: float, width: float = 100.0) -> float:
    """Returns the length of a bar; that of a value above 0 is visible."""
    if value <= 0 or largest <= 0:
        return 0.0
    return round(max(min(value / largest, 1.0), LEAST_SHARE) * width, 2)


def histogram(
    rows: Sequence[tuple[str, float]], width: float, height: float, gap: float = 1.0
) -> list[HistogramBar]:
    """Returns the columns of a histogram, scaled to the largest value.

    rows   pairs of label and value
    """
    largest = max((value for _, value in rows), default=0.0)
    step = width / max(len(rows), 1)
    bars = []
    for at, (label, value) in enumerate(rows):
        tall = share(value, largest, height) if value else 0.0
        if value and ceil(tall) < 2:
            tall = 2.0
        bars.append(
            HistogramBar(step * at, height - tall, max(step - gap, 0.5), tall, value, label)
        )
    return bars
