"""The offset at which a group begins to receive from a queue."""

from pocketmq.services.consume.leases import GroupQueue
from pocketmq.store.clamping import clamp_offset
from pocketmq.store.message_store import MessageStore


def first_offset(store: MessageStore, queue: GroupQueue, lower: int, upper: int) -> int:
    """Returns a group's offset in a queue; sets it if the group has none.

    lower, upper   min and max offset of the queue
    Effects        clamps an offset above the queue's end to that end
    """
    offsets, key = store.tables.offsets, (queue.group, queue.topic, queue.queue_id)
    found = offsets.find(*key)
    if found is None:
        found = lower if queue.retry or begins_at_min(store, queue.group) else upper
        offsets.begin(*key, found)
    elif found > upper:
        found = min(found, store.queue_end(queue.topic, queue.queue_id))
        clamp_offset(store.tables, *key, found)
    return found


def begins_at_min(store: MessageStore, group: str) -> bool:
    """Returns whether a group begins at the min offset of a queue, rather than at its max."""
    config = store.tables.groups.find(group)
    return config is None or bool(config.settings.begins_at_min)
