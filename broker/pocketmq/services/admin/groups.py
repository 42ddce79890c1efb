"""Creates, changes, lists, describes and deletes consumer groups."""

import asyncio
from collections.abc import Iterable

from pocketmq.model.administration import GroupConfig, GroupSettings
from pocketmq.model.errors import SystemGroup
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import check_group, check_number
from pocketmq.model.ownership import owners
from pocketmq.model.system_topics import leased_topic
from pocketmq.model.topic import (
    QUEUE_COUNT_MAX,
    dead_letter_topic,
    is_system_group,
    retry_topic,
)
from pocketmq.services.admin.topics import remove_topics
from pocketmq.store.message_store import MessageStore


async def create_group(store: MessageStore, name: str, settings: GroupSettings) -> GroupConfig:
    """Creates a group; returns an existing group if it has the same settings.

    Errors   IllegalGroup, SystemGroup, IllegalNumber, IllegalBegin, GroupExists, LimitReached,
             DiskFull
    """
    check_changeable(name, why="create")
    check_settings(settings)
    return await store.tables.groups.create(name, settings)


async def update_group(store: MessageStore, name: str, settings: GroupSettings) -> GroupConfig:
    """Changes the given settings of a group.

    Errors   IllegalGroup, SystemGroup, GroupNotFound, IllegalNumber, IllegalBegin, DiskFull
    """
    check_changeable(name, why="change")
    check_settings(settings)
    return await store.tables.groups.update(name, settings)


async def delete_group(
    store: MessageStore, name: str, *, with_topics: bool, with_offsets: bool = True,
    dry_run: bool = False,
) -> list[str]:  # fmt: skip
    """Deletes a group.

    with_topics   whether the group's retry and dead-letter topics are removed
    with_offsets  False: the offsets stay, for a group that is created again
    dry_run       whether to return only the topics that would be removed
    Returns       the removed topics
    Errors        IllegalGroup, SystemGroup, GroupNotFound, DiskFull
    Source        AdminBrokerProcessor.deleteSubscriptionGroup, DeleteSubscriptionGroupCommand
    """
    check_changeable(name, why="remove")
    store.tables.groups.existing(name)
    topics = [*_own_topics(store, name)] if with_topics else []
    if dry_run:
        return topics

    async def remove() -> None:
        await store.tables.groups.remove(name)
        if with_offsets:
            await store.tables.offsets.remove_group(name)
            await store.tables.orders.remove_group(name)
        await remove_topics(store, topics)

    await asyncio.shield(remove())  # A cancellation must not leave a part of the group.
    return topics


def _own_topics(store: MessageStore, name: str) -> Iterable[str]:
    """Yields those of a group's retry topics and dead-letter topic that no other group owns.

    As group names may contain the separator of these topic names, two groups may have one retry
    topic. A retry topic of expired leases is yielded only if the group has an offset in it.
    """
    is_group, is_topic = store.tables.groups.find, store.tables.topics.find
    own, consumed = retry_topic(name), store.tables.offsets.all_of(name)
    of_leases = [t for t in consumed if leased_topic(t, name) != t]
    for topic in (own, *sorted(of_leases), dead_letter_topic(name)):
        found = owners(topic, is_group, is_topic)
        if is_topic(topic) is not None and all(owner.group == name for owner in found):
            yield topic


def describe_group(store: MessageStore, name: str) -> tuple[GroupConfig, list[str]]:
    """Returns a group and the topics in which it has offsets.

    Errors   IllegalGroup, GroupNotFound
    """
    return store.tables.groups.existing(name), sorted(store.tables.offsets.all_of(name))


def check_changeable(group: str, *, why: str) -> None:
    """Raises SystemGroup for a system group, IllegalGroup for an invalid name."""
    check_group(group)
    if is_system_group(group):
        raise SystemGroup(group=group, why=why)


def check_settings(settings: GroupSettings) -> None:
    """Raises IllegalNumber for a number outside its limits."""
    for field, upper in (
        ("max_attempts", INT32_MAX),
        ("retry_queue_count", QUEUE_COUNT_MAX),
        ("consume_timeout_minutes", INT32_MAX),
    ):
        value = getattr(settings, field)
        if value is not None:
            check_number(field, value, lower=1, upper=upper)
