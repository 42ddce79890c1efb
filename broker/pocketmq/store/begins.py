"""First offsets of groups that begin at the end of a topic."""

from pocketmq.store.message_store import MessageStore


def begin_at_ends(store: MessageStore, group: str, topic: str) -> None:
    """Sets a group's missing offsets in a topic: the max offsets, for a group that has none.

    Other groups miss offsets in queues that were added, and begin at the min offset there.
    """
    offsets, config = store.tables.offsets, store.tables.topics.find(topic)
    is_new = not offsets.has_some(group, topic)
    queue_ids = range(0 if config is None else config.queue_count)
    ranges = [store.reading.queue_range(topic, queue_id) for queue_id in queue_ids]
    # A crash must not leave only some of them: the group would begin at the others' min offset.
    offsets.begin(group, topic, {n: one[is_new] for n, one in enumerate(ranges)})


def begins_at_min(store: MessageStore, group: str) -> bool:
    """Returns whether a group begins at the min offset of a queue, rather than at its max."""
    config = store.tables.groups.find(group)
    return config is None or bool(config.settings.begins_at_min)
