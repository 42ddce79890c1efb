"""Creates, changes, lists, describes and deletes topics."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pocketmq.model.administration import QueueState, TopicChange
from pocketmq.model.errors import DiskFull, IllegalAttribute, SystemTopic
from pocketmq.model.names import check_number, check_topic
from pocketmq.model.ownership import Owner, is_left_alone
from pocketmq.model.system_topics import lease_retry_topic, lease_retry_topic_v2
from pocketmq.model.topic import (
    FIXED_ATTRIBUTES,
    PERMISSION_MAX,
    PERMISSION_READ,
    PERMISSION_WRITE,
    QUEUE_COUNT_MAX,
    TYPE_ATTRIBUTE,
    TopicConfig,
    check_attribute,
    is_group_topic,
    is_system_topic,
)
from pocketmq.store.message_store import MessageStore

QUEUE_COUNT_DEFAULT: Final = 8
"""RocketMQ's defaultTopicQueueNums."""
NO_ATTRIBUTES: Final[Mapping[str, str]] = {}


async def create_topic(
    store: MessageStore, name: str, *, queue_count: int = 0, type_name: str = "",
    attributes: Mapping[str, str] = NO_ATTRIBUTES,
    permission: int = PERMISSION_READ | PERMISSION_WRITE,
) -> TopicConfig:  # fmt: skip
    """Creates a topic; returns an existing topic if it has the same settings.

    queue_count   0: QUEUE_COUNT_DEFAULT
    type_name     "": no type; the topic accepts all kinds of messages
    permission    sum of PERMISSION_READ, PERMISSION_WRITE and PERMISSION_INHERIT, or 0
    Errors        IllegalTopic, SystemTopic, IllegalNumber, IllegalAttribute, TopicExists,
                  LimitReached, DiskFull
    """
    check_topic(name)
    if is_system_topic(name) or is_group_topic(name):
        raise SystemTopic(topic=name, why="create")
    check_number("queue_count", queue_count, upper=QUEUE_COUNT_MAX)
    check_number("permission", permission, upper=PERMISSION_MAX)
    stated = {TYPE_ATTRIBUTE: type_name} if type_name else {}
    return await store.tables.topics.create(
        name,
        queue_count=queue_count or QUEUE_COUNT_DEFAULT,
        permission=permission,
        attributes=changed_attributes({}, {**attributes, **stated}, ()),
    )


async def update_topic(store: MessageStore, name: str, change: TopicChange) -> TopicConfig:
    """Changes the given settings of a topic.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic, IllegalNumber,
             IllegalAttribute, LimitReached, DiskFull
    """
    config = changeable_topic(store, name, why="change")
    for field, lower, upper in (
        ("read_queue_count", 1, QUEUE_COUNT_MAX),
        ("write_queue_count", 1, QUEUE_COUNT_MAX),
        ("permission", 0, PERMISSION_MAX),
    ):
        value = getattr(change, field)
        if value is not None:
            check_number(field, value, lower=lower, upper=upper)
    return await store.tables.topics.update(
        name,
        read_queue_count=change.read_queue_count,
        write_queue_count=change.write_queue_count,
        permission=change.permission,
        order=change.order,
        attributes=changed_attributes(
            config.attributes, change.set_attributes or {}, change.remove_attributes
        ),
    )


async def delete_topic(store: MessageStore, name: str, *, dry_run: bool = False) -> list[str]:
    """Deletes a topic, the groups' offsets in the topic, and the groups' retry topics for it.

    A retry topic is kept if its name also belongs to another group and topic.

    dry_run  whether to return only the topics that would be removed
    Returns  the removed topics
    Errors   IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic, DiskFull
    Source   AdminBrokerProcessor.deleteTopic
    """
    changeable_topic(store, name, why="remove")
    retried = [*own_retry_topics(store, name)]
    if dry_run:
        return [name, *retried]
    # A cancellation must not leave queues: the next start would create a topic for them.
    await asyncio.shield(remove_topics(store, [name, *retried]))
    return [name, *retried]


