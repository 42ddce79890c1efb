"""Permissions that calls of v1 need."""

from collections.abc import Callable
from typing import Any, Final

from pocketmq.format.end_request import EndRequest
from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.send_topic import own_topic
from pocketmq.rpc.codec.v1_end_request import V1EndRequest
from pocketmq.rpc.permissions import (
    GET,
    LOOK,
    PUB,
    SUB,
    UPDATE,
    Asked,
    Named,
    consumed_needs,
    group_need,
    listed,
    topic_need,
)
from pocketmq.rpc.service import Metadata
from pocketmq.services.produce.drafts import Drafts

_Actions = tuple[Action, ...]
_PRODUCER_GROUP: Final = b"\x8a\x01"
"""The protobuf tag of a producer group. A request that contains these bytes is parsed before its
permissions are known; needlessly, if only a message body contains them."""
_QUICK_LOOKS_MAX: Final = 64
"""Upper limit of occurrences of the tag's first byte that are tested one by one. After them, the
whole tag is searched, which is slower while occurrences are rare."""


def sent(request: Drafts, call: Call) -> list[Need]:
    """Returns the permissions of a send: PUB on each topic, and on each producer group.

    A producer group with the name of one of the topics needs no permission.
    """
    groups = {one.producer_group for one in request.deliveries} - {"", *request.topics}
    topics = [topic_need(topic, PUB) for topic in {*request.topics}]
    return [*topics, *[group_need(group, PUB) for group in groups]]


def _first_topic(raw: bytes, metadata: Metadata) -> str | None:
    first, at = _PRODUCER_GROUP[:1], -1
    for _ in range(_QUICK_LOOKS_MAX):
        at = raw.find(first, at + 1)  # A search for one byte is faster than for two.
        if at < 0 or raw.startswith(_PRODUCER_GROUP, at):
            break
    else:
        at = raw.find(_PRODUCER_GROUP, at + 1)
    return own_topic(raw) if at < 0 else None


def _producers(raw: bytes, metadata: Metadata) -> str | None:
    reader = V1EndRequest(EndRequest())
    return reader.request.group.decode("ascii") if reader.read(raw) else None


def consumed(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to read or settle messages: on the topic, and on a named group."""
    if not request.group:
        return [topic_need(request.topic, SUB)]
    return consumed_needs(request.group, request.topic)


def of_topic(actions: _Actions, field: str = "topic") -> Asked:
    """Returns a function that lists the permissions for the topic that a field names."""
    return lambda request, call: [topic_need(getattr(request, field), actions)]


def of_group(actions: _Actions, field: str = "group") -> Asked:
    """Returns a function that lists the permissions for the group that a field names."""
    return lambda request, call: [group_need(getattr(request, field), actions)]


def or_all(
    field: str, kind: ResourceKind, need: Callable[[str, _Actions], Need], actions: _Actions = GET
) -> Asked:
    """Returns a function that lists the permissions for a named resource, else for all."""

    def asked(request: Any, call: Call) -> list[Need]:
        name = getattr(request, field)
        return [need(name, actions)] if name else listed(kind)

    return asked


def _in_topic(request: Any, group: str, actions: _Actions) -> list[Need]:
    needs = [group_need(group, actions)]
    return [*needs, topic_need(request.topic, LOOK)] if request.topic else needs


def group_and_topic(actions: _Actions) -> Asked:
    """Returns a function that lists the permissions for a group, in one topic or in all."""
    return lambda request, call: _in_topic(request, request.group, actions)


def lag(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to read the lag of one group, or of all groups."""
    return _in_topic(request, request.group, LOOK) if request.group else listed(ResourceKind.GROUP)


def pulled(request: Any, call: Call) -> list[Need]:
    """Returns the permissions of an operator's pull; setting offsets needs UPDATE on the group."""
    needs = [topic_need(request.topic, LOOK)]
    if request.group:
        sets_offset = request.HasField("commit_offset") or bool(request.begin)
        needs.append(group_need(request.group, UPDATE if sets_offset else LOOK))
    return needs


def redriven(request: Any, call: Call) -> list[Need]:
    """Returns the permissions of a redrive: on the group, and on a named target topic."""
    needs = [group_need(request.group, UPDATE)]
    return [*needs, topic_need(request.topic, PUB)] if request.topic else needs


def verified(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to make a client consume a given message."""
    return [group_need(request.group, UPDATE), topic_need(request.topic, LOOK)]


def cloned(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to clone offsets from one group to another."""
    needs = [group_need(request.source_group, GET)]
    return [*needs, *_in_topic(request, request.target_group, UPDATE)]


def transactions(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to list transactions of a group, of a topic, or all."""
    needs = [group_need(request.group, GET)] if request.group else []
    if request.topic:
        needs.append(topic_need(request.topic, GET))
    return needs or listed(ResourceKind.TOPIC)


def all_topics(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to list topics."""
    return listed(ResourceKind.TOPIC)


def all_groups(request: Any, call: Call) -> list[Need]:
    """Returns the permissions to list groups."""
    return listed(ResourceKind.GROUP)


FIRST_TOPIC: Final = Named(ResourceKind.TOPIC, _first_topic)
PRODUCERS: Final = Named(ResourceKind.GROUP, _producers)
