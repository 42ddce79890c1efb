"""The methods of v1, one row each (rpc/method_table.py)."""

from collections.abc import Mapping
from typing import Any, Final

from pocketmq.model.access import ResourceKind
from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.method_table import OnCluster, Rpc, RpcTable
from pocketmq.rpc.pb import access_pb2, admin_pb2, broker_pb2, replication_pb2
from pocketmq.rpc.permissions import (
    CREATE,
    DELETE,
    FIND,
    GET,
    LOOK,
    PUB,
    UPDATE,
    AdminOnly,
    FaceRules,
    group_need,
    nothing,
    topic_need,
)
from pocketmq.rpc.service import SEND_SIZE_MAX, MethodKind, Service
from pocketmq.rpc.v1.permissions import (
    FIRST_TOPIC,
    PRODUCERS,
    all_groups,
    all_topics,
    cloned,
    consumed,
    group_and_topic,
    lag,
    of_group,
    of_topic,
    or_all,
    pulled,
    redriven,
    sent,
    transactions,
    verified,
)
from pocketmq.rpc.v1.send_message import parse_send_request
from pocketmq.rpc.v1.status import refuse

BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["Broker"]
ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
ACCESS: Final = access_pb2.DESCRIPTOR.services_by_name["Access"]
REPLICATION: Final = replication_pb2.DESCRIPTOR.services_by_name["Replication"]
SETTLE_SIZE_MAX: Final = 256 * 1024
"""Upper limit of bytes of a settling request: SETTLE_MAX (consuming.py) usual handles fit."""
_Own = Mapping[str, Any]
_ENCODED: Final[_Own] = {"serialize": bytes, "answer": bytes}
"""The method encodes its response itself."""
_SENT: Final[_Own] = {
    **_ENCODED, "parse": parse_send_request, "request_size_max": SEND_SIZE_MAX
}  # fmt: skip
_PARKED: Final[_Own] = {**_ENCODED, "parks": True}
_RECEIVED: Final[_Own] = {**_ENCODED, "kind": MethodKind.UNARY}
"""A stream of one answer has the same bytes as a unary answer, which costs less."""
_SETTLED: Final[_Own] = {**_ENCODED, "request_size_max": SETTLE_SIZE_MAX}
_SEE_USERS: Final = AdminOnly("see users and grants")
_CHANGE_USERS: Final = AdminOnly("change users and grants")
_CHANGE_ROLE: Final = AdminOnly("change roles and followers")

