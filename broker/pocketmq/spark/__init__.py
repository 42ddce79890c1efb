"""Public API for Spark: stores as DataFrames, and ready-made queries over them.

    from pocketmq.spark import open_session, read_messages

    messages = read_messages(open_session("local[2]"), "./store", columns=("topic", "body"))

Requires the extra `spark`. docs/howto/spark.md lists options, columns and results.
"""

from pocketmq.backfill.analytics import (
    committed_offsets,
    consumer_lag,
    duplicate_keys,
    largest_keys,
    messages_per_hour,
)
from pocketmq.backfill.session import open_session
from pocketmq.spark.readers import read_consume_queue, read_index, read_messages, register

__all__ = [
    "committed_offsets",
    "consumer_lag",
    "duplicate_keys",
    "largest_keys",
    "messages_per_hour",
    "open_session",
    "read_consume_queue",
    "read_index",
    "read_messages",
    "register",
]
