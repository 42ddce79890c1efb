"""Services of v1: their methods, the class of each, and RocketMQ's request code.

They exist before anything can be served: while closed, every method is known, and refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.pb import access_pb2, admin_pb2, broker_pb2
from pocketmq.rpc.service import SEND_SIZE_MAX, Handler, Method, MethodKind, Service, closed, method
from pocketmq.rpc.v1.end_transaction import EndTransaction
from pocketmq.rpc.v1.send_message import SendMessage, parse_send_request
from pocketmq.rpc.v1.status import refuse

BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["Broker"]
ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
ACCESS: Final = access_pb2.DESCRIPTOR.services_by_name["Access"]
FACES: Final = (BROKER, ADMIN, ACCESS)
SETTLE_SIZE_MAX: Final = 256 * 1024
"""Bytes of a request with as many handles as it may have, of the usual length."""
SETTLING: Final = frozenset({"Ack", "ChangeInvisible", "SendBack", "ForwardToDeadLetters"})
ASKING: Final = frozenset({"PrintClientStack", "VerifyMessage"})
"""Methods that wait for another client's answer."""
CLASSES: Final[Mapping[str, CallClass]] = {
    "Broker": CallClass.QUERY,
    "Admin": CallClass.ADMIN,
    "Access": CallClass.ACCESS,
}
"""Classes of the methods of each face that are nothing special."""
REQUEST_CODES: Final[Mapping[str, str]] = {
    "SendMessage": "send_message_v2",
    "Recall": "recall_message",
    "EndTransaction": "end_transaction",
    "CheckTransactions": "check_transaction_state",
    "ResumeTransaction": "resume_check_half_message",
    "QueryByKey": "query_message",
    "QueryByTag": "query_message",
    "QueryById": "view_message_by_id",
    "QueryByTime": "search_offset_by_timestamp",
    "QueryOffsets": "get_max_offset",
    "Receive": "pop_message",
    "Ack": "ack_message",
    "ChangeInvisible": "change_message_invisibletime",
    "SendBack": "consumer_send_msg_back",
    "CommitOffset": "update_consumer_offset",
    "FetchOffset": "query_consumer_offset",
    "CreateTopic": "update_and_create_topic",
    "UpdateTopic": "update_and_create_topic",
    "ListTopics": "get_all_topic_config",
    "DescribeTopic": "get_topic_config",
    "DeleteTopic": "delete_topic_in_broker",
    "TopicStats": "get_topic_stats_info",
    "CreateGroup": "update_and_create_subscriptiongroup",
    "UpdateGroup": "update_and_create_subscriptiongroup",
    "ListGroups": "get_all_subscriptiongroup_config",
    "DescribeGroup": "get_subscriptiongroup_config",
    "DeleteGroup": "delete_subscriptiongroup",
    "ListMembers": "get_consumer_list_by_group",
    "PrintClientStack": "get_consumer_running_info",
    "VerifyMessage": "consume_message_directly",
    "ListOffsets": "get_all_consumer_offset",
    "GroupLag": "get_consume_stats",
    "SetOffsets": "update_consumer_offset",
    "ResetOffsets": "invoke_broker_to_reset_offset",
    "CloneOffsets": "clone_group_offset",
    "TraceMessage": "query_message",
    "EffectiveConfig": "get_broker_config",
    "StoreStatus": "get_broker_runtime_info",
    "CreateUser": "auth_create_user",
    "UpdateUser": "auth_update_user",
    "DeleteUser": "auth_delete_user",
    "ListUsers": "auth_list_users",
    "AddGrant": "auth_create_acl",
    "RemoveGrant": "auth_delete_acl",
    "ListGrants": "auth_list_acl",
}
"""Method -> the name of RocketMQ's request code, in lower case; others go by their own name."""


def face(descriptor: ServiceDescriptor, handlers: Mapping[str, Handler]) -> Service:
    """Returns a face whose methods are served by these handlers."""
    assert handlers.keys() == set(descriptor.methods_by_name), "a face serves all its proto says"
    rows = tuple(_row(descriptor, name, handler) for name, handler in handlers.items())
    return Service(descriptor.full_name, rows, refuse)


def closed_faces() -> list[Service]:
    """Returns all faces, closed."""
    return [face(one, dict.fromkeys(one.methods_by_name, closed)) for one in FACES]


def _row(descriptor: ServiceDescriptor, name: str, handler: Handler) -> Method:
    """Returns a method; a message sent or pulled is read and written by codecs of their own."""
    own: dict[str, Any] = {"request_code": REQUEST_CODES.get(name, "")}
    call_class = CLASSES[descriptor.name]
    if name == "PullMessage":
        call_class = CallClass.POLL
        own |= {"serialize": bytes, "answer": bytes, "parks": True}
    elif name == "Receive":
        # A stream of one answer looks the same on the wire as one answer, and costs less.
        call_class = CallClass.POLL
        own |= {"serialize": bytes, "answer": bytes, "kind": MethodKind.UNARY}
    elif name in SETTLING:
        call_class = CallClass.SETTLE
        own |= {"serialize": bytes, "answer": bytes, "request_size_max": SETTLE_SIZE_MAX}
    elif name == "SendMessage":
        call_class = CallClass.SEND
        own |= {"parse": parse_send_request, "serialize": bytes, "answer": bytes}
        own |= {"request_size_max": SEND_SIZE_MAX}
        own |= {"shortcut": handler.shortcut if isinstance(handler, SendMessage) else None}
    elif name == "CheckTransactions":
        call_class = CallClass.POLL
        own |= {"kind": MethodKind.UNARY}
    elif name == "EndTransaction":
        call_class = CallClass.SETTLE
        own |= {"request_size_max": SETTLE_SIZE_MAX}
        own |= {"shortcut": handler.shortcut if isinstance(handler, EndTransaction) else None}
    elif name == "Recall":
        call_class = CallClass.SEND
    elif name in ASKING:
        call_class = CallClass.QUESTION
    return method(descriptor, name, handler, call_class, **own)
