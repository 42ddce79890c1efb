"""Permissions that calls of v2 need.

Source: DefaultAuthorizationContextBuilder.
"""

from typing import Any, Final

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.send_topic import official_topic
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.permissions import (
    LOOK,
    PUB,
    SUB,
    Asked,
    Named,
    consumed_needs,
    group_need,
    topic_need,
)
from pocketmq.rpc.service import Metadata
from pocketmq.rpc.v2.resources import group_of, topic_of, wrapped
from pocketmq.rpc.v2.send_shortcut import NAMESPACE_KEY


def of_topic(actions: tuple[Action, ...]) -> Asked:
    """Returns a function that lists the permissions for a call on one topic."""
    return lambda request, call: [topic_need(topic_of(request.topic, call), actions)]


def sent(request: pb.SendMessageRequest, call: Call) -> list[Need]:
    """Returns the permissions of a send: PUB on each topic."""
    names = {topic_of(message.topic, call) for message in request.messages}
    return [topic_need(name, PUB) for name in names]


def _first_topic(raw: bytes, metadata: Metadata) -> str | None:
    found = official_topic(raw)
    if found is None:
        return None
    namespace, name = found
    return wrapped(name, namespace or metadata(NAMESPACE_KEY) or "")


def consumed(request: Any, call: Call) -> list[Need]:
    """Returns the permissions of a group's call on a topic."""
    return _read(request.group, request.topic, call)


def of_queue(request: Any, call: Call) -> list[Need]:
    """Returns the permissions of a group's call on a queue."""
    return _read(request.group, request.message_queue.topic, call)


def _read(group: pb.Resource, topic: pb.Resource, call: Call) -> list[Need]:
    return consumed_needs(group_of(group, call), topic_of(topic, call))


def place(request: pb.QueryOffsetRequest, call: Call) -> list[Need]:
    """Returns the permissions of a call that names a queue, but no group."""
    return [topic_need(topic_of(request.message_queue.topic, call), LOOK)]


def alive(request: pb.HeartbeatRequest, call: Call) -> list[Need]:
    """Returns the permissions of a heartbeat: SUB on its group, if it names one."""
    return [group_need(group_of(request.group, call), SUB)] if request.HasField("group") else []


def ended(request: pb.NotifyClientTerminationRequest, call: Call) -> list[Need]:
    """Returns the permissions of a termination; some producers send a group with an empty name."""
    return [group_need(group_of(request.group, call), SUB)] if request.group.name else []


def told(command: pb.TelemetryCommand, call: Call) -> list[Need]:
    """Returns the permissions of a client's settings: on its group and its topics."""
    settings = command.settings
    if settings.HasField("publishing"):
        published = settings.publishing.topics
        return [topic_need(topic_of(topic, call), PUB) for topic in published]
    if not settings.HasField("subscription"):
        return []
    entries = settings.subscription.subscriptions
    topics = [topic_need(topic_of(entry.topic, call), SUB) for entry in entries]
    return [group_need(group_of(settings.subscription.group, call), SUB), *topics]


FIRST_TOPIC: Final = Named(ResourceKind.TOPIC, _first_topic)
