"""Parses the bodies of heartbeats, and of requests to lock queues."""

from typing import Final, NamedTuple

from pocketmq.model.message import QueueKey
from pocketmq.rpc.classic.json_body import Body, body_of, objects_in, text_in, whole_in
from pocketmq.rpc.service import MalformedRequest
from pocketmq.services.sessions.classic_groups import (
    ClassicConsumer,
    ClassicSubscription,
    Heartbeat,
)
from pocketmq.wire.remoting import Command

CLIENT_ID_SIZE_MAX: Final = 255
TAG: Final = "TAG"
SQL: Final = "SQL92"
"""Languages of filters (ExpressionType)."""


class LockRequest(NamedTuple):
    """Queues that a client wants to lock or unlock; brokers[i] is the broker of queues[i]."""

    group: str
    client_id: str
    queues: list[QueueKey]
    brokers: list[str]


def locks_of(request: Command) -> LockRequest:
    """Returns the content of a request to lock or unlock queues.

    Errors   MalformedRequest
    """
    body = body_of(request)
    group, client_id = text_in(body, "consumerGroup"), text_in(body, "clientId")
    if not group or not client_id:
        raise MalformedRequest(why="consumerGroup or clientId is missing")
    found = objects_in(body, "mqSet")
    return LockRequest(
        group,
        client_id,
        [(text_in(one, "topic"), whole_in(one, "queueId")) for one in found],
        [text_in(one, "brokerName") for one in found],
    )


def heartbeat_of(request: Command) -> Heartbeat:
    """Returns the content of a heartbeat.

    Errors   MalformedRequest
    """
    body = body_of(request)
    client_id = text_in(body, "clientID")
    if not client_id or len(client_id) > CLIENT_ID_SIZE_MAX:
        why = f"clientID has {len(client_id)} characters, not 1 to {CLIENT_ID_SIZE_MAX}"
        raise MalformedRequest(why=why)
    producers = [text_in(one, "groupName") for one in objects_in(body, "producerDataSet")]
    consumers = [_consumer_of(one) for one in objects_in(body, "consumerDataSet")]
    return Heartbeat(
        client_id, tuple(producers), tuple(consumers), request.language, request.version
    )


def _consumer_of(body: Body) -> ClassicConsumer:
    return ClassicConsumer(
        text_in(body, "groupName"),
        text_in(body, "consumeType") == "CONSUME_PASSIVELY",
        text_in(body, "messageModel") == "BROADCASTING",
        text_in(body, "consumeFromWhere"),
        tuple(map(subscription_of, objects_in(body, "subscriptionDataSet"))),
    )


def subscription_of(body: Body) -> ClassicSubscription:
    """Returns a subscription of a heartbeat.

    Errors   MalformedRequest
    """
    return ClassicSubscription(
        text_in(body, "topic"),
        text_in(body, "subString"),
        text_in(body, "expressionType") or TAG,
        whole_in(body, "subVersion"),
    )
