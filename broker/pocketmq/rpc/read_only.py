"""Refuses the calls that change a broker's tables while it follows another broker.

The store itself refuses all other calls that put records.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from pocketmq.model.errors import NotLeader
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Service

REFUSED: Final[dict[str, frozenset[str]]] = {
    "pocketmq.v1.Broker": frozenset({
        "CommitOffset", "Receive", "Ack", "ChangeInvisible", "SendBack", "ForwardToDeadLetters",
        "EndTransaction", "Recall",
    }),
    "pocketmq.v1.Admin": frozenset({
        "CreateTopic", "UpdateTopic", "DeleteTopic", "PurgeTopic", "CreateGroup", "UpdateGroup",
        "DeleteGroup", "SetOffsets", "ResetOffsets", "CloneOffsets", "RedriveDeadLetters",
        "ResumeTransaction",
    }),
    "pocketmq.v1.Access": frozenset({
        "CreateUser", "UpdateUser", "DeleteUser", "AddGrant", "RemoveGrant",
    }),
    "apache.rocketmq.v2.MessagingService": frozenset({
        "ReceiveMessage", "AckMessage", "ForwardMessageToDeadLetterQueue", "UpdateOffset",
        "EndTransaction", "ChangeInvisibleDuration", "RecallMessage", "SendMessage",
    }),
    "remoting": frozenset({
        "PUT_KV_CONFIG", "DELETE_KV_CONFIG", "SEND_MESSAGE_V2", "SEND_MESSAGE",
        "SEND_BATCH_MESSAGE", "END_TRANSACTION", "CONSUMER_SEND_MSG_BACK",
        "UPDATE_CONSUMER_OFFSET", "SET_MESSAGE_REQUEST_MODE", "POP_MESSAGE", "ACK_MESSAGE",
        "BATCH_ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", "UPDATE_AND_CREATE_TOPIC",
        "UPDATE_AND_CREATE_TOPIC_LIST", "DELETE_TOPIC_IN_BROKER",
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
        "DELETE_SUBSCRIPTIONGROUP", "INVOKE_BROKER_TO_RESET_OFFSET", "CLONE_GROUP_OFFSET",
        "AUTH_CREATE_USER", "AUTH_UPDATE_USER", "AUTH_DELETE_USER", "AUTH_CREATE_ACL",
        "AUTH_UPDATE_ACL", "AUTH_DELETE_ACL",
    }),
}  # fmt: skip
"""Service -> methods that change something."""


def of_follower(services: Iterable[Service], leader: str) -> list[Service]:
    """Returns services whose changing methods raise NotLeader.

    leader   "host:port" of the broker that accepts changes
    """
    return [_of_follower(service, leader) for service in services]


def _of_follower(service: Service, leader: str) -> Service:
    refused = REFUSED.get(service.name, frozenset())
    methods = tuple(
        replace(method, handler=_refusing(leader), shortcut=None)
        if method.name in refused
        else method
        for method in service.methods
    )
    assert refused <= {method.name for method in methods}, "an unknown method is refused"
    return replace(service, methods=methods)


def _refusing(leader: str) -> Callable[[Any, Call], Any]:
    def refuse(request: Any, call: Call) -> Any:
        raise NotLeader(leader=leader)

    return refuse
