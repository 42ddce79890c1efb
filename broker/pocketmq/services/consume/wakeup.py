"""Time of the next step of consuming; components with an earlier need request it here."""

from pocketmq.model.step import Next
from pocketmq.store.watermark import Watermark


class Wakeup:
    """The time of the next call, in monotonic ms, and the mark that calls earlier."""

    __slots__ = ("_at_ms", "_mark")

    def __init__(self) -> None:
        self._at_ms = 0
        self._mark = Watermark()

    def by(self, at_ms: int) -> None:
        """Requests a step at a time, if the next one is later."""
        if at_ms < self._at_ms:
            self._at_ms = at_ms
            assert at_ms >= 0, "clocks begin at 0"
            self._mark.advance(self._mark.value + 1)

    def next(self, at_ms: int) -> Next:
        """Returns the time of the next step, or an earlier one if a component requests it."""
        self._at_ms = at_ms
        return Next(at_ms, self._mark, self._mark.value + 1)
