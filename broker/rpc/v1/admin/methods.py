"""pocketmq.v1.Admin as one table of methods.

Each method is the same sentence as in messaging.py: check, ask, convert.
"""

from typing import Final

from broker.rpc.admission import CallClass
from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.service import Handler, Service, method
from broker.rpc.topic_access import check_operator_reads
from broker.rpc.v1.admin.groups import GroupMethods
from broker.rpc.v1.admin.lag import LagMethod
from broker.rpc.v1.admin.needs import Offsets, Process, Store, TopicTable
from broker.rpc.v1.admin.positions import PositionMethods
from broker.rpc.v1.admin.state import StateMethods
from broker.rpc.v1.admin.topics import TopicMethods
from broker.rpc.v1.pull_message import PullMessage
from broker.rpc.v1.query_messages import QueryMessages
from broker.rpc.v1.status import refuse
from broker.services.pull import Pull
from broker.services.query import Query

DESCRIPTOR: Final = pb.DESCRIPTOR.services_by_name["Admin"]


class Admin:
    """The methods of pocketmq.v1.Admin, those of one kind in an object of their own."""

    __slots__ = (
        "_pull_message", "groups", "lag", "positions", "query_messages", "state", "topics",
    )  # fmt: skip

    def __init__(
        self,
        pull: Pull,
        query: Query,
        *,
        store: Store,
        topics: TopicTable,
        offsets: Offsets,
        process: Process | None = None,
    ) -> None:
        groups = store.groups
        self.query_messages = QueryMessages(query, topics, check=check_operator_reads)
        self._pull_message = PullMessage(
            pull, topics, offsets=offsets, query=query, check=check_operator_reads
        )
        self.topics = TopicMethods(query, store=store, topics=topics, offsets=offsets)
        self.groups = GroupMethods(groups, topics=topics, offsets=offsets, removal=self.topics)
        self.lag = LagMethod(groups, store=store, topics=topics, offsets=offsets)
        self.positions = PositionMethods(query, groups, store=store, topics=topics, offsets=offsets)
        self.state = StateMethods(groups, store=store, topics=topics, process=process or Process())

    def service(self) -> Service:
        """Return the table of methods."""
        topics, groups, positions, state = self.topics, self.groups, self.positions, self.state
        rows: list[tuple[str, Handler, str]] = [
            ("CreateTopic", topics.create_topic, "update_and_create_topic"),
            ("ListTopics", topics.list_topics, "get_all_topic_config"),
            ("DescribeTopic", topics.describe_topic, "get_topic_config"),
            ("UpdateTopic", topics.update_topic, "update_and_create_topic"),
            ("DeleteTopic", topics.delete_topic, "delete_topic_in_broker"),
            ("TopicStats", topics.topic_stats, "get_topic_stats_info"),
            ("CreateGroup", groups.create_group, "update_and_create_subscriptiongroup"),
            ("ListGroups", groups.list_groups, "get_all_subscriptiongroup_config"),
            ("DescribeGroup", groups.describe_group, "get_subscriptiongroup_config"),
            ("UpdateGroup", groups.update_group, "update_and_create_subscriptiongroup"),
            ("DeleteGroup", groups.delete_group, "delete_subscriptiongroup"),
            ("ListOffsets", positions.list_offsets, "get_all_consumer_offset"),
            ("GroupLag", self.lag.group_lag, "get_consume_stats"),
            ("SetOffsets", positions.set_offsets, "update_consumer_offset"),
            ("ResetOffsets", positions.reset_offsets, "invoke_broker_to_reset_offset"),
            ("CloneOffsets", positions.clone_offsets, "clone_group_offset"),
            ("QueryByKey", self.query_messages.by_key, "query_message"),
            ("QueryByTag", self.query_messages.by_tag, "query_message"),
            ("QueryById", self.query_messages.by_id, "view_message_by_id"),
            ("StoreStatus", state.store_status, "get_broker_runtime_info"),
            ("Flush", state.flush, ""),
            ("EffectiveConfig", state.effective_config, "get_broker_config"),
            ("Drain", state.drain, ""),
        ]
        methods = [
            method(DESCRIPTOR, name, handler, CallClass.ADMIN, request_code=code)
            for name, handler, code in rows
        ]
        pull = self._pull_message.method(DESCRIPTOR)
        return Service(DESCRIPTOR.full_name, (pull, *methods), refuse)
