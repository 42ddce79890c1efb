"""What metrics show of a whole store: distances between its watermarks, its state, its disk.

Computed when somebody looks, never on the way of a message.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from broker.model.stats import Gauge, LabelValues

STATES: Final = (
    "starting", "recovering", "running", "disk_full", "read_only", "damaged", "draining", "failed",
)  # fmt: skip


class StoreNumbers(Protocol):
    """The numbers of a store that gauges are made of; offsets in bytes of the log."""

    @property
    def state(self) -> str:
        """Which of STATES it is in."""

    @property
    def appended(self) -> int:
        """Behind the last record."""

    @property
    def flushed(self) -> int:
        """Below it everything is durable."""

    @property
    def dispatched(self) -> int:
        """Below it every view has every record."""

    @property
    def behind_count(self) -> int:
        """Records that wait for dispatch."""


def store_gauges(store: StoreNumbers) -> Sequence[Gauge]:
    """Return gauges that read the store's numbers."""

    def states() -> dict[LabelValues, float]:
        return {(state,): float(store.state == state) for state in STATES}

    def dispatch_behind() -> float:
        return float(max(store.appended - store.dispatched, 0))

    def flush_behind() -> float:
        return float(max(store.appended - store.flushed, 0))

    return [
        Gauge("pocketmq_store_state", "Which state the store is in.", states, ("state",)),
        Gauge(
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the log that no view has yet.",
            dispatch_behind,
        ),
        Gauge(
            "rocketmq_storage_flush_behind_bytes",
            "Bytes of the log that are not durable yet.",
            flush_behind,
        ),
        Gauge("pocketmq_reput_behind_bytes", "Bytes that wait for dispatch.", dispatch_behind),
        Gauge(
            "pocketmq_reput_behind_messages",
            "Records that wait for dispatch.",
            lambda: float(store.behind_count),
        ),
    ]
