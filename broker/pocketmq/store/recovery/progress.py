"""The phase of a start, and the duration of each phase.

load        reads tables, finds files, and removes incomplete views
scan        finds the log's end
dispatch    dispatches the records that queues and index lack
settle      syncs files, and clamps the offsets in tables
"""

from time import perf_counter
from typing import Final

from pocketmq.model.stats import Gauge, LabelValues, Stat
from pocketmq.model.step import Clock

PHASES: Final = ("load", "scan", "dispatch", "settle")
STARTING: Final = "starting"
RECOVERING: Final = "recovering"


class Starting:
    """State of one start for health and metrics, while the store is not open yet."""

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
        """Wall time at which the state began, ms."""
        self.seconds: dict[LabelValues, float] = {(phase,): 0.0 for phase in PHASES}
        self.progress = 0.0
        """Finished share of the recovery, 0 to 1."""
        self.truncated_bytes = 0
        """Bytes after the last valid record that were zeroed."""
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
        """Enters RECOVERING: the store is locked."""
        assert self.state == STARTING
        self.state, self.since_ms = RECOVERING, self._clock.wall_ms()

    def enter(self, phase: str) -> None:
        """Ends the present phase and begins the next."""
        now = perf_counter()
        if self._phase:
            self.seconds[self._phase,] += now - self._begun
        self._phase, self._begun = phase, now

    def end(self) -> None:
        """Ends the last phase."""
        self.enter("")
        self.progress = 1.0
