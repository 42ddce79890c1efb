"""Figures of benches and batteries: rounds that alternate, medians, Markdown tables."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Self, TypeVar

from harness.process import tell

Item = TypeVar("Item")
Measured = TypeVar("Measured")


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

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its row of a table."""
        measured = f"{self.value:.2f} {self.unit} {spread(self.rounds)}"
        return self.what, self.wanted or "–", measured


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


def turns(items: Sequence[Item], number: int) -> list[Item]:
    """Returns items in an order that differs from one round to the next.

    Every item comes first once in as many rounds as there are items, so that none always pays for
    what the one before it left behind.
    """
    begin = number % len(items)
    turned = [*items[begin:], *items[:begin]]
    return turned if number // len(items) % 2 == 0 else turned[::-1]


def alternated(
    rounds: int, subjects: Mapping[Item, Callable[[], Measured]], **told: object
) -> dict[Item, list[Measured]]:
    """Measures all subjects in every round, in an order that changes; returns the rounds of each.

    told   what is shown with each round on standard error
    """
    found: dict[Item, list[Measured]] = {name: [] for name in subjects}
    for number in range(rounds):
        for name in turns([*subjects], number):
            found[name].append(subjects[name]())
        last: dict[str, Any] = {str(name): runs[-1] for name, runs in found.items()}
        tell({"round": number, **told, **last})
    return found


def ratios(over: Iterable[float], under: Iterable[float]) -> list[float]:
    """Returns one side by the other, round by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def spread(rounds: Sequence[float]) -> str:
    """Returns the lowest and the highest of some rounds."""
    return f"[{min(rounds):.2f} to {max(rounds):.2f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; each row stays on one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |".replace("\n", " ") for row in lines)
