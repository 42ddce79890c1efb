"""How often the configuration was read again, and when it was taken last."""

from collections.abc import Callable
from typing import Final

from broker.model.stats import Counter, Gauge, Stat

TAKEN: Final = "ok"
REFUSED: Final = "refused"


class Reloads:
    """Counts reloads; the start counts as the time of the first configuration, not as a reload."""

    __slots__ = ("_now_ms", "_taken_ms", "counter", "stats")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._taken_ms = now_ms()
        self.counter = Counter(
            "pocketmq_config_reload_total", "Reloads of the configuration.", ("result",)
        )
        for result in (TAKEN, REFUSED):
            self.counter.add((result,), 0)
        self.stats: list[Stat] = [
            self.counter,
            Gauge(
                "pocketmq_config_last_reload_timestamp_seconds",
                "When the configuration in force was read, seconds since 1970.",
                lambda: self._taken_ms / 1000,
            ),
        ]

    def note_taken(self) -> None:
        """Count a configuration that is in force now."""
        self._taken_ms = self._now_ms()
        self.counter.add((TAKEN,))

    def note_refused(self) -> None:
        """Count one that was refused as a whole."""
        self.counter.add((REFUSED,))
