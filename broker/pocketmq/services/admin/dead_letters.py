"""Dead letters of groups, and which of them are pending.

A group's dead letters are stored in the topic `%DLQ%group`. Dead letters at or above the group's
offset in this topic are pending. Only redrives advance this offset: consumers of the topic use
other groups.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pocketmq.model.administration import DeadLetters, Page, page_of
from pocketmq.model.errors import SystemTopic
from pocketmq.model.message import first_unread
from pocketmq.model.names import check_group
from pocketmq.model.topic import (
    DLQ_PREFIX,
    dead_letter_topic,
    is_group_topic,
    is_system_topic,
)
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of


class WaitingDeadLetters(NamedTuple):
    """The pending dead letters of one queue: queue offsets [begin, end)."""

    group: str
    topic: str
    queue_id: int
    begin: int
    end: int


async def list_dead_letters(
    store: MessageStore, group: str = "", *, page_size: int = 0, page_token: str = ""
) -> Page[DeadLetters]:
    """Returns the dead-letter counts of a group, or a page of the counts of all groups.

    Errors   IllegalGroup, GroupNotFound, IllegalNumber, IllegalPageToken, StorageError, DiskSlow
    Cost     one read of the log for each queue with pending dead letters
    """
    if group:
        check_group(group)
        return Page([await dead_letters(store, group)], "")
    page = page_of(_groups(store), page_size, page_token, check_group)
    return Page([await dead_letters(store, name) for name in page.items], page.next_page_token)


async def dead_letters(store: MessageStore, group: str) -> DeadLetters:
    """Returns the number of a group's pending dead letters, and the store time of the oldest.

    Errors   GroupNotFound, StorageError, DiskSlow
    """
    topic = dead_letter_topic(group)
    waiting, stored, oldest_ms = 0, 0, 0
    for _, _, queue_id, begin, end in waiting_ranges(store, group):
        waiting += end - begin
        stored += end
        if begin < end:
            time_ms = await value_of(store.reading.store_timestamp_at(topic, queue_id, begin)) or 0
            oldest_ms = min(time_ms, oldest_ms or time_ms)
    assert waiting <= stored, "more pending dead letters than stored"
    return DeadLetters(group, topic, waiting, stored, oldest_ms)


def waiting_ranges(store: MessageStore, group: str) -> list[WaitingDeadLetters]:
    """Returns the pending dead letters of a group, by queue.

    Errors   GroupNotFound: the group does not exist, and has no dead letters
    """
    topic = dead_letter_topic(group)
    config = store.tables.topics.find(topic)
    if config is None:
        store.tables.groups.existing(group)
    find, ranges = store.tables.offsets.find, []
    for queue_id in range(config.queue_count if config is not None else 0):
        lower, upper = store.reading.queue_range(topic, queue_id)
        begin = first_unread(find(group, topic, queue_id) or 0, lower, upper)
        ranges.append(WaitingDeadLetters(group, topic, queue_id, begin, upper))
    return ranges


def sendable_queues(store: MessageStore, topic: str) -> int:
    """Returns the number of queues that producers may send to.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, TopicNotWritable, UnsupportedTopic
    """
    if is_system_topic(topic) or is_group_topic(topic):
        raise SystemTopic(topic=topic, why="write to")
    config = store.tables.topics.existing(topic)
    config.check_writable()
    return config.write_queue_count


def _groups(store: MessageStore) -> Iterable[str]:
    names = store.tables.topics.names()
    return sorted(n.removeprefix(DLQ_PREFIX) for n in names if n.startswith(DLQ_PREFIX))
