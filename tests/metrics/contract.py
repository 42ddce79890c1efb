"""Metrics that dashboards rely on: names, types, labels and bounds, row by row.

A page is parsed as Prometheus would parse it, and compared with the rows.

Every `rocketmq_` row also carries BASE, those of the storage STORAGE too.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from pocketmq.metrics import numbers
from pocketmq.metrics.exposition import STORAGE_PREFIXES
from pocketmq.model.stats import COUNT_BUCKETS, MESSAGE_SIZE_BUCKETS, SECONDS_BUCKETS

BASE: Final = ("cluster", "node_type", "node_id", "broker")
STORAGE: Final = ("storage_type", "storage_medium")
LATENCY_BUCKETS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)
AHEAD_BUCKETS: Final = (60.0, 600.0, 3600.0, 43200.0, 86400.0, 259200.0)
FINISH_BUCKETS: Final = (5.0, 60.0, 600.0, 3600.0, 43200.0, 86400.0)
CREATE_BUCKETS: Final = (10.0, 100.0, 1000.0, 3000.0, 5000.0)


class Row(NamedTuple):
    """One metric; `labels` without those every metric of its kind carries."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def all_labels(self) -> frozenset[str]:
        """Every label of its samples, without the bound of a bucket."""
        fixed: tuple[str, ...] = ()
        if self.name.startswith("rocketmq_"):
            fixed = (*BASE, *STORAGE) if self.name in STORED else BASE
        return frozenset((*self.labels, *fixed))


TOPIC: Final = ("topic", "message_type", "is_system")
GROUP: Final = ("topic", "consumer_group", "is_system")
"""Of pulls; of receives is_retry, too."""
LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")

NATIVE: Final = (
    Row("rocketmq_messages_in_total", "counter", TOPIC),
    Row("rocketmq_messages_out_total", "counter", GROUP),
    Row("rocketmq_throughput_in_total", "counter", TOPIC),
    Row("rocketmq_throughput_out_total", "counter", GROUP),
    Row("rocketmq_message_size", "histogram", TOPIC, MESSAGE_SIZE_BUCKETS),
    Row("rocketmq_delay_message_latency_seconds", "histogram", (), AHEAD_BUCKETS),
    Row(
        "rocketmq_rpc_latency_milliseconds",
        "histogram",
        ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
        LATENCY_BUCKETS,
    ),
    Row("rocketmq_consumer_lag_messages", "gauge", LAG),
    Row("rocketmq_consumer_lag_latency_milliseconds", "gauge", LAG),
    Row("rocketmq_consumer_queueing_latency_milliseconds", "gauge", LAG),
    Row("rocketmq_consumer_ready_messages", "gauge", LAG),
    Row("rocketmq_consumer_inflight_messages", "gauge", LAG),
    Row(
        "rocketmq_consumer_connections",
        "gauge",
        ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
    ),
    Row(
        "rocketmq_pop_revive_retry_messages_total",
        "counter",
        ("consumer_group", "topic", "put_status"),
    ),
    Row(
        "rocketmq_pop_revive_in_message_total",
        "counter",
        ("consumer_group", "topic", "revive_message_type", "put_status"),
    ),
    Row("rocketmq_pop_checkpoint_buffer_size", "gauge"),
    Row("rocketmq_pop_revive_lag_milliseconds", "gauge", ("queue_id",)),
    Row("rocketmq_pop_revive_latency_milliseconds", "gauge", ("queue_id",)),
    Row("rocketmq_proxy_up", "gauge", ("proxy_mode",)),
    Row("rocketmq_pop_offset_buffer_size", "gauge"),
    Row("rocketmq_send_to_dlq_messages_total", "counter", ("consumer_group", "topic", "is_system")),
    Row("rocketmq_half_messages", "gauge", ("topic",)),
    Row("rocketmq_commit_messages_total", "counter", ("topic",)),
    Row("rocketmq_rollback_messages_total", "counter", ("topic",)),
    Row("rocketmq_finish_message_latency_milliseconds", "histogram", ("topic",), FINISH_BUCKETS),
    Row("rocketmq_processor_watermark", "gauge", ("processor",)),
    Row("rocketmq_broker_permission", "gauge"),
    Row("rocketmq_topic_number", "gauge"),
    Row("rocketmq_consumer_group_number", "gauge"),
    Row(
        "rocketmq_topic_create_execution_time_milliseconds",
        "histogram",
        ("invocation_status", "is_system"),
        CREATE_BUCKETS,
    ),
    Row(
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "histogram",
        ("invocation_status", "is_system"),
        CREATE_BUCKETS,
    ),
    Row("rocketmq_storage_size_bytes", "gauge"),
    Row("rocketmq_storage_flush_behind_bytes", "gauge"),
    Row("rocketmq_storage_dispatch_behind_bytes", "gauge"),
    Row("rocketmq_storage_message_reserve_time_milliseconds", "gauge"),
)

