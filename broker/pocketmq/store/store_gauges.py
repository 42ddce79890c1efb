"""Metrics of a whole store: its state, and the distances between its marks.

They are computed when metrics are read, never while a message is handled.
"""

from collections.abc import Callable
from typing import Final

from pocketmq.model.stats import Gauge, LabelValues
from pocketmq.store.marks import End, Marks

STATES: Final = (
    "starting", "recovering", "running", "disk_full", "read_only", "damaged", "draining", "failed",
)  # fmt: skip


def store_gauges(
    read_state: Callable[[], str], marks: Marks, behind_count: Callable[[], int]
) -> list[Gauge]:
    """Returns gauges of a store.

    read_state     returns which of STATES it is in
    behind_count   returns how many records wait for dispatch in memory
    """

    def states() -> dict[LabelValues, float]:
        now = read_state()
        return {(state,): float(state == now) for state in STATES}

    def behind(end: End) -> Callable[[], float]:
        return lambda: float(marks.appended.value - end.value)

    dispatched, flushed = behind(marks.dispatched), behind(marks.flushed)
    rows = (
        (
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the log that are not dispatched yet.",
            dispatched,
        ),
        (
            "rocketmq_storage_flush_behind_bytes",
            "Bytes of the log that are not durable yet.",
            flushed,
        ),
        ("pocketmq_reput_behind_bytes", "Bytes that wait for dispatch.", dispatched),
        (
            "pocketmq_reput_behind_messages",
            "Records that wait for dispatch.",
            lambda: float(behind_count()),
        ),
    )
    state = Gauge(
        "pocketmq_store_state", "1 for the state that the store is in.", states, ("state",)
    )
    return [state, *(Gauge(*row) for row in rows)]
