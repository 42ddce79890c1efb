"""Consumer groups: made, changed, listed, described, removed.

`max_attempts` counts deliveries in all, `retryMaxTimes` of the file those after the first.
"""

import asyncio
from typing import Final

from broker.model.errors import GroupNotFound, SystemGroup
from broker.model.group import GroupConfig, GroupSettings
from broker.model.system_topics import dead_letter_topic, retry_topic
from broker.model.topic import QUEUE_COUNT_MAX
from broker.model.topic_names import check_group
from broker.rpc.call import Call
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.v1.admin.needs import GroupTable, Offsets, TopicTable
from broker.rpc.v1.admin.pages import check_group_token, page_of
from broker.rpc.v1.admin.topics import TopicMethods
from broker.rpc.v1.convert import INT32_MAX, check_number

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


class GroupMethods:
    """The methods about groups."""

    __slots__ = ("_groups", "_offsets", "_removal", "_topics")

    def __init__(
        self,
        groups: GroupTable,
        *,
        topics: TopicTable,
        offsets: Offsets,
        removal: TopicMethods,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._offsets = offsets
        self._removal = removal

    async def create_group(
        self, request: pb.CreateGroupRequest, call: Call
    ) -> pb.CreateGroupResponse:
        """Make a group, or return the one that is there with the same settings.

        Errors   IllegalGroup, SystemGroup, IllegalNumber, GroupExists, DiskFull
        """
        check_changeable(request.name, why="create")
        made = await self._groups.create(request.name, group_settings(request.settings))
        return pb.CreateGroupResponse(group=proto_group(made))

    async def update_group(
        self, request: pb.UpdateGroupRequest, call: Call
    ) -> pb.UpdateGroupResponse:
        """Change what is set of a group.

        Errors   IllegalGroup, SystemGroup, GroupNotFound, IllegalNumber, DiskFull
        """
        check_changeable(request.name, why="change")
        settings = group_settings(request.settings)
        changed = await self._groups.update(request.name, settings)
        return pb.UpdateGroupResponse(group=proto_group(changed))

    async def delete_group(
        self, request: pb.DeleteGroupRequest, call: Call
    ) -> pb.DeleteGroupResponse:
        """Remove a group and where it stands, its retry and dead-letter topics if asked to.

        Errors   IllegalGroup, SystemGroup, GroupNotFound, DiskFull
        Source   AdminBrokerProcessor.deleteSubscriptionGroup, DeleteSubscriptionGroupCommand
        """
        name = request.name
        check_changeable(name, why="remove")
        find_group(self._groups, name)
        own = (retry_topic(name), dead_letter_topic(name))
        topics = [topic for topic in own if request.with_topics and self._topics.find(topic)]
        await asyncio.shield(self._remove(name, topics))  # Half a group is none.
        return pb.DeleteGroupResponse(removed_topics=topics)

    async def _remove(self, name: str, topics: list[str]) -> None:
        await self._groups.remove(name)
        await self._offsets.remove_group(name)
        await self._removal.remove_all(topics)

    def list_groups(self, request: pb.ListGroupsRequest, call: Call) -> pb.ListGroupsResponse:
        """Return a page of the groups, by name.

        Errors   IllegalNumber, IllegalPageToken
        """
        check_group_token(request.page_token)
        names = self._groups.names()
        if not request.include_system:
            names = [name for name in names if not is_system_group(name)]
        page = page_of(names, request.page_size, request.page_token)
        found = [find_group(self._groups, name) for name in page.names]
        return pb.ListGroupsResponse(
            groups=map(proto_group, found), next_page_token=page.next_token
        )

    def describe_group(
        self, request: pb.DescribeGroupRequest, call: Call
    ) -> pb.DescribeGroupResponse:
        """Return a group and the topics it has an offset in.

        Errors   IllegalGroup, GroupNotFound
        """
        group = find_group(self._groups, request.name)
        topics = sorted(self._offsets.all_of(group.name))
        return pb.DescribeGroupResponse(group=proto_group(group), topics=topics)


def is_system_group(group: str) -> bool:
    """Return whether the broker itself consumes by this group (MixAll.isSysConsumerGroup)."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_changeable(group: str, *, why: str) -> None:
    """Raise SystemGroup for a group of the broker, IllegalGroup for what cannot be one."""
    check_group(group)
    if is_system_group(group):
        raise SystemGroup(group=group, why=why)


def find_group(groups: GroupTable, group: str) -> GroupConfig:
    """Return a group that exists.

    Errors   IllegalGroup, GroupNotFound
    """
    config = groups.find(group)
    if config is None:
        check_group(group)
        raise GroupNotFound(group=group)
    return config


def group_settings(given: pb.GroupSettings) -> GroupSettings:
    """Return the settings that a request gives.

    Errors   IllegalNumber
    """
    for field, upper in (
        ("max_attempts", INT32_MAX),
        ("retry_queue_count", QUEUE_COUNT_MAX),
        ("consume_timeout_minutes", INT32_MAX),
    ):
        if given.HasField(field):
            check_number(field, getattr(given, field), lower=1, upper=upper)
    names = [name for name in GroupSettings._fields if given.HasField(name)]
    return GroupSettings(**{name: getattr(given, name) for name in names})


def proto_group(config: GroupConfig) -> pb.Group:
    """Return a group as it is sent to clients, with all of its settings."""
    return pb.Group(
        name=config.name,
        settings=pb.GroupSettings(**config.settings._asdict()),
        system=is_system_group(config.name),
        attributes=config.attributes,
    )
