"""Under which names RocketMQ's metrics are shown: those of today, and those of older exporters.

profile         rpc latency, for example
native          rocketmq_rpc_latency_milliseconds       since RocketMQ 5.1.4: the unit is appended
native-legacy   rocketmq_rpc_latency                    as 5.1.0 to 5.1.3 showed it, and their docs

Several profiles together show a metric under several names; one whose name never had a unit is
shown once. Metrics of ours (`pocketmq_…`) have one name.
Source: OpenTelemetry's Prometheus exporter 1.27, which began to append units.
"""

from collections.abc import Collection, Mapping
from typing import Final

NATIVE: Final = "native"
NATIVE_LEGACY: Final = "native-legacy"

LEGACY_NAMES: Final[Mapping[str, str]] = {
    f"rocketmq_{name}_{unit}": f"rocketmq_{name}"
    for unit, names in {
        "milliseconds": (
            "rpc_latency",
            "consumer_lag_latency",
            "consumer_queueing_latency",
            "topic_create_execution_time",
            "consumer_group_create_execution_time",
            "finish_message_latency",
            "storage_message_reserve_time",
            "timer_enqueue_latency",
            "timer_dequeue_latency",
            "pop_buffer_scan_time_consume",
            "pop_revive_lag",
            "pop_revive_latency",
        ),
        "seconds": ("delay_message_latency",),
        "bytes": ("storage_size",),
    }.items()
    for name in names
}
"""Name with its unit -> name without."""


def names_shown(name: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Return the names a metric is shown under."""
    legacy = LEGACY_NAMES.get(name)
    if legacy is None:
        return (name,)
    return tuple(
        shown for shown, profile in ((name, NATIVE), (legacy, NATIVE_LEGACY)) if profile in profiles
    )
