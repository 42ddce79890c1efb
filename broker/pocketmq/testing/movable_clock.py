"""The machine's clocks with a lead that a test can increase."""

from typing import Final

from pocketmq.model.step import SystemClock

MACHINE: Final = SystemClock()


class MovableClock:
    """Wall and monotonic time, both the same time ahead of the machine's.

    ahead_ms   how far, from the beginning
    """

    __slots__ = ("ahead_ms",)

    def __init__(self, ahead_ms: int = 0) -> None:
        assert ahead_ms >= 0, "monotonic time never goes back"
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        """Returns milliseconds since 1970, and the lead."""
        return MACHINE.wall_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        """Returns milliseconds since an arbitrary moment, and the lead."""
        return MACHINE.monotonic_ms() + self.ahead_ms

    def advance(self, by_ms: int) -> None:
        """Advances both clocks."""
        assert by_ms >= 0, "monotonic time never goes back"
        self.ahead_ms += by_ms
