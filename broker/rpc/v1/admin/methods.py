"""pocketmq.v1.Admin as one table of methods.

Each method is the same sentence as in messaging.py: check, ask, convert.
"""

from typing import Final

from broker.rpc.pb import admin_pb2 as pb
from broker.rpc.service import CallClass, Handler, Service, method
from broker.rpc.topic_access import check_operator_reads
from broker.rpc.v1.admin.groups import GroupMethods
from broker.rpc.v1.admin.lag import LagMethod
from broker.rpc.v1.admin.needs import Offsets, Process, Store, TopicTable
from broker.rpc.v1.admin.positions import PositionMethods
from broker.rpc.v1.admin.state import StateMethods
from broker.rpc.v1.admin.topics import TopicMethods
from broker.rpc.v1.pull_message import PullMessage
from broker.rpc.v1.query_messages import QueryMessages
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
        handlers: dict[str, Handler] = {
            "CreateTopic": topics.create_topic,
            "ListTopics": topics.list_topics,
            "DescribeTopic": topics.describe_topic,
            "UpdateTopic": topics.update_topic,
            "DeleteTopic": topics.delete_topic,
            "TopicStats": topics.topic_stats,
            "CreateGroup": groups.create_group,
            "ListGroups": groups.list_groups,
            "DescribeGroup": groups.describe_group,
            "UpdateGroup": groups.update_group,
            "DeleteGroup": groups.delete_group,
            "ListOffsets": positions.list_offsets,
            "GroupLag": self.lag.group_lag,
            "SetOffsets": positions.set_offsets,
            "ResetOffsets": positions.reset_offsets,
            "CloneOffsets": positions.clone_offsets,
            "QueryByKey": self.query_messages.by_key_in_turns,
            "QueryByTag": self.query_messages.by_tag,
            "QueryById": self.query_messages.by_id_in_turns,
            "StoreStatus": state.store_status,
            "Flush": state.flush,
            "EffectiveConfig": state.effective_config,
            "Drain": state.drain,
        }
        methods = [
            method(DESCRIPTOR, name, handler, CallClass.ADMIN) for name, handler in handlers.items()
        ]
        return Service(DESCRIPTOR.full_name, (self._pull_message.method(DESCRIPTOR), *methods))