BROKER_TABLE: Final = RpcTable(
    BROKER.full_name, CallClass.QUERY, refuse,
    (
        Rpc(
            "SendMessage", "send_message", sent, "send_message_v2", creates=True,
            call_class=CallClass.SEND, shortcut="send_message.shortcut", quick=FIRST_TOPIC,
            own=_SENT,
        ),
        Rpc("Recall", "recall", of_topic(PUB), "recall_message", call_class=CallClass.SEND),
        Rpc(
            "PullMessage", "pull_message", consumed, creates=True, call_class=CallClass.POLL,
            own=_PARKED
        ),
        Rpc(
            "EndTransaction", "end_transaction", of_group(PUB), "end_transaction",
            call_class=CallClass.SETTLE, shortcut="end_transaction.shortcut", quick=PRODUCERS,
            own={"request_size_max": SETTLE_SIZE_MAX},
        ),
        Rpc(
            "CheckTransactions", "check_transactions", of_group(PUB),
            "check_transaction_state", call_class=CallClass.POLL, own={"kind": MethodKind.UNARY}
        ),
        Rpc("QueryByKey", "query_messages.by_key", of_topic(LOOK), "query_message"),
        Rpc("QueryById", "query_messages.by_id", of_topic(LOOK), "view_message_by_id"),
        Rpc("QueryByTime", "query_by_time", of_topic(LOOK), "search_offset_by_timestamp"),
        Rpc("QueryOffsets", "query_offsets", of_topic(LOOK), "get_max_offset"),
        Rpc("CommitOffset", "commit_offset", consumed, "update_consumer_offset", creates=True),
        Rpc("FetchOffset", "fetch_offset", consumed, "query_consumer_offset"),
        Rpc(
            "Receive", "consuming.receive", consumed, "pop_message", creates=True,
            call_class=CallClass.POLL, own=_RECEIVED
        ),
        Rpc(
            "Ack", "consuming.ack", consumed, "ack_message", call_class=CallClass.SETTLE,
            own=_SETTLED
        ),
        Rpc(
            "ChangeInvisible", "consuming.change_invisible", consumed,
            "change_message_invisibletime", call_class=CallClass.SETTLE, own=_SETTLED
        ),
        Rpc(
            "SendBack", "consuming.send_back", consumed, "consumer_send_msg_back",
            call_class=CallClass.SETTLE, own=_SETTLED
        ),
        Rpc(
            "ForwardToDeadLetters", "consuming.forward_to_dead_letters", consumed,
            call_class=CallClass.SETTLE, own=_SETTLED
        ),
    ),
    BROKER,
)  # fmt: skip
ADMIN_TABLE: Final = RpcTable(
    ADMIN.full_name, CallClass.ADMIN, refuse,
    (
        Rpc(
            "CreateTopic", "create_topic", of_topic(CREATE, "name"), "update_and_create_topic",
            creates=True
        ),
        Rpc("ListTopics", "list_topics", all_topics, "get_all_topic_config"),
        Rpc("DescribeTopic", "describe_topic", of_topic(FIND, "name"), "get_topic_config"),
        Rpc("UpdateTopic", "update_topic", of_topic(UPDATE, "name"), "update_and_create_topic"),
        Rpc("DeleteTopic", "delete_topic", of_topic(DELETE, "name"), "delete_topic_in_broker"),
        Rpc("PurgeTopic", "purge_topic", of_topic(DELETE, "name")),
        Rpc(
            "TopicStats", "topic_stats", or_all("name", ResourceKind.TOPIC, topic_need),
            "get_topic_stats_info"
        ),
        Rpc(
            "CreateGroup", "create_group", of_group(CREATE, "name"),
            "update_and_create_subscriptiongroup", creates=True
        ),
        Rpc("ListGroups", "list_groups", all_groups, "get_all_subscriptiongroup_config"),
        Rpc(
            "DescribeGroup", "describe_group", of_group(LOOK, "name"),
            "get_subscriptiongroup_config"
        ),
        Rpc(
            "UpdateGroup", "update_group", of_group(UPDATE, "name"),
            "update_and_create_subscriptiongroup"
        ),
        Rpc(
            "DeleteGroup", "delete_group", of_group(DELETE, "name"), "delete_subscriptiongroup"
        ),
        Rpc(
            "ListProducers", "list_producers", of_topic(LOOK), "get_producer_connection_list"
        ),
        Rpc("ListMembers", "list_members", of_group(LOOK), "get_consumer_list_by_group"),
        Rpc("ListOffsets", "list_offsets", group_and_topic(LOOK), "get_all_consumer_offset"),
        Rpc("GroupLag", "group_lag", lag, "get_consume_stats"),
        Rpc(
            "SetOffsets", "set_offsets", group_and_topic(UPDATE), "update_consumer_offset",
            creates=True
        ),
        Rpc(
            "ResetOffsets", "reset_offsets", group_and_topic(UPDATE),
            "invoke_broker_to_reset_offset", creates=True
        ),
        Rpc("CloneOffsets", "clone_offsets", cloned, "clone_group_offset", creates=True),
        Rpc("QueryByKey", "query_messages.by_key", of_topic(LOOK), "query_message"),
        Rpc("QueryByTag", "query_messages.by_tag", of_topic(LOOK), "query_message"),
        Rpc("QueryById", "query_messages.by_id", of_topic(LOOK), "view_message_by_id"),
        Rpc(
            "TraceMessage", "trace_message", or_all("topic", ResourceKind.TOPIC, topic_need),
            "query_message"
        ),
        Rpc(
            "ListDeadLetters", "list_dead_letters", or_all("group", ResourceKind.GROUP,
            group_need, LOOK)
        ),
        Rpc("RedriveDeadLetters", "redrive_dead_letters", redriven),
        Rpc("ListDelayed", "list_delayed", or_all("topic", ResourceKind.TOPIC, topic_need)),
        Rpc("ListTransactions", "list_transactions.page", transactions),
        Rpc(
            "DescribeTransaction", "list_transactions.describe", nothing
        ),  # The handler checks the permission: only it knows the topic.
        Rpc(
            "ResumeTransaction", "list_transactions.resume", OnCluster(UPDATE),
            "resume_check_half_message"
        ),
        Rpc("StoreStatus", "store_status", OnCluster(GET), "get_broker_runtime_info"),
        Rpc("MapStore", "map_store", OnCluster(GET)),
        Rpc("Flush", "flush", OnCluster(UPDATE)),
        Rpc("ReportArchive", "report_archive", OnCluster(UPDATE)),
        Rpc("EffectiveConfig", "effective_config", OnCluster(GET), "get_broker_config"),
        Rpc("Drain", "drain", AdminOnly("stop the broker")),
        Rpc(
            "PullMessage", "pull_message", pulled, creates=True, call_class=CallClass.POLL,
            own=_PARKED
        ),
        Rpc(
            "PrintClientStack", "ask_clients.print_stack", of_group(LOOK),
            "get_consumer_running_info", call_class=CallClass.QUESTION
        ),
        Rpc(
            "VerifyMessage", "ask_clients.verify_message", verified,
            "consume_message_directly", call_class=CallClass.QUESTION
        ),
    ),
    ADMIN,
)  # fmt: skip
ACCESS_TABLE: Final = RpcTable(
    ACCESS.full_name, CallClass.ACCESS, refuse,
    (
        Rpc("CreateUser", "create_user", _CHANGE_USERS, "auth_create_user"),
        Rpc("UpdateUser", "update_user", _CHANGE_USERS, "auth_update_user"),
        Rpc("DeleteUser", "delete_user", _CHANGE_USERS, "auth_delete_user"),
        Rpc("ListUsers", "list_users", _SEE_USERS, "auth_list_users"),
        Rpc("AddGrant", "add_grant", _CHANGE_USERS, "auth_create_acl"),
        Rpc("RemoveGrant", "remove_grant", _CHANGE_USERS, "auth_delete_acl"),
        Rpc("ListGrants", "list_grants", _SEE_USERS, "auth_list_acl"),
        Rpc("Explain", "explain", _SEE_USERS),
        Rpc("OwnGrants", "own_grants", nothing),
    ),
    ACCESS,
)  # fmt: skip
REPLICATION_TABLE: Final = RpcTable(
    REPLICATION.full_name, CallClass.ADMIN, refuse,
    (
        Rpc("ReplicationStatus", "replication_status", OnCluster(GET)),
        Rpc("Promote", "promote", _CHANGE_ROLE),
        Rpc("Follow", "follow", _CHANGE_ROLE),
        Rpc("RemoveReplica", "remove_replica", _CHANGE_ROLE),
        Rpc("Resync", "resync", _CHANGE_ROLE),
    ),
    REPLICATION,
)  # fmt: skip
TABLES: Final = (BROKER_TABLE, ADMIN_TABLE, ACCESS_TABLE, REPLICATION_TABLE)


def closed_faces() -> list[Service]:
    """Returns all services in a form that refuses every call."""
    return [table.closed_face() for table in TABLES]


def rules_of(cluster: str) -> dict[str, FaceRules]:
    """Returns the permission rules of each service, by name, on a broker of a cluster."""
    return {table.name: table.rules(cluster) for table in TABLES}
