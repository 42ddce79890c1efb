"""The phase of a start, and the time of each phase.

load        finds and maps files, drops incomplete ones
scan        searches the log's end
dispatch    gives queues and index the records they lack
settle      reads tables, makes everything durable
"""

from time import perf_counter
from typing import Final

from pocketmq.model.stats import Gauge, LabelValues, Stat
from pocketmq.model.step import Clock

PHASES: Final = ("load", "scan", "dispatch", "settle")
STARTING: Final = "starting"
RECOVERING: Final = "recovering"


class Starting:
    """One start, as it looks from outside: for health and metrics, before there is a store."""

    __slots__ = (
        "_begun", "_clock", "_phase", "progress", "seconds", "since_ms", "state", "stats",
        "truncated_bytes",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._phase = ""
        self._begun = 0.0
        self.state = STARTING
        """STARTING, or RECOVERING once the store is locked."""
        self.since_ms = clock.wall_ms()
        """Since when it is in its state, wall time."""
        self.seconds: dict[LabelValues, float] = {(phase,): 0.0 for phase in PHASES}
        self.progress = 0.0
        """Share of recovery that is done, 0 to 1."""
        self.truncated_bytes = 0
        """Bytes behind the last sound record that were zeroed."""
        self.stats: list[Stat] = [
            Gauge(
                "pocketmq_recovery_seconds",
                "Duration of each phase of the last start.",
                lambda: self.seconds,
                ("phase",),
            ),
            Gauge(
                "pocketmq_recovery_progress_ratio",
                "Share of recovery that is done.",
                lambda: self.progress,
            ),
            Gauge(
                "pocketmq_recovery_truncated_bytes",
                "Bytes that the last start truncated from the log.",
                lambda: float(self.truncated_bytes),
            ),
        ]

    def recover(self) -> None:
        """The store is locked, and recovery begins."""
        assert self.state == STARTING
        self.state, self.since_ms = RECOVERING, self._clock.wall_ms()

    def enter(self, phase: str) -> None:
        """Begins a phase; the one before ends."""
        now = perf_counter()
        if self._phase:
            self.seconds[self._phase,] += now - self._begun
        self._phase, self._begun = phase, now

    def end(self) -> None:
        """Recovery is over."""
        self.enter("")
        self.progress = 1.0
