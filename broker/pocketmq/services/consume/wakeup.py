"""Time of the next step of consuming; components request an earlier step here."""

from pocketmq.model.step import Next
from pocketmq.store.watermark import Watermark


class Wakeup:
    """Time of the next step, in monotonic ms."""

    __slots__ = ("_at_ms", "_mark")

    def __init__(self) -> None:
        self._at_ms = 0
        self._mark = Watermark()

    def by(self, at_ms: int) -> None:
        """Requests a step at a time, unless an earlier step is planned."""
        if at_ms < self._at_ms:
            self._at_ms = at_ms
            assert at_ms >= 0, "negative time"
            self._mark.advance(self._mark.value + 1)

    def next(self, at_ms: int) -> Next:
        """Plans the next step for a time; it runs earlier if `by` requests that."""
        self._at_ms = at_ms
        return Next(at_ms, self._mark, self._mark.value + 1)
