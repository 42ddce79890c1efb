"""Ready-made Spark queries over a store.

messages_per_hour   stored messages and bytes by topic and hour
largest_keys        keys with the most messages, or the most bytes
duplicate_keys      keys, or message ids, that occur in more than one message
consumer_lag        lag of each group, by queue

Each query accepts a DataFrame of `spark/readers.py`, and returns one with the listed columns.
Spark reads the store only when rows are requested. Rows that report damage are ignored.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pocketmq.backfill.request import DAMAGE
from pocketmq.format.json_text import first_sound
from pocketmq.format.names import (
    BACKUP_SUFFIX,
    CONFIG_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    LMQ_CONSUMER_OFFSETS_FILE,
)
from pocketmq.format.table_json import decode_file, merged_offsets, offset_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData

HOUR_MS: Final = 3_600_000
BY: Final = ("messages", "bytes")
DUPLICATES_OF: Final = ("keys", "message_id")
OFFSET_SCHEMA: Final = StructType(
    [
        StructField("group", StringType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("queue_id", IntegerType(), nullable=False),
        StructField("committed_offset", LongType(), nullable=False),
    ]
)
"""Columns of `committed_offsets`."""


def messages_per_hour(messages: "DataFrame") -> "DataFrame":
    """Counts the messages stored in each hour, by topic and hour.

    Reads    topic, store_timestamp_ms, store_size
    Returns  topic string, hour timestamp, messages bigint, bytes bigint; an hour without messages
             of a topic has no row
    """
    millis = F.col("store_timestamp_ms")
    hour = F.timestamp_millis(millis - F.pmod(millis, F.lit(HOUR_MS)))
    hourly = _sound(messages).groupBy("topic", hour.alias("hour")).agg(*_amounts())
    return hourly.orderBy("topic", "hour")


def largest_keys(messages: "DataFrame", *, by: str = "messages", count: int = 20) -> "DataFrame":
    """Returns the keys with the most messages or the most bytes, largest first.

    Reads    topic, keys, store_size; a message counts once for each of its keys
    Returns  topic string, key string, messages bigint, bytes bigint
    Errors   ValueError: `by` is not in BY
    """
    if by not in BY:
        raise ValueError(f"by is {by!r}, not one of {', '.join(BY)}")
    amounts = _by_key(messages, "keys").agg(*_amounts())
    return amounts.orderBy(F.desc(by), "topic", "key").limit(count)


def duplicate_keys(messages: "DataFrame", *, of: str = "keys") -> "DataFrame":
    """Returns the keys that occur in more than one message of a topic, most frequent first.

    of       keys, or message_id: the unique key, which the producer or else the broker assigns;
             messages without one are left out
    Reads    topic, physical_offset and the column `of`
    Returns  topic string, key string, messages bigint, first_physical_offset bigint,
             last_physical_offset bigint
    Errors   ValueError: `of` is not in DUPLICATES_OF
    """
    if of not in DUPLICATES_OF:
        raise ValueError(f"of is {of!r}, not one of {', '.join(DUPLICATES_OF)}")
    counted = _by_key(messages, of).agg(
        F.count("*").alias("messages"),
        F.min("physical_offset").alias("first_physical_offset"),
        F.max("physical_offset").alias("last_physical_offset"),
    )
    return counted.filter(F.col("messages") > 1).orderBy(F.desc("messages"), "topic", "key")


def consumer_lag(store: str | Path, units: "DataFrame") -> "DataFrame":
    """Returns the number of messages that each group has not consumed, by queue.

    units    the consume units of all queues, as `read_consume_queue(session, store)` returns them
    Returns  group string, topic string, queue_id int, committed_offset bigint, max_offset bigint,
             lag bigint; for a queue without units max_offset is null and lag 0
    Errors   ValueError: a file of committed offsets (consumerOffset.json, or that of the light
             message queues) and its .bak are both unreadable
    """
    end = (F.max("queue_offset") + 1).alias("max_offset")
    ends = _sound(units).groupBy("topic", "queue_id").agg(end)
    offsets = units.sparkSession.createDataFrame(committed_offsets(store), OFFSET_SCHEMA)
    behind = F.greatest(F.col("max_offset") - F.col("committed_offset"), F.lit(0))
    return (
        offsets.join(ends, ["topic", "queue_id"], "left")
        .withColumn("lag", F.coalesce(behind, F.lit(0)))
        .select("group", "topic", "queue_id", "committed_offset", "max_offset", "lag")
        .orderBy("group", "topic", "queue_id")
    )


def committed_offsets(store: str | Path) -> list[tuple[str, str, int, int]]:
    """Returns (group, topic, queue id, committed offset) of every committed offset.

    Errors   ValueError: a file of offsets and its .bak are both unreadable
    """
    offsets, lmq = (
        _table(Path(store), n) for n in (CONSUMER_OFFSETS_FILE, LMQ_CONSUMER_OFFSETS_FILE)
    )
    return offset_rows(merged_offsets(offsets, lmq) or {})


def _table(store: Path, name: str) -> dict[str, Any] | None:
    path = store / CONFIG_DIRECTORY / name
    files = (path, path.with_name(path.name + BACKUP_SUFFIX))
    versions = ((file, file.read_bytes()) for file in files if file.is_file())
    found = first_sound(versions, partial(decode_file, name))
    return None if found is None else found[1]


def _sound(rows: "DataFrame") -> "DataFrame":
    return rows.filter(F.col(DAMAGE).isNull()) if DAMAGE in rows.columns else rows


def _amounts() -> list[Any]:
    return [F.count("*").alias("messages"), F.sum("store_size").alias("bytes")]


def _by_key(messages: "DataFrame", column: str) -> "GroupedData":
    key = F.explode(F.array_distinct("keys")) if column == "keys" else F.col(column)
    keyed = _sound(messages).withColumn("key", key).filter(F.col("key").isNotNull())
    return keyed.groupBy("topic", "key")
