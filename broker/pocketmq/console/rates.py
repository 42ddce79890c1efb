"""Computes a broker's recent rates from the differences between its counts at two times."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

POINTS: Final = 90
"""Points of the plot: three minutes at one point every two seconds."""
LEAST_S: Final = 1.0
"""Minimum time between two points, in seconds."""
STALE_S: Final = 240.0
"""Age in seconds above which the last point is too old to compute a rate from."""


@dataclass
class RecentFlow:
    """The last rates, a second: messages in and out, bytes of the log."""

    incoming: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    outgoing: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    bytes_in: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    last_s: float = 0.0
    last: tuple[int, int, int] = (0, 0, 0)

    def add(self, now_s: float, stored: int, consumed: int, appended: int) -> None:
        """Adds a point for the counts at a time."""
        passed_s, now = now_s - self.last_s, (stored, consumed, appended)
        if passed_s < LEAST_S:
            return
        if self.last_s and passed_s < STALE_S:
            for rates, then, value in zip(
                (self.incoming, self.outgoing, self.bytes_in), self.last, now, strict=True
            ):
                rates.append(max(value - then, 0) / passed_s)
        elif self.last_s:
            for rates in (self.incoming, self.outgoing, self.bytes_in):
                rates.clear()
        self.last_s, self.last = now_s, now
        assert len(self.incoming) == len(self.outgoing), "a rate is missing"
