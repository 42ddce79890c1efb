"""Lists, sets, resets and clones offsets of groups.

All reads precede the first change. The offsets of one topic are changed in one write.
Source: AdminBrokerProcessor.resetOffset, cloneGroupOffset.
"""

from collections.abc import Iterable, Mapping, Sequence

from pocketmq.model.administration import GroupOffset, MovedOffset, ResetTarget
from pocketmq.model.errors import IllegalGroup
from pocketmq.model.names import check_number
from pocketmq.model.reading import Bound
from pocketmq.services.admin.groups import check_changeable
from pocketmq.store.begins import begin_at_ends, begins_at_min
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of


def list_offsets(store: MessageStore, group: str, topic: str = "") -> list[GroupOffset]:
    """Returns a group's offsets in one topic or in all topics, ordered by topic and queue.

    Errors   IllegalGroup, GroupNotFound, IllegalTopic, TopicNotFound
    """
    return [
        GroupOffset(name, queue_id, queue_offset)
        for name, queues in _rows(store, group, topic).items()
        for queue_id, queue_offset in sorted(queues.items())
    ]


async def set_offsets(
    store: MessageStore,
    group: str,
    topic: str,
    queue_offsets: Iterable[tuple[int, int]],
    *,
    dry_run: bool = False,
) -> list[MovedOffset]:
    """Sets a group's offsets in queues of a topic.

    Errors   IllegalGroup, SystemGroup, GroupNotFound, IllegalTopic, TopicNotFound,
             UnsupportedTopic, QueueOutOfRange, IllegalNumber, OffsetOutOfRange, DiskFull
    """
    _check_movable(store, group)
    config = store.tables.topics.existing(topic)
    config.check_supported()
    wanted: dict[int, int] = {}
    for queue_id, queue_offset in queue_offsets:
        config.check_queue(queue_id)
        check_number("offset", queue_offset)
        store.reading.check_offset(topic, queue_id, queue_offset)
        wanted[queue_id] = queue_offset
    return await _move(store, group, topic, wanted, dry_run=dry_run)


async def reset_offsets(
    store: MessageStore,
    group: str,
    topic: str,
    target: ResetTarget,
    *,
    queue_ids: Sequence[int] = (),
    dry_run: bool = False,
) -> list[MovedOffset]:
    """Resets a group's offsets to a time, to the min or max offset, or to a given offset.

    queue_ids   queues to reset; empty: all
    Errors      errors of `set_offsets`; StorageError, DiskSlow in the search for a time
    """
    _check_movable(store, group)
    config = store.tables.topics.existing(topic)
    config.check_supported()
    for queue_id in queue_ids:
        config.check_queue(queue_id)
    check_number("time_ms", target.time_ms or 0)
    check_number("offset", target.queue_offset or 0)
    chosen = sorted(set(queue_ids)) or range(config.read_queue_count)
    wanted = {queue_id: await _place(store, target, topic, queue_id) for queue_id in chosen}
    return await _move(store, group, topic, wanted, dry_run=dry_run)


async def clone_offsets(
    store: MessageStore, source: str, target: str, topic: str = "", *, dry_run: bool = False
) -> list[MovedOffset]:
    """Copies the offsets of a source group to a target group, in one topic or in all topics.

    A missing target group is created.

    Errors   IllegalGroup, SystemGroup, GroupNotFound (the source), IllegalTopic, TopicNotFound,
             LimitReached, DiskFull
    """
    store.tables.groups.existing(source)
    check_changeable(target, why="move")
    if source == target:
        raise IllegalGroup(group=target, why="it is both source and target of the clone")
    rows = _rows(store, source, topic)
    moved = [row for name, queues in rows.items() for row in _moved(store, target, name, queues)]
    for name in rows if not dry_run else ():
        await store.tables.offsets.clone(source, target, name)
        await store.tables.orders.forget(target, name, rows[name])
    return moved


def _rows(store: MessageStore, group: str, topic: str) -> dict[str, dict[int, int]]:
    """Returns topic -> queue id -> queue offset; topic "": all topics."""
    store.tables.groups.existing(group)
    if topic:
        store.tables.topics.existing(topic)
    rows = sorted(store.tables.offsets.all_of(group).items())
    return {name: queues for name, queues in rows if topic in ("", name)}


async def _place(store: MessageStore, target: ResetTarget, topic: str, queue_id: int) -> int:
    """Returns the queue offset to which a queue is reset."""
    reading = store.reading
    if target.time_ms is not None:
        return await value_of(
            reading.queue_offset_by_time(topic, queue_id, target.time_ms, Bound.LOWER)
        )
    if target.queue_offset is not None:
        reading.check_offset(topic, queue_id, target.queue_offset)
        return target.queue_offset
    lower, upper = reading.queue_range(topic, queue_id)
    return upper if target.latest else lower


async def _move(
    store: MessageStore, group: str, topic: str, wanted: Mapping[int, int], *, dry_run: bool
) -> list[MovedOffset]:
    moved = _moved(store, group, topic, wanted)
    if not dry_run:
        if not begins_at_min(store, group):  # Else the other queues would count as added.
            begin_at_ends(store, group, topic)
        resets = store.tables.offsets.resets
        resets.note(group, topic, wanted)  # From here on, commits of classic consumers are ignored.
        await store.tables.offsets.set_many(group, topic, wanted)
        resets.moved(group, topic, wanted)
        await store.tables.orders.forget(group, topic, wanted)
    return moved


def _moved(
    store: MessageStore, group: str, topic: str, wanted: Mapping[int, int]
) -> list[MovedOffset]:
    find = store.tables.offsets.find
    return [
        MovedOffset(topic, queue_id, find(group, topic, queue_id), queue_offset)
        for queue_id, queue_offset in sorted(wanted.items())
    ]


def _check_movable(store: MessageStore, group: str) -> None:
    store.tables.groups.existing(group)
    check_changeable(group, why="move")
