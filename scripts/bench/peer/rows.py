"""Rows of the comparison: the measured quantity, its goal, and the result."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, NamedTuple

from harness.figures import spread

HELD: Final = "held"
FLOOR: Final = "floor only"
MISSED: Final = "missed"
NOT_RUN: Final = "not run"
HEAD: Final = ("row", "goal (floor)", "median [lowest to highest]", "", "both sides")


class Aim(NamedTuple):
    """Goal of a row, as a minimum or maximum, and the worst value that still passes."""

    goal: float
    floor: float | None = None
    at_most: bool = False

    def verdict(self, value: float) -> str:
        """Returns the verdict on a value: held, floor only, or missed."""
        if self._is_met(value, self.goal):
            return HELD
        if self.floor is not None and self._is_met(value, self.floor):
            return FLOOR
        return MISSED

    def _is_met(self, value: float, bound: float) -> bool:
        return value <= bound if self.at_most else value >= bound

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        least = "" if self.floor is None else f" ({self.floor:g})"
        return f"{sign} {self.goal:g}{least}"


class Row(NamedTuple):
    """One ratio with its rounds; `plain` shows the values of both sides, for information only."""

    name: str
    what: str
    aim: Aim | None
    rounds: Sequence[float]
    plain: str = ""
    why: str = ""

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def verdict(self) -> str:
        """Held, floor only or missed; not run: there are no rounds; –: there is no aim."""
        if not self.rounds:
            return NOT_RUN
        return "–" if self.aim is None else self.aim.verdict(self.value)

    @property
    def document(self) -> dict[str, object]:
        """The row as a JSON document."""
        return {
            "name": self.name, "what": self.what, "verdict": self.verdict, "plain": self.plain,
            "aim": None if self.aim is None else self.aim._asdict(), "rounds": [*self.rounds],
            "value": self.value if self.rounds else None, "why": self.why,
        }  # fmt: skip

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The row as cells of the table with `HEAD`."""
        aim = "–" if self.aim is None else str(self.aim)
        measured = f"{self.value:.2f} {spread(self.rounds)}" if self.rounds else "–"
        return self.what, aim, measured, self.verdict, self.plain or self.why


def sides(ours: Iterable[float], other: Iterable[float], unit: str, digits: int = 0) -> str:
    """Returns the medians of both sides as text."""
    own, real = median([*ours]), median([*other])
    return f"{own:,.{digits}f} against {real:,.{digits}f} {unit}"
