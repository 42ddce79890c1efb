"""Purges the messages of a topic: they cannot be read any more, and the topic stays."""

import asyncio
from collections.abc import Sequence

from pocketmq.model.administration import PurgedQueue
from pocketmq.model.message import OFFSET_MAX, QueueKey
from pocketmq.model.names import check_number
from pocketmq.model.reading import Bound
from pocketmq.services.admin.topics import changeable_topic, own_retry_topics
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of


async def purge_topic(
    store: MessageStore,
    name: str,
    *,
    queue_ids: Sequence[int] = (),
    before_ms: int = 0,
    dry_run: bool = False,
    planned: Sequence[PurgedQueue] = (),
) -> list[PurgedQueue]:
    """Purges messages of a topic and of its topics `%RETRY%group_topic`; durable when it returns.

    queue_ids   queues of the topic to purge, without the retry topics; empty: all queues
    before_ms   store time before which messages are purged; 0: all messages are purged
    dry_run     whether to purge nothing, and return the queues that would change
    planned     queues that a dry run returned: only their messages are purged, none that came
                later; empty: all
    Returns     the changed queues: those of the topic, then those of its retry topics
    Errors      IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic, QueueOutOfRange,
                IllegalNumber, DiskFull, StoreDamaged, StorageError, DiskSlow, FollowersLate,
                NotReplicated
    Source      none; RocketMQ deletes whole files only
    """
    config = changeable_topic(store, name, why="purge")
    check_number("before_ms", before_ms)
    for queue_id in queue_ids:
        config.check_queue(queue_id)
    await store.caught_up()
    names = [name] if queue_ids else [name, *own_retry_topics(store, name)]
    keys = [
        (topic, queue_id)
        for topic in names
        for queue_id in sorted(set(queue_ids)) or store.reading.queue_ids(topic)
    ]
    ends = {(queue.topic, queue.queue_id): queue.new_min_offset for queue in planned}
    for end in ends.values():
        check_number("planned.new_min_offset", end)
    if ends:
        keys = [key for key in keys if key in ends]
    found = [await _purged(store, key, before_ms, ends.get(key, OFFSET_MAX)) for key in keys]
    purged = [queue for queue in found if queue.message_count]
    if not dry_run:  # If nothing is left to purge, an earlier purge may not be replicated yet.
        floors = {(queue.topic, queue.queue_id): queue.new_min_offset for queue in purged}
        await asyncio.shield(store.purge(floors))
    return purged


async def _purged(store: MessageStore, key: QueueKey, before_ms: int, end: int) -> PurgedQueue:
    lower, upper = store.reading.queue_range(*key)
    upper = max(min(upper, end), lower)
    if before_ms:
        found = store.reading.queue_offset_by_time(*key, before_ms, Bound.LOWER)
        upper = max(min(await value_of(found), upper), lower)
    return PurgedQueue(*key, lower, upper)
