"""Traces a message: every record with its unique key, in log order.

Each time a message is delayed, retried or dead-lettered, it is stored again with the same unique
key. All these records are found in the index. The offsets of groups show which groups consumed a
record.
Source: DefaultMQAdminExt.messageTrackDetail, QueryMsgByUniqueKeySubCommand.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from pocketmq.format.addresses import parse_offset_message_id
from pocketmq.format.delayed_message import timed_ms
from pocketmq.model.errors import MessageNotFound
from pocketmq.model.message import (
    DELAY,
    ORIGIN_GROUP,
    REAL_TOPIC,
    TIMER_DELETE,
    StoredMessage,
)
from pocketmq.model.names import check_message_id
from pocketmq.model.reading import KeyRange
from pocketmq.model.tracing import (
    STEPS,
    TracedRecord,
    TraceStep,
    origin_topic_of,
    owner_of,
    step_of,
)
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

PAGE_COUNT: Final = 64
RECORDS_MAX: Final = 4_096
"""Upper limit of records of one topic: a producer may use one key for all messages."""
STANDINGS_MAX: Final = 65_536
"""Upper limit of comparisons of a record with a group's offset. If there are many groups, only the
newest records of each topic are returned."""
STEP_COUNT: Final = 4_096
"""Number of group offsets that are examined before yielding to the event loop: 2 ms."""
Positions = Mapping[str, Sequence[tuple[str, Mapping[int, int]]]]
"""Topic -> list of (group, queue id -> queue offset)."""


async def trace_message(
    store: MessageStore, message_id: str, topic: str = ""
) -> tuple[str, list[TracedRecord]]:
    """Returns a message's unique key and its records, in log order.

    message_id   unique key or offset message id
    topic        topic that the message was sent to; "": all topics are searched
    Errors       IllegalMessageId, IllegalTopic, TopicNotFound, MessageNotFound, StorageError,
                 DiskSlow
    Cost         one index query for each topic; linear in the offsets of all groups; yields to the
                 event loop
    """
    check_message_id(message_id)
    key = await _unique_key(store, message_id)
    positions = await _positions(store)
    found: dict[int, StoredMessage] = {}
    left = STANDINGS_MAX
    for name in _topics(store, topic):
        group_count = max(1, len(positions.get(name, ())))
        for message in await _of_key(store, name, key, max(1, left // group_count)):
            found[message.physical_offset] = message
            left -= group_count
        await asyncio.sleep(0)
    if not found:
        raise MessageNotFound(topic=topic or "*", message_id=message_id)
    assert all(message.unique_key == key for message in found.values())
    return key, await _all_traced(store, [found[at] for at in sorted(found)], positions)


async def _positions(store: MessageStore) -> Positions:
    found: dict[str, list[tuple[str, Mapping[int, int]]]] = {}
    for number, (group, topic, queue_offsets) in enumerate([*store.tables.offsets.positions()]):
        found.setdefault(topic, []).append((group, queue_offsets))
        if number % STEP_COUNT == STEP_COUNT - 1:
            await asyncio.sleep(0)
    for groups in found.values():
        groups.sort(key=itemgetter(0))
    return found


async def _all_traced(
    store: MessageStore, messages: Iterable[StoredMessage], positions: Positions
) -> list[TracedRecord]:
    owners = _Owners(store.tables.groups.names())
    records: list[TracedRecord] = []
    steps = 0
    for message in messages:
        groups = positions.get(message.topic, ())
        records.append(_traced(message, owners, _standing(message, groups)))
        steps += 8 + len(groups)
        if steps >= STEP_COUNT:
            steps = 0
            await asyncio.sleep(0)
    return records


class _Owners:
    """Finds the groups that own retry and dead-letter messages, with a cache by topic."""

    __slots__ = ("_found", "_groups")

    def __init__(self, groups: Iterable[str]) -> None:
        self._groups = groups
        self._found: dict[str, str] = {}

    def of(self, topic: str, properties: Mapping[str, str]) -> str:
        """Returns the owning group, "" if the topic belongs to no group."""
        if properties.get(ORIGIN_GROUP):
            return owner_of(topic, properties, ())
        if topic not in self._found:
            self._found[topic] = owner_of(topic, {}, self._groups)
        return self._found[topic]


async def _unique_key(store: MessageStore, message_id: str) -> str:
    """Returns the unique key of the message with an offset message id; other ids unchanged."""
    place = parse_offset_message_id(message_id)
    if place is None:
        return message_id
    store_host, physical_offset = place
    message = await value_of(store.reading.message_at(physical_offset))
    is_it = message is not None and message.store_host == store_host
    return message.unique_key if message is not None and is_it else message_id


def _topics(store: MessageStore, topic: str) -> Iterable[str]:
    """Returns the topics to search: all; or `topic`, and all system, retry and DLQ topics."""
    names = [*store.tables.topics.names()]
    if topic:
        store.tables.topics.existing(topic)
        names = [n for n in names if n == topic or step_of(n) is not TraceStep.SENT]
    return dict.fromkeys([*names, *STEPS])


async def _of_key(store: MessageStore, topic: str, key: str, count_max: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    wanted = KeyRange(topic, key, PAGE_COUNT)
    count_max = min(RECORDS_MAX, count_max)
    while len(found) < count_max:
        page = await store.reading.query(wanted)
        found += [message for message in page.messages if message.unique_key == key]
        if page.complete or not page.next_cursor:
            break
        wanted = wanted._replace(cursor=page.next_cursor)
    return found[:count_max]


def _traced(
    message: StoredMessage, owners: _Owners, standing: tuple[list[str], list[str]]
) -> TracedRecord:
    topic, properties = message.topic, message.properties
    step = step_of(topic)
    if step is TraceStep.TIMED and TIMER_DELETE in properties:
        step = TraceStep.RECALLED
    target = properties.get(REAL_TOPIC, "") if topic in STEPS else ""
    group = owners.of(target or topic, properties)
    passed_by, awaited_by = standing
    return TracedRecord(
        step=step,
        topic=topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_timestamp_ms=message.store_timestamp_ms,
        reconsume_times=message.reconsume_times,
        group=group,
        target_topic=target,
        deliver_at_ms=(timed_ms(message) or None) if step is TraceStep.TIMED else None,
        delay_level=_number(message, DELAY) if step is TraceStep.SCHEDULED else None,
        passed_by=passed_by,
        awaited_by=awaited_by,
        origin_topic=origin_topic_of(target or topic, properties, group),
    )


def _standing(
    message: StoredMessage, groups: Iterable[tuple[str, Mapping[int, int]]]
) -> tuple[list[str], list[str]]:
    """Returns the groups whose offset is beyond a message, and the groups whose offset is not."""
    passed_by: list[str] = []
    awaited_by: list[str] = []
    for group, queue_offsets in groups:
        queue_offset = queue_offsets.get(message.queue_id)
        if queue_offset is not None:
            (passed_by if queue_offset > message.queue_offset else awaited_by).append(group)
    return passed_by, awaited_by


def _number(message: StoredMessage, name: str) -> int | None:
    number = message.number(name)
    return number if number >= 0 else None
