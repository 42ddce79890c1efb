"""Finds the senders of the last messages of a topic, by the born hosts of their records."""

from typing import Final

from pocketmq.format.record import (
    HEADS,
    HOSTS_V6_MASK,
    STORE_TIMESTAMP_FIELD,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
)
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of
from pocketmq.store.read.reading import Place, Reading

LAST: Final = 16
"""Number of messages that are read at the end of a queue."""
QUEUES_MAX: Final = 64
"""Upper limit of queues that are read: those with the newest messages."""
BYTES_MAX: Final = 4 * 1024 * 1024
"""Upper limit of bytes that are read; a larger record is left out."""
_BORN_HOST: Final = 9


async def last_senders(store: MessageStore, topic: str) -> dict[bytes, int]:
    """Returns packed address -> store time (ms) of the newest message found from that address.

    A message that the broker itself moved to the topic has the address of its first sender.

    Errors   IllegalTopic, TopicNotFound, StorageError, DiskSlow
    Cost     up to LAST records of QUEUES_MAX queues, together at most BYTES_MAX
    """
    config, reading = store.tables.topics.existing(topic), store.reading
    ends = sorted(
        ((reading.end_of(topic, queue_id), queue_id) for queue_id in range(config.queue_count)),
        reverse=True,
    )
    found: dict[bytes, int] = {}
    left = BYTES_MAX
    for _, queue_id in ends[:QUEUES_MAX]:
        places = [one for one in await _last(reading, topic, queue_id) if 0 < one[1] <= left]
        while sum(size for _, size in places) > left:
            places.pop(0)
        left -= sum(size for _, size in places)
        assert left >= 0, "more bytes are read than are left"
        for record in await value_of(reading.placed(topic, queue_id, places)):
            host, time_ms = _sender(record) if record else (b"", 0)
            if any(host):  # A client on a Unix socket has no address.
                found[host] = max(found.get(host, 0), time_ms)
    return found


async def _last(reading: Reading, topic: str, queue_id: int) -> list[Place]:
    lower, upper = reading.queue_range(topic, queue_id)
    first = max(upper - LAST, lower)
    if first >= upper:
        return []
    return await value_of(reading.unit_places(topic, queue_id, first, upper - first))


def _sender(record: bytes) -> tuple[bytes, int]:
    (flags,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    head = HEADS[flags & HOSTS_V6_MASK].unpack_from(record)
    return head[_BORN_HOST], head[STORE_TIMESTAMP_FIELD]
