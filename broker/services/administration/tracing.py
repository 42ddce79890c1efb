"""Where a message went: every record of its unique key, in the order of the log.

A message that is delayed, retried or given up is stored again each time, in a topic of the broker's
or of a group's, under the unique key it had. So its way is what an index finds of that key in all
those topics; who has had it, the offsets of the groups say.
Source: DefaultMQAdminExt.messageTrackDetail, QueryMsgByUniqueKeySubCommand.
"""

from collections.abc import Iterable
from typing import Final

from broker.format.addresses import parse_offset_message_id
from broker.model.errors import MessageNotFound
from broker.model.message import DELAY, DELIVER_AT, REAL_TOPIC, StoredMessage
from broker.model.names import check_message_id
from broker.model.reading import KeyRange
from broker.model.tracing import (
    STEPS,
    TracedRecord,
    TraceStep,
    origin_topic_of,
    owner_of,
    step_of,
)
from broker.store.message_store import MessageStore
from broker.store.reading.patience import value_of

PAGE_COUNT: Final = 64
RECORDS_MAX: Final = 4_096
"""Of one message; a producer that gives all its messages one key has no way to be shown."""


async def trace_message(
    store: MessageStore, message_id: str, topic: str = ""
) -> tuple[str, list[TracedRecord]]:
    """Return a message's unique key and the records of it, in the order of the log.

    message_id   its unique key, or the id that encodes its address
    topic        one it was sent to; "": all are looked through
    Errors       IllegalMessageId, IllegalTopic, TopicNotFound, MessageNotFound, Corruption,
                 DiskSlow
    Cost         a search of the index for each topic
    """
    check_message_id(message_id)
    key = await _unique_key(store, message_id)
    found: dict[int, StoredMessage] = {}
    for name in _topics(store, topic):
        for message in await _of_key(store, name, key):
            found[message.physical_offset] = message
    if not found:
        raise MessageNotFound(topic=topic or "*", message_id=message_id)
    assert all(message.unique_key == key for message in found.values())
    return key, [_traced(store, message) for _, message in sorted(found.items())]


async def _unique_key(store: MessageStore, message_id: str) -> str:
    """Return the unique key of the record an offset id leads to, else the id itself."""
    place = parse_offset_message_id(message_id)
    if place is None:
        return message_id
    store_host, physical_offset = place
    message = await value_of(store.reading.message_at(physical_offset))
    is_it = message is not None and message.store_host == store_host
    return message.unique_key if message is not None and is_it else message_id


def _topics(store: MessageStore, topic: str) -> Iterable[str]:
    """Return where to look: everywhere, or in a topic and where its messages can get to."""
    names = [*store.tables.topics.names()]
    if topic:
        store.tables.topics.existing(topic)
        names = [n for n in names if n == topic or step_of(n) is not TraceStep.SENT]
    return dict.fromkeys([*names, *STEPS])


async def _of_key(store: MessageStore, topic: str, key: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    wanted = KeyRange(topic, key, PAGE_COUNT)
    while len(found) < RECORDS_MAX:
        page = await store.reading.query(wanted)
        found += [message for message in page.messages if message.unique_key == key]
        if page.complete or not page.next_cursor:
            break
        wanted = wanted._replace(cursor=page.next_cursor)
    return found


def _traced(store: MessageStore, message: StoredMessage) -> TracedRecord:
    topic, properties = message.topic, message.properties
    step = step_of(topic)
    target = properties.get(REAL_TOPIC, "") if topic in STEPS else ""
    group = owner_of(target or topic, properties, store.tables.groups.names())
    passed_by, awaited_by = _standing(store, message)
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
        deliver_at_ms=_number(properties.get(DELIVER_AT)) if step is TraceStep.TIMED else None,
        delay_level=_number(properties.get(DELAY)) if step is TraceStep.SCHEDULED else None,
        passed_by=passed_by,
        awaited_by=awaited_by,
        origin_topic=origin_topic_of(target or topic, properties, group),
    )


def _standing(store: MessageStore, message: StoredMessage) -> tuple[list[str], list[str]]:
    """Return the groups that stand behind a message, and those that have not come to it."""
    passed_by: list[str] = []
    awaited_by: list[str] = []
    for group, topic, queue_offsets in store.tables.offsets.positions():
        if topic == message.topic and message.queue_id in queue_offsets:
            is_behind = queue_offsets[message.queue_id] > message.queue_offset
            (passed_by if is_behind else awaited_by).append(group)
    return sorted(passed_by), sorted(awaited_by)


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 19
    return int(text) if text is not None and is_number else None