TIMER: Final = (
    Row("rocketmq_timer_enqueue_lag", "gauge"),
    Row("rocketmq_timer_enqueue_total", "counter", ("topic",)),
    Row("rocketmq_timer_dequeue_lag", "gauge"),
    Row("rocketmq_timer_dequeue_latency_milliseconds", "gauge"),
    Row("rocketmq_timer_dequeue_total", "counter", ("topic",)),
    Row("rocketmq_timer_message_snapshot", "gauge", ("timer_bound_s",)),
    Row("rocketmq_timing_messages", "gauge", ("topic",)),
    Row("pocketmq_timer_dropped_total", "counter", ("reason",)),
)
"""Of a broker whose store has a timer."""
SESSIONS: Final = (
    Row("rocketmq_producer_connections", "gauge", ("language", "version", "protocol_type")),
)
"""Of a broker that official clients come to."""

ACCESS: Final = (Row("pocketmq_access_refused_total", "counter", ("reason",)),)
"""Of a broker that may have users."""

EXPORTS: Final = (
    Row("pocketmq_otlp_spans_total", "counter", ("result",)),
    Row("pocketmq_otlp_metric_exports_total", "counter", ("result",)),
)
"""Of a broker that may export by OTLP."""

OWN: Final = (
    Row("pocketmq_build_info", "gauge", ("version", "python", "store_version", "commit")),
    Row("pocketmq_module_compiled", "gauge", ("module",)),
    Row("pocketmq_store_state", "gauge", ("state",)),
    Row("pocketmq_put_lock_wait_seconds", "histogram", (), SECONDS_BUCKETS),
    Row("pocketmq_put_lock_hold_seconds", "histogram", (), SECONDS_BUCKETS),
    Row("pocketmq_append_seconds", "histogram", ("result",), SECONDS_BUCKETS),
    Row("pocketmq_flush_seconds", "histogram", ("file",), SECONDS_BUCKETS),
    Row("pocketmq_group_commit_messages", "histogram", (), COUNT_BUCKETS),
    Row("pocketmq_reput_behind_bytes", "gauge"),
    Row("pocketmq_reput_behind_messages", "gauge"),
    Row("pocketmq_reput_seconds", "histogram", (), SECONDS_BUCKETS),
    Row("pocketmq_consume_queue_files", "gauge"),
    Row("pocketmq_index_files", "gauge"),
    Row("pocketmq_index_fill_ratio", "gauge"),
    Row("pocketmq_index_entries_total", "counter"),
    Row("pocketmq_index_skipped_total", "counter", ("reason",)),
    Row("pocketmq_query_key_seconds", "histogram", (), SECONDS_BUCKETS),
    Row("pocketmq_query_key_candidates", "histogram", (), COUNT_BUCKETS),
    Row("pocketmq_query_truncated_total", "counter", ("reason",)),
    Row("pocketmq_recovery_seconds", "gauge", ("phase",)),
    Row("pocketmq_recovery_progress_ratio", "gauge"),
    Row("pocketmq_recovery_truncated_bytes", "gauge"),
    Row("pocketmq_crc_errors_total", "counter", ("file",)),
    Row("pocketmq_disk_free_bytes", "gauge"),
    Row("pocketmq_disk_total_bytes", "gauge"),
    Row("pocketmq_disk_alert", "gauge"),
    Row("pocketmq_retention_held_until_seconds", "gauge", ("kind", "topic", "group")),
    Row("pocketmq_delayed_messages", "gauge"),
    Row("pocketmq_delayed_delivered_total", "counter"),
    Row("pocketmq_expired_files_total", "counter", ("reason",)),
    Row("pocketmq_unarchived_files_total", "counter"),
    Row("pocketmq_long_poll_waiters", "gauge"),
    Row("pocketmq_replicas", "gauge"),
    Row("pocketmq_replicas_missing", "gauge"),
    Row("pocketmq_replica_lag_bytes", "gauge", ("replica",)),
    Row("pocketmq_replica_lag_seconds", "gauge", ("replica",)),
    Row("pocketmq_replica_refused_total", "counter"),
    Row("pocketmq_replica_sent_bytes_total", "counter"),
    Row("pocketmq_leases", "gauge"),
    Row("pocketmq_lease_expired_total", "counter"),
    Row("pocketmq_ack_total", "counter", ("result",)),
    Row("pocketmq_inflight_requests", "gauge", ("method",)),
    Row("pocketmq_rejected_total", "counter", ("reason",)),
    Row("pocketmq_event_loop_lag_seconds", "histogram", (), numbers.LOOP_LAG_BUCKETS),
    Row("pocketmq_repeated_sends_total", "counter"),
    Row("pocketmq_transaction_checks_total", "counter", ("result",)),
    Row("pocketmq_transaction_producers", "gauge"),
    Row("pocketmq_mapped_files", "gauge"),
    Row("pocketmq_mapped_bytes", "gauge"),
    Row("pocketmq_metrics_dropped_series_total", "counter"),
)
ROLES: Final = (
    Row("pocketmq_replica_role", "gauge", ("role",)),
    Row("pocketmq_replica_diverged_bytes", "gauge"),
)
"""Of a whole broker, whatever its role is."""

