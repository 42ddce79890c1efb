"""The offset at which a group begins to receive from a queue.

The request states where a group without an offset begins; if the request does not, the group's
setting is used. If the begin is a time, its offset is searched before the receive, as the search
may read the disk. A group begins in all queues of a topic at once: in queues that are added later,
it begins at their first message, as RocketMQ's clients do.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pocketmq.model.begin import BEGIN_MAX, BEGIN_MIN, BEGIN_UNLESS_RECENT, BEGIN_UNSET
from pocketmq.model.consuming import ReceiveRequest
from pocketmq.model.reading import Bound
from pocketmq.services.consume.leases import GroupQueue
from pocketmq.store.begins import begin_at_ends, begins_at_min
from pocketmq.store.clamping import clamp_offset
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

RECENT_BYTES: Final = 4 * 1024 * 1024 * 1024
"""A classic client's new group begins at offset 0 if message 0 is among this many last bytes.

RocketMQ's limit is 40 % of the machine's memory (accessMessageInMemoryMaxRatio)."""


def first_offset(store: MessageStore, queue: GroupQueue, lower: int, upper: int) -> int:
    """Returns a group's offset in a queue; sets its offsets if the group has none.

    lower, upper   min and max offset of the queue
    Effects        lowers an offset above the queue's end to this end
    """
    offsets, key = store.tables.offsets, (queue.group, queue.topic, queue.queue_id)
    found = offsets.find(*key)
    if found is None:
        if not queue.retry and not begins_at_min(store, queue.group):
            begin_at_ends(store, queue.group, queue.topic)
        offsets.begin(queue.group, queue.topic, {queue.queue_id: lower})
        found = offsets.find(*key) or 0
    elif found > upper:
        found = min(found, store.queue_end(queue.topic, queue.queue_id))
        clamp_offset(store.tables, *key, found)
    return found


async def begin_offset(store: MessageStore, topic: str, queue_id: int, begin_ms: int) -> int:
    """Returns the queue offset for a begin (model/begin.py) before BEGIN_MAX.

    Errors   StorageError, DiskSlow
    Source   PopMessageProcessor.getInitOffset
    """
    reading = store.reading
    if begin_ms == BEGIN_UNLESS_RECENT:
        is_new = await begins_recently(store, topic, queue_id)
        return 0 if is_new else reading.queue_range(topic, queue_id)[1]
    assert BEGIN_MIN <= begin_ms < BEGIN_MAX, "no begin before the max is set"
    if begin_ms == BEGIN_MIN:
        return reading.queue_range(topic, queue_id)[0]
    return await value_of(reading.queue_offset_by_time(topic, queue_id, begin_ms, Bound.LOWER))


async def begins_recently(store: MessageStore, topic: str, queue_id: int) -> bool:
    """Returns whether message 0 of a queue exists and is among the last RECENT_BYTES of the log.

    Errors   StorageError, DiskSlow
    Source   DefaultMessageStore.checkInMemByConsumeOffset
    """
    lower, upper = store.reading.queue_range(topic, queue_id)
    if lower > 0 or upper == 0:
        return False
    place = await value_of(store.reading.place_of(topic, queue_id, 0))
    return place is not None and store.appended - place <= RECENT_BYTES


def without_offset(store: MessageStore, queues: Iterable[GroupQueue]) -> list[GroupQueue]:
    """Returns the queues in which the group has no offset."""
    find = store.tables.offsets.find
    return [q for q in queues if find(q.group, q.topic, q.queue_id) is None]


async def begin_in(store: MessageStore, queues: Sequence[GroupQueue], begin_ms: int) -> None:
    """Sets the first offsets of a group in queues of a topic; durable when it returns.

    Errors   StorageError, DiskSlow, DiskFull
    """
    offsets, (group, topic) = store.tables.offsets, (queues[0].group, queues[0].topic)
    is_begun = offsets.has_some(group, topic)
    if begin_ms == BEGIN_MAX or (begin_ms == BEGIN_UNLESS_RECENT and is_begun):
        begin_at_ends(store, group, topic)
    else:
        begins = [await begin_offset(store, topic, q.queue_id, begin_ms) for q in queues]
        ids = [queue.queue_id for queue in queues]
        offsets.begin(group, topic, dict(zip(ids, begins, strict=True)))
    await offsets.saved()


def begins_at_max(store: MessageStore, request: ReceiveRequest) -> bool:
    """Returns whether a group begins after the last message of a queue."""
    if request.begin_ms == BEGIN_UNSET:
        return not begins_at_min(store, request.group)
    return request.begin_ms == BEGIN_MAX
