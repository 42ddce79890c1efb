"""Permissions that classic requests need.

Source: AuthorizationContextBuilder of remoting, PlainAccessResource.
"""

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.decimal import number_of
from pocketmq.model.message import TRANSACTION_PREPARED
from pocketmq.model.topic import DEFAULT_TOPIC, RETRY_PREFIX
from pocketmq.rpc.call import Call
from pocketmq.rpc.classic.heartbeat_body import heartbeat_of, locks_of
from pocketmq.rpc.classic.json_body import body_of, text_in
from pocketmq.rpc.classic.pop_body import acks_of
from pocketmq.rpc.permissions import (
    FIND,
    LOOK,
    PUB,
    SUB,
    UPDATE,
    Asked,
    consumed_needs,
    group_need,
    listed,
    topic_need,
)
from pocketmq.wire.remoting import Command


def found(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to query a route.

    The default topic needs none, as every producer queries its route for a missing topic.
    """
    topic = request.fields.get("topic", "")
    return [] if topic == DEFAULT_TOPIC else [topic_need(topic, FIND)]


def sent(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to send: PUB on the topic, for a half message also on its group.

    A consumer that returns a message to its group's retry topic needs only SUB on the group.
    """
    fields = request.fields
    if is_returned(request):
        return [group_need(fields.get("topic", "").removeprefix(RETRY_PREFIX), SUB)]
    needs = [topic_need(fields.get("topic", ""), PUB)]
    is_half = max(number_of(fields.get("sysFlag", "")), 0) & TRANSACTION_PREPARED
    return [*needs, *decided(request, call)] if is_half else needs


def recalled(request: Command, call: Call) -> list[Need]:
    """Returns the permission to recall a message: PUB on the topic."""
    return [topic_need(request.fields.get("topic", ""), PUB)]


def is_returned(request: Command) -> bool:
    """Returns whether a consumer returns messages by a send to its group's retry topic."""
    return request.fields.get("topic", "").startswith(RETRY_PREFIX)


def decided(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to decide transactions: PUB on the producer group."""
    return [group_need(request.fields.get("producerGroup", ""), PUB)]


def lists_topics(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to list all topics."""
    return listed(ResourceKind.TOPIC)


def joined(request: Command, call: Call) -> list[Need]:
    """Returns the permissions of a heartbeat: SUB on its consumer groups, none for producers.

    Errors   MalformedRequest
    """
    return [group_need(one.group, SUB) for one in heartbeat_of(request).consumers]


def locked(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to lock queues: SUB on the group.

    Errors   MalformedRequest
    """
    return [group_need(locks_of(request).group, SUB)]


def consumed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to read messages and to commit offsets of a group."""
    fields = request.fields
    return consumed_needs(fields.get("consumerGroup", ""), fields.get("topic", ""))


def looked_at(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to read offsets and single messages of a topic."""
    return [topic_need(request.fields.get("topic", ""), LOOK)]


def of_group(field: str) -> Asked:
    """Returns a function that lists the permissions that clients of a consumer group need.

    field   request field with the name of the group
    """
    return lambda request, call: [group_need(request.fields.get(field, ""), SUB)]


def assigned(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to query assignments: SUB on the group and the topic.

    Errors   MalformedRequest
    """
    body = body_of(request)
    return consumed_needs(text_in(body, "consumerGroup"), text_in(body, "topic"))


def changes_group(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to change a group.

    Errors   MalformedRequest
    """
    return [group_need(text_in(body_of(request), "consumerGroup"), UPDATE)]


def acked(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to acknowledge messages of several groups and topics.

    Errors   MalformedRequest
    """
    pairs = {(one.group, one.topic) for one in acks_of(request)}
    return [need for pair in sorted(pairs) for need in consumed_needs(*pair)]


# -- operators' ---------------------------------------------------------------------------------
def lists_groups(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to list all groups."""
    return listed(ResourceKind.GROUP)


def topic_seen(actions: tuple[Action, ...]) -> Asked:
    """Returns a function that lists the permissions for the topic that a request names."""
    return lambda request, call: [topic_need(request.fields.get("topic", ""), actions)]


def group_seen(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to look at the consumer group that a request names."""
    return [group_need(group_of(request), LOOK)]


def group_and_topic_seen(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to look at a group, and at a topic if the request names one."""
    topic = request.fields.get("topic", "")
    needs = [group_need(group_of(request), LOOK)]
    return [*needs, topic_need(topic, LOOK)] if topic else needs


def group_changed(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to change what a group's clients consume."""
    return [group_need(group_of(request), UPDATE)]


def group_reset(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to change a group's offsets in a topic."""
    topic = request.fields.get("topic", "")
    return [group_need(group_of(request), UPDATE), topic_need(topic, LOOK)]


def group_cloned(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to copy a group's offsets to another group."""
    fields = request.fields
    topic = fields.get("topic", "").strip()
    needs = [
        group_need(fields.get("srcGroup", ""), LOOK),
        group_need(fields.get("destGroup", ""), UPDATE),
    ]
    return [*needs, topic_need(topic, LOOK)] if topic else needs


def producers_seen(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to look at a producer group: PUB or LOOK on the group."""
    return [group_need(request.fields.get("producerGroup", ""), (*PUB, *LOOK))]


def group_of(request: Command) -> str:
    """Returns the consumer group of a request: its field `group`, else `consumerGroup`."""
    fields = request.fields
    return fields.get("group") or fields.get("consumerGroup", "")