async def remove_topics(store: MessageStore, topics: Sequence[str]) -> None:
    """Removes topics with their queues, offsets and orders; a new creation of a topic waits.

    Errors   DiskFull: a topic whose queues could not be removed is there again
    """
    removed = store.tables.removed
    for topic in topics:
        async with store.tables.topics.leaving(topic):
            row, queues = store.tables.topics.row(topic), removed.queues(topic)
            await store.tables.topics.remove(topic)
            try:
                await store.remove_topic(topic)
            except DiskFull:
                if removed.queues(topic) == queues:
                    store.tables.topics.put_back(topic, row)
                raise
            await store.tables.offsets.remove_topic(topic)
            await store.tables.orders.remove_topic(topic)


async def describe_topic(store: MessageStore, name: str) -> tuple[TopicConfig, list[QueueState]]:
    """Returns a topic and the state of each queue, as `all_queue_states`.

    Errors   IllegalTopic, TopicNotFound, StorageError, DiskSlow
    """
    config = store.tables.topics.existing(name)
    return config, await all_queue_states(store, config)


async def all_queue_states(store: MessageStore, config: TopicConfig) -> list[QueueState]:
    """Returns the state of each queue of a topic.

    Queues at or above the topic's queue count, whose files still exist, are at the end.
    Errors   StorageError, DiskSlow
    Cost     two reads of the log a queue
    """
    beyond = [n for n in store.reading.queue_ids(config.name) if n >= config.queue_count]
    return await queue_states(store, config.name, [*range(config.queue_count), *beyond])


async def queue_states(
    store: MessageStore, name: str, queue_ids: Iterable[int]
) -> list[QueueState]:
    """Returns the offsets and times of queues of a topic.

    Errors   StorageError, DiskSlow
    """
    return [await store.reading.span(name, queue_id) for queue_id in queue_ids]


def topic_names(store: MessageStore, *, include_system: bool) -> Iterable[str]:
    """Returns the names of all topics, or of all topics except system topics."""
    names = store.tables.topics.names()
    return names if include_system else [name for name in names if not is_system_topic(name)]


def changeable_topic(store: MessageStore, topic: str, *, why: str) -> TopicConfig:
    """Returns a topic that operators may change.

    Errors   IllegalTopic, SystemTopic, TopicNotFound, UnsupportedTopic
    """
    if is_system_topic(topic):
        raise SystemTopic(topic=topic, why=why)
    config = store.tables.topics.existing(topic)
    config.check_supported()
    return config


def own_retry_topics(store: MessageStore, topic: str) -> Iterable[str]:
    """Yields the retry topics for a topic, of all groups, unless they have another owner."""
    consumed = store.tables.offsets.topics_by_group()
    groups, is_topic = store.tables.groups, store.tables.topics.find

    def is_group(name: str) -> bool:
        return name in consumed or groups.find(name) is not None

    for group, topics in consumed.items():
        if topic not in topics:
            continue
        for name in (lease_retry_topic(group, topic), lease_retry_topic_v2(group, topic)):
            alone = is_left_alone(name, Owner(group, topic), is_group, is_topic)
            if alone and is_topic(name) is not None:
                yield name


def changed_attributes(
    current: Mapping[str, str], given: Mapping[str, str], removed: Iterable[str]
) -> dict[str, str]:
    """Returns `current` with the attributes `given` set and the attributes `removed` removed.

    Errors   IllegalAttribute
    Source   AttributeUtil.alterCurrentAttributes, TopicAttributes
    """
    for name, value in given.items():
        check_attribute(name, value)
    names = list(removed)
    for name in names:
        if name in FIXED_ATTRIBUTES:
            raise IllegalAttribute(name=name, why="it cannot be changed")
        if name in given:
            raise IllegalAttribute(name=name, why="it is both set and removed")
        if name not in current:
            raise IllegalAttribute(name=name, why="the topic does not have it")
    return {k: v for k, v in {**current, **given}.items() if k not in names}
