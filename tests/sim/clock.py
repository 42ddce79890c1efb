"""A clock that only a test moves."""

from pocketmq.model.step import Now

START_MS = 1_795_000_000_000
"""A wall time on a full second: 2026-11-18 09:06:40 UTC."""


class FakeClock:
    """Wall and monotonic time in ms; a test may set `wall` to any time."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self.wall = wall_ms
        self.monotonic = 1_000_000

    def wall_ms(self) -> int:
        """Returns the wall time."""
        return self.wall

    def monotonic_ms(self) -> int:
        """Returns the monotonic time."""
        return self.monotonic

    def advance(self, by_ms: int) -> None:
        """Advances the clock."""
        self.wall += by_ms
        self.monotonic += by_ms


def at(monotonic_ms: int, wall_ms: int = START_MS) -> Now:
    """Returns the time as the argument of a step."""
    return Now(monotonic_ms, wall_ms)
