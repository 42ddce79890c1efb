"""Operators' requests about consumer groups.

    201  GET_ALL_SUBSCRIPTIONGROUP_CONFIG    208  GET_CONSUME_STATS
    352  GET_SUBSCRIPTIONGROUP_CONFIG        343  QUERY_TOPICS_BY_CONSUMER

Source: AdminBrokerProcessor, SubscriptionGroupConfig.
"""

from collections.abc import Callable
from typing import Any

from pocketmq.model.administration import GroupConfig
from pocketmq.model.message import INT32_MAX
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.offset_rows import offset_rows
from pocketmq.rpc.classic.admin.reset_offsets import AdminResets
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.object_keys import keyed_answer
from pocketmq.rpc.permissions import SEE, SUB, group_need, topic_need
from pocketmq.rpc.services import Services, ensure_group
from pocketmq.services.admin.rates import Rates
from pocketmq.wire.remoting import Command


class AdminGroups:
    """The requests about consumer groups."""

    __slots__ = ("_broker", "_creates_groups", "_rates", "_store", "resets")

    def __init__(
        self, backing: Services, broker: str, creates_groups: Callable[[], bool], rates: Rates
    ) -> None:
        self._store = backing.store
        self._broker = broker
        self._creates_groups = creates_groups
        self._rates = rates
        self.resets = AdminResets(backing, broker)

    def all_configs(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of up to `maxGroupNum` groups, by name, from index `groupSeq` on.

        Errors   MalformedRequest, IllegalNumber
        """
        groups = self._store.tables.groups
        names = [*groups.names()]
        begin = number_field(request, "groupSeq", absent=0)
        count = number_field(request, "maxGroupNum", absent=INT32_MAX)
        table = {name: config_row(groups.existing(name)) for name in names[begin : begin + count]}
        answer = json_answer(
            {"dataVersion": groups.version, "forbiddenTable": {}, "subscriptionGroupTable": table}
        )
        return answer._replace(fields={"totalGroupNum": str(len(names))})

    async def config(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of a group.

        RocketMQ's proxy sends this request before a new consumer begins. So a missing group is
        created if groups are created on demand and the caller may consume in it.

        Errors   MalformedRequest, IllegalGroup, GroupNotFound, LimitReached, DiskFull
        Source   SubscriptionGroupManager.findSubscriptionGroupConfig
        """
        name, groups = _group_of(request), self._store.tables.groups
        if call.may(group_need(name, SUB)):
            await ensure_group(groups, name, self._creates_groups)
        return json_answer(config_row(groups.existing(name)))

    def topics(self, request: Command, call: ClassicCall) -> Command:
        """Returns the topics in which a group has offsets and which the caller may see.

        Errors   MalformedRequest
        """
        return json_answer({"topicList": self._consumed(_group_of(request), call)})

    async def stats(self, request: Command, call: ClassicCall) -> Command:
        """Returns a group's offsets in one topic, or in all topics in which the group has offsets.

        Errors   MalformedRequest, StorageError, DiskSlow
        Cost     a read of the log for each queue with an offset
        """
        group, topic = _group_of(request), request.fields.get("topic", "")
        topics = [topic] if topic else self._consumed(group, call)
        tables, tps = self._store.tables, 0.0
        rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for name in topics:
            config = tables.topics.find(name)
            if config is not None:
                rows += await offset_rows(self._store, self._broker, group, config)
                tps += self._rates.delivered_tps(name, group)
        return keyed_answer("offsetTable", rows, consumeTps=tps)

    def _consumed(self, group: str, call: ClassicCall) -> list[str]:
        names = sorted(self._store.tables.offsets.all_of(group))
        return [name for name in names if call.may(topic_need(name, SEE))]


def _group_of(request: Command) -> str:
    return request.fields.get("group") or text_field(request, "consumerGroup")


def config_row(config: GroupConfig) -> dict[str, Any]:
    """Returns a group's settings as RocketMQ writes them (SubscriptionGroupConfig)."""
    settings = config.settings
    return {
        "attributes": config.attributes,
        "brokerId": 0,
        "consumeBroadcastEnable": settings.broadcast_enabled,
        "consumeEnable": settings.enabled,
        "consumeFromMinEnable": settings.begins_at_min,
        "consumeMessageOrderly": settings.fifo,
        "consumeTimeoutMinute": settings.consume_timeout_minutes,
        "groupName": config.name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": max((settings.max_attempts or 1) - 1, 0),
        "retryQueueNums": settings.retry_queue_count,
        "whichBrokerWhenConsumeSlowly": 1,
    }
