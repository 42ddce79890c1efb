"""Changes of consumer groups by classic programs.

    200  UPDATE_AND_CREATE_SUBSCRIPTIONGROUP         207  DELETE_SUBSCRIPTIONGROUP
    225  UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST

Retry policies, attributes and whichBrokerWhenConsumeSlowly are ignored.
Source: AdminBrokerProcessor, SubscriptionGroupConfig.
"""

from pocketmq.model.names import check_group
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.group_request import GROUP_LIST, settings_of
from pocketmq.rpc.classic.fields import flag_field, text_field
from pocketmq.rpc.classic.json_body import Body, body_of, objects_in, text_in
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.permissions import CREATE, UPDATE, group_need
from pocketmq.rpc.topic_access import check_may
from pocketmq.services.admin.groups import (
    check_changeable,
    check_settings,
    create_group,
    delete_group,
    update_group,
)
from pocketmq.store.message_store import MessageStore
from pocketmq.wire.remoting import Command


class ChangeGroups:
    """The requests that create, change and delete groups."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def update(self, request: Command, call: ClassicCall) -> Command:
        """Creates a group, or changes the settings of an existing one.

        Errors   MalformedRequest, AccessDenied, those of `create_group` and `update_group`
        """
        await self._put([body_of(request)], call)
        return OK

    async def update_all(self, request: Command, call: ClassicCall) -> Command:
        """Creates or changes the groups of a list in order, until one is refused.

        An illegal name or number anywhere in the list refuses the request before any change.

        Errors   those of `update`
        """
        await self._put(objects_in(body_of(request), GROUP_LIST), call)
        return OK

    async def _put(self, rows: list[Body], call: ClassicCall) -> None:
        wanted = [(text_in(row, "groupName"), settings_of(row)) for row in rows]
        for group, settings in wanted:
            check_changeable(group, why="change")
            check_settings(settings)
        for group, settings in wanted:
            is_new = self._store.tables.groups.find(group) is None
            check_may(call, group_need(group, CREATE if is_new else UPDATE))
            put = create_group if is_new else update_group
            await put(self._store, group, settings)

    async def delete(self, request: Command, call: ClassicCall) -> Command:
        """Deletes a group, and its offsets if cleanOffset is true; succeeds for a missing group.

        The retry and dead-letter topics are kept. mqadmin deletes them with further requests.

        Errors   MalformedRequest, IllegalGroup, SystemGroup, DiskFull
        """
        group = text_field(request, "groupName")
        check_group(group)
        if self._store.tables.groups.find(group) is not None:
            with_offsets = flag_field(request, "cleanOffset")
            await delete_group(self._store, group, with_topics=False, with_offsets=with_offsets)
        return OK
