"""What is shown, row by row: names, types, labels and bounds that dashboards rely on.

Every `rocketmq_` row also carries BASE, those of the storage STORAGE too. A row is

    DUE        shown now
    LATER      not shown: nothing here has such a number; `reason` says what will
"""

from enum import Enum
from typing import Final, NamedTuple

from broker.metrics import loop_lag
from broker.model.stats import COUNT_BUCKETS, MESSAGE_SIZE_BUCKETS, SECONDS_BUCKETS

BASE: Final = ("cluster", "node_type", "node_id", "broker")
STORAGE: Final = ("storage_type", "storage_medium")
LATENCY_BUCKETS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)
CREATE_BUCKETS: Final = (10.0, 100.0, 1000.0, 3000.0, 5000.0)
FINISH_BUCKETS: Final = (5.0, 60.0, 600.0, 3600.0, 43200.0, 86400.0)
DELAY_BUCKETS: Final = (60.0, 600.0, 3600.0, 43200.0, 86400.0, 259200.0)
SCAN_BUCKETS: Final = (1.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)


class Due(Enum):
    """Whether a row is shown."""

    DUE = "due"
    LATER = "later"


class Row(NamedTuple):
    """One metric; `labels` without those every metric of its kind carries."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    due: Due = Due.DUE
    reason: str = ""

    @property
    def all_labels(self) -> frozenset[str]:
        """Every label of its samples, without the bound of a bucket."""
        fixed: tuple[str, ...] = ()
        if self.name.startswith("rocketmq_"):
            fixed = (*BASE, *STORAGE) if self.name in STORED else BASE
        return frozenset((*self.labels, *fixed))


def later(reason: str, *rows: Row) -> tuple[Row, ...]:
    """Return rows that wait for something."""
    return tuple(row._replace(due=Due.LATER, reason=reason) for row in rows)


TOPIC: Final = ("topic", "message_type", "is_system")
GROUP: Final = ("topic", "consumer_group", "is_system")
LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")

NATIVE: Final = (
    Row("rocketmq_messages_in_total", "counter", TOPIC),
    Row("rocketmq_messages_out_total", "counter", GROUP),
    Row("rocketmq_throughput_in_total", "counter", TOPIC),
    Row("rocketmq_throughput_out_total", "counter", GROUP),
    Row("rocketmq_message_size", "histogram", TOPIC, MESSAGE_SIZE_BUCKETS),
    Row(
        "rocketmq_rpc_latency_milliseconds",
        "histogram",
        ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
        LATENCY_BUCKETS,
    ),
    Row("rocketmq_consumer_lag_messages", "gauge", LAG),
    Row("rocketmq_consumer_lag_latency_milliseconds", "gauge", LAG),
    *later(
        "leases: until then nothing knows what a consumer holds",
        Row("rocketmq_consumer_inflight_messages", "gauge", LAG),
        Row("rocketmq_consumer_queueing_latency_milliseconds", "gauge", LAG),
        Row("rocketmq_consumer_ready_messages", "gauge", LAG),
        Row(
            "rocketmq_send_to_dlq_messages_total",
            "counter",
            ("consumer_group", "topic", "is_system"),
        ),
    ),
    *later(
        "sessions: until then nothing knows which clients are connected, and as what",
        Row(
            "rocketmq_producer_connections",
            "gauge",
            ("language", "version", "protocol_type"),
        ),
        Row(
            "rocketmq_consumer_connections",
            "gauge",
            (
                "consumer_group",
                "language",
                "version",
                "consume_mode",
                "protocol_type",
                "is_system",
            ),
        ),
    ),
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
    *later(
        "transactions",
        Row("rocketmq_commit_messages_total", "counter", ("topic",)),
        Row("rocketmq_rollback_messages_total", "counter", ("topic",)),
        Row(
            "rocketmq_finish_message_latency_milliseconds",
            "histogram",
            ("topic",),
            FINISH_BUCKETS,
        ),
        Row("rocketmq_half_messages", "gauge", ("topic",)),
    ),
    Row("rocketmq_storage_size_bytes", "gauge"),
    Row("rocketmq_storage_flush_behind_bytes", "gauge"),
    Row("rocketmq_storage_dispatch_behind_bytes", "gauge"),
    Row("rocketmq_storage_message_reserve_time_milliseconds", "gauge"),
    *later(
        "delayed messages",
        Row("rocketmq_timer_enqueue_lag", "gauge"),
        Row("rocketmq_timer_dequeue_lag", "gauge"),
        Row("rocketmq_timer_enqueue_latency_milliseconds", "gauge"),
        Row("rocketmq_timer_dequeue_latency_milliseconds", "gauge"),
        Row("rocketmq_timing_messages", "gauge", ("topic",)),
        Row("rocketmq_timer_enqueue_total", "counter", ("topic",)),
        Row("rocketmq_timer_dequeue_total", "counter", ("topic",)),
        Row("rocketmq_timer_message_snapshot", "gauge", ("timer_bound_s",)),
        Row("rocketmq_delay_message_latency_seconds", "histogram", (), DELAY_BUCKETS),
    ),
    *later(
        "pop",
        Row("rocketmq_pop_buffer_scan_time_consume_milliseconds", "histogram", (), SCAN_BUCKETS),
        Row(
            "rocketmq_pop_revive_in_message_total",
            "counter",
            ("consumer_group", "topic", "revive_message_type", "put_status"),
        ),
        Row(
            "rocketmq_pop_revive_out_message_total",
            "counter",
            ("consumer_group", "topic", "revive_message_type", "queue_id"),
        ),
        Row(
            "rocketmq_pop_revive_retry_messages_total",
            "counter",
            ("consumer_group", "topic", "put_status"),
        ),
        Row("rocketmq_pop_revive_lag_milliseconds", "gauge", ("queue_id",)),
        Row("rocketmq_pop_revive_latency_milliseconds", "gauge", ("queue_id",)),
        Row("rocketmq_pop_offset_buffer_size", "gauge"),
        Row("rocketmq_pop_checkpoint_buffer_size", "gauge"),
    ),
    *later(
        "the protocol of RocketMQ's proxy",
        Row("rocketmq_proxy_up", "gauge", ("proxy_mode",)),
    ),
)

OWN: Final = (
    Row("pocketmq_build_info", "gauge", ("version", "python", "store_version")),
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
    Row("pocketmq_expired_files_total", "counter", ("reason",)),
    Row("pocketmq_long_poll_waiters", "gauge"),
    *later(
        "leases",
        Row("pocketmq_leases", "gauge"),
        Row("pocketmq_lease_expired_total", "counter"),
        Row("pocketmq_ack_total", "counter", ("result",)),
    ),
    Row("pocketmq_inflight_requests", "gauge", ("method",)),
    Row("pocketmq_rejected_total", "counter", ("reason",)),
    Row("pocketmq_event_loop_lag_seconds", "histogram", (), loop_lag.BUCKETS),
    Row("pocketmq_mapped_files", "gauge"),
    Row("pocketmq_mapped_bytes", "gauge"),
    Row("pocketmq_metrics_dropped_series_total", "counter"),
    *later(
        "the Spark job, which pushes them itself",
        Row("pocketmq_backfill_bytes_total", "counter"),
        Row("pocketmq_backfill_messages_total", "counter"),
        Row("pocketmq_backfill_mismatches_total", "counter"),
        Row("pocketmq_backfill_progress_ratio", "gauge"),
    ),
)

FULL: Final = (
    Row("pocketmq_consumer_offset", "gauge", ("consumer_group", "topic", "queue_id")),
    Row("pocketmq_queue_min_offset", "gauge", ("topic", "queue_id")),
    Row("pocketmq_queue_max_offset", "gauge", ("topic", "queue_id")),
)
"""Shown with metrics.detail = "full" only."""

STORED: Final = frozenset(
    row.name
    for row in NATIVE
    if row.name.startswith(("rocketmq_storage_", "rocketmq_timer_", "rocketmq_timing_"))
)
PROCESS_PREFIXES: Final = ("process_", "python_")
"""What prometheus_client shows of the Python process."""