FOLLOWER: Final = (
    Row("pocketmq_follower_connected", "gauge"),
    Row("pocketmq_follower_lag_bytes", "gauge"),
    Row("pocketmq_follower_silence_seconds", "gauge"),
)
"""Of a broker that follows another one."""

SETTINGS: Final = (Row("pocketmq_config_reload_refused", "gauge"),)
"""Of a broker whose settings can be read again."""

FULL: Final = (
    Row("pocketmq_consumer_offset", "gauge", ("consumer_group", "topic", "queue_id")),
    Row("pocketmq_queue_min_offset", "gauge", ("topic", "queue_id")),
    Row("pocketmq_queue_max_offset", "gauge", ("topic", "queue_id")),
)
"""Shown with metrics.detail = "full" only."""

STORED: Final = frozenset(
    row.name for row in (*NATIVE, *TIMER) if row.name.startswith(STORAGE_PREFIXES)
)
PROCESS_PREFIXES: Final = ("process_", "python_")
"""What prometheus_client shows of the Python process."""


class Shown:
    """One family of a page as Prometheus would read it."""

    def __init__(self, family: Any) -> None:
        suffix = "_total" if family.type == "counter" else ""
        self.name = f"{family.name}{suffix}"
        self.kind = family.type
        self.samples = family.samples

    @property
    def labels(self) -> set[frozenset[str]]:
        """The label names of its samples, without the bound of a bucket."""
        return {frozenset(sample.labels) - {"le"} for sample in self.samples}

    @property
    def bounds(self) -> set[float]:
        """The finite bounds of its buckets."""
        found = {float(sample.labels["le"]) for sample in self.samples if "le" in sample.labels}
        return found - {float("inf")}

    def values(self, label: str) -> set[str]:
        """Returns all values of a label."""
        return {sample.labels[label] for sample in self.samples}


def families(page: str) -> dict[str, Shown]:
    """Returns the families of a page by name, without those of the Python process."""
    shown = [Shown(family) for family in text_string_to_metric_families(page)]
    return {one.name: one for one in shown if not one.name.startswith(PROCESS_PREFIXES)}


def compare(shown: dict[str, Shown], rows: Iterable[Row]) -> None:
    """Asserts that what is shown is what the rows say, and nothing else."""
    by_name = {row.name: row for row in rows}
    assert shown.keys() == by_name.keys()
    for name, one in shown.items():
        row = by_name[name]
        assert one.kind == row.kind, name
        assert one.labels <= {row.all_labels}, name
        if one.samples:
            assert one.bounds == set(row.buckets), name
