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


async def commit_offset(
    store: MessageStore, group: str, topic: str, queue_id: int, queue_offset: int
) -> None:
    """Commits an offset; durable when it returns.

    Effects  creates the group; if the offset is the first of a group that begins at the end, the
             group begins at the end of the other queues, which would count as added later
    Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
    """
    tables = store.tables
    await tables.groups.ensure(group)
    if tables.begins_at_first(group, topic) or tables.offsets.has_some(group, topic):
        await tables.commit(group, topic, queue_id, queue_offset)
        return
    config = tables.topics.find(topic)
    queue_ids = range(0 if config is None else config.queue_count)
    ends = {one: store.reading.queue_range(topic, one)[1] for one in queue_ids}
    await tables.offsets.set_many(group, topic, {**ends, queue_id: queue_offset})


def begins_at_min(store: MessageStore, group: str) -> bool:
    """Returns whether a group begins at the min offset of a queue, rather than at its max."""
    config = store.tables.groups.find(group)
    return config is None or bool(config.settings.begins_at_min)
