"""Measures ages for retention by a clock that ignores large forward changes for an hour.

The clock may have been set while the broker runs, or before its start. At a start, the clock is
compared with the latest time that the store has. A longer stop looks the same, and then files are
kept for an hour more. The believed time is stored, as the times of later records are those of the
wrong clock: so another start does not believe it sooner.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pocketmq.model.step import Now

CLOCK_AHEAD_MS: Final = 3_600_000
"""Largest forward change of the wall clock that takes effect at once."""
CLOCK_GRACE_MS: Final = 3_600_000
"""Time after which a larger forward change takes effect."""

logger = logging.getLogger(__name__)


class BelievedClock:
    """A wall clock that ignores a large forward change for CLOCK_GRACE_MS.

    seen_ms    latest wall time known from earlier, 0: none, and the first reading is believed
    saved_ms   time that an earlier process believed when the clock was far ahead, 0: it was not;
               it is used instead of `seen_ms`
    save       stores the new `saved_ms`
    """

    __slots__ = ("_ahead_since_ms", "_believed_ms", "_save", "_saved_ms", "_seen_ms", "_skew_ms")

    def __init__(
        self, seen_ms: int = 0, saved_ms: int = 0,
        save: Callable[[int], Coroutine[Any, Any, None]] | None = None,
    ) -> None:  # fmt: skip
        self._seen_ms = saved_ms or seen_ms
        self._saved_ms = saved_ms
        self._save = save
        self._believed_ms = saved_ms
        """Time that was believed when the clock was found ahead; 0: the clock is believed."""
        self._skew_ms: int | None = None
        self._ahead_since_ms: int | None = None

    def wall_ms(self, now: Now) -> int:
        """Returns the wall time by which ages are measured; has to be called periodically.

        Effects  logs a large forward change during the run once
        """
        skew_ms, since_ms = now.wall_ms - now.monotonic_ms, self._ahead_since_ms
        is_first = self._skew_ms is None
        if self._skew_ms is None:
            seen_skew_ms = self._seen_ms - now.monotonic_ms if self._seen_ms else skew_ms
            self._skew_ms = min(seen_skew_ms, skew_ms)
        if skew_ms <= self._skew_ms + CLOCK_AHEAD_MS:
            self._skew_ms, self._ahead_since_ms, self._believed_ms = skew_ms, None, 0
        elif since_ms is None:
            self._ahead_since_ms = now.monotonic_ms
            self._believed_ms = now.monotonic_ms + self._skew_ms
            if not is_first:  # A start after a longer stop is no cause for a warning.
                by_ms = skew_ms - self._skew_ms
                logger.warning(
                    "retention.clock_ahead", extra={"by_ms": by_ms, "grace_ms": CLOCK_GRACE_MS}
                )
        elif now.monotonic_ms - since_ms >= CLOCK_GRACE_MS:
            self._skew_ms, self._ahead_since_ms, self._believed_ms = skew_ms, None, 0
        assert self._skew_ms <= skew_ms, "the believed clock is ahead of the wall clock"
        return now.monotonic_ms + self._skew_ms

    def until_ms(self, now: Now) -> int:
        """Returns the wall time from which on the wall clock is believed; now, if it is."""
        if self._ahead_since_ms is None:
            return now.wall_ms
        return now.wall_ms + self._ahead_since_ms + CLOCK_GRACE_MS - now.monotonic_ms

    @property
    def needs_save(self) -> bool:
        """Whether `save` has to be called: the clock was found ahead, or is believed again."""
        return self._save is not None and self._believed_ms != self._saved_ms

    async def save(self) -> None:
        """Stores what a later start needs.

        Errors   DiskFull, StoreFailed
        """
        assert self._save is not None
        believed_ms = self._believed_ms
        await self._save(believed_ms)
        self._saved_ms = believed_ms
