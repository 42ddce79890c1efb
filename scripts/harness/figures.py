"""Figures of benches and batteries: alternating rounds, medians, Markdown tables."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Self, TypeVar

from harness.process import tell

Item = TypeVar("Item")
Measured = TypeVar("Measured")


class Figure(NamedTuple):
    """One measured number; `wanted` is the goal as text, such as "≥ 0.8"."""

    name: str
    what: str
    value: float
    unit: str
    wanted: str
    rounds: list[float]

    @classmethod
    def of(cls, name: str, what: str, rounds: Iterable[float], unit: str, wanted: str = "") -> Self:
        """Returns the figure with the median of some rounds."""
        values = [*rounds]
        return cls(name, what, median(values), unit, wanted, values)

    def line(self) -> str:
        """Returns the figure as a JSON document."""
        return json.dumps(self._asdict(), ensure_ascii=False)

    @property
    def cells(self) -> tuple[str, str, str]:
        """The figure as a row of a table."""
        measured = f"{self.value:.2f} {self.unit} {spread(self.rounds)}"
        return self.what, self.wanted or "–", measured


class Extent(NamedTuple):
    """Size of a measurement; at scale 1 a figure takes about a minute."""

    rounds: int = 5
    scale: float = 1.0

    def count(self, value: int) -> int:
        """Returns a scaled number, at least 1."""
        return max(1, round(value * self.scale))

    def seconds(self, value: float) -> float:
        """Returns the scaled duration of a load run, at least half a second."""
        return max(0.5, value * self.scale)


def turns(items: Sequence[Item], number: int) -> list[Item]:
    """Returns items in the order of round `number`: rotated by one each round, at times reversed.

    Each item is first equally often, so that none always runs after the same other item.
    """
    begin = number % len(items)
    turned = [*items[begin:], *items[:begin]]
    return turned if number // len(items) % 2 == 0 else turned[::-1]


def alternated(
    rounds: int, subjects: Mapping[Item, Callable[[], Measured]], **told: object
) -> dict[Item, list[Measured]]:
    """Measures all subjects in every round, in changing order; returns the rounds of each.

    told   fields printed with each round on standard error
    """
    found: dict[Item, list[Measured]] = {name: [] for name in subjects}
    for number in range(rounds):
        for name in turns([*subjects], number):
            found[name].append(subjects[name]())
        last: dict[str, Any] = {str(name): runs[-1] for name, runs in found.items()}
        tell({"round": number, **told, **last})
    return found


def ratios(over: Iterable[float], under: Iterable[float]) -> list[float]:
    """Returns `over` ÷ `under` by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def spread(rounds: Sequence[float]) -> str:
    """Returns the lowest and the highest value of some rounds, as text."""
    return f"[{min(rounds):.2f} to {max(rounds):.2f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; each row stays on one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |".replace("\n", " ") for row in lines)
