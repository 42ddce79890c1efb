"""Parses requests that change groups, and lists the permissions that they need.

Source: SubscriptionGroupConfig, SubscriptionGroupList.
"""

from typing import Final

from pocketmq.model.access import Need
from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.call import Call
from pocketmq.rpc.classic.json_body import (
    Body,
    body_of,
    flag_in,
    number_in,
    objects_in,
    text_in,
)
from pocketmq.rpc.permissions import CREATE, DELETE, UPDATE, group_need
from pocketmq.wire.remoting import Command

GROUP_LIST: Final = "groupConfigList"


def changed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to create or change the group in a request's body.

    Errors   MalformedRequest
    """
    return [_need(body_of(request))]


def all_changed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to create or change all groups in a request's list.

    Errors   MalformedRequest
    """
    return [_need(row) for row in objects_in(body_of(request), GROUP_LIST)]


def deleted(request: Command, call: Call) -> list[Need]:
    """Returns the permission to delete the group that a request names."""
    return [group_need(request.fields.get("groupName", ""), DELETE)]


def _need(row: Body) -> Need:
    return group_need(text_in(row, "groupName"), (*UPDATE, *CREATE))


def settings_of(row: Body) -> GroupSettings:
    """Returns the settings of a group in a request; absent settings are None.

    retryMaxTimes counts retries; max_attempts also counts the first delivery.

    Errors   MalformedRequest
    """
    retries = number_in(row, "retryMaxTimes")
    return GroupSettings(
        enabled=flag_in(row, "consumeEnable"),
        fifo=flag_in(row, "consumeMessageOrderly"),
        max_attempts=None if retries is None or retries < 0 else retries + 1,
        retry_queue_count=number_in(row, "retryQueueNums"),
        broadcast_enabled=flag_in(row, "consumeBroadcastEnable"),
        begins_at_min=flag_in(row, "consumeFromMinEnable"),
        consume_timeout_minutes=number_in(row, "consumeTimeoutMinute"),
    )
