"""Permissions that classic requests need.

Source: AuthorizationContextBuilder of remoting, PlainAccessResource.
"""

from pocketmq.model.access import Need, ResourceKind
from pocketmq.model.topic import DEFAULT_TOPIC
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import FIND, PUB, listed, topic_need
from pocketmq.wire.remoting import Command


def found(request: Command, call: Call) -> list[Need]:
    """Returns the permissions of a query of a route.

    Every producer asks for the route of the default topic when its own topic does not exist.
    """
    topic = request.fields.get("topic", "")
    return [] if topic == DEFAULT_TOPIC else [topic_need(topic, FIND)]


def sent(request: Command, call: Call) -> list[Need]:
    """Returns the permissions of a send: PUB on its topic."""
    return [topic_need(request.fields.get("topic", ""), PUB)]


def lists_topics(request: Command, call: Call) -> list[Need]:
    """Returns the permissions to list all topics."""
    return listed(ResourceKind.TOPIC)
