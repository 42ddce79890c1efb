"""Offsets of a group in the queues of a topic, as RocketMQ writes them (OffsetWrapper)."""

from typing import Any

from pocketmq.model.topic import TopicConfig
from pocketmq.rpc.classic.object_keys import queue_key
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of


async def offset_rows(
    store: MessageStore, broker: str, group: str, config: TopicConfig
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns a group's offsets in a topic, each with its queue.

    Errors   StorageError, DiskSlow
    """
    name, reading, rows = config.name, store.reading, []
    for queue_id in range(config.read_queue_count):
        committed = store.tables.offsets.find(group, name, queue_id) or 0
        seen_ms = None
        if committed:
            seen_ms = await value_of(reading.store_timestamp_at(name, queue_id, committed - 1))
        row = {
            "brokerOffset": reading.queue_range(name, queue_id)[1],
            "consumerOffset": committed,
            "lastTimestamp": seen_ms or 0,
            "pullOffset": committed,
        }
        rows.append((queue_key(broker, name, queue_id), row))
    return rows
