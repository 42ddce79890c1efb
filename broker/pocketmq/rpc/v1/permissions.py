"""Permissions that calls of v1 need."""

from collections.abc import Callable
from typing import Any, Final

from pocketmq.format.end_request import EndRequest
from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.send_topic import own_topic
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
"""The tag of a message's producer group; the same bytes in a body cost a closer look."""
_QUICK_LOOKS_MAX: Final = 64
"""Bytes that begin like the tag and are looked at singly, which is faster while they are rare."""


def sent(request: Drafts, call: Call) -> list[Need]:
    """Returns the needs of a send: the topic, and the group whose producers receive checks."""
    groups = {one.producer_group for one in request.deliveries} - {"", *request.topics}
    topics = [topic_need(topic, PUB) for topic in {*request.topics}]
    return [*topics, *[group_need(group, PUB) for group in groups]]


def _first_topic(raw: bytes, metadata: Metadata) -> str | None:
    first, at = _PRODUCER_GROUP[:1], -1
    for _ in range(_QUICK_LOOKS_MAX):
        at = raw.find(first, at + 1)  # One byte is found faster than two.
        if at < 0 or raw.startswith(_PRODUCER_GROUP, at):
            break
    else:
        at = raw.find(_PRODUCER_GROUP, at + 1)
    return own_topic(raw) if at < 0 else None


def _producers(raw: bytes, metadata: Metadata) -> str | None:
    decisions = EndRequest()
    return decisions.group.decode("ascii") if decisions.read(raw) else None


def consumed(request: Any, call: Call) -> list[Need]:
    """Returns the needs of reading, or of settling: the topic, and the group if any."""
    if not request.group:
        return [topic_need(request.topic, SUB)]
    return consumed_needs(request.group, request.topic)


def of_topic(actions: _Actions, field: str = "topic") -> Asked:
    """Returns the need of a call about the topic that a field names."""
    return lambda request, call: [topic_need(getattr(request, field), actions)]


def of_group(actions: _Actions, field: str = "group") -> Asked:
    """Returns the need of a call about the group that a field names."""
    return lambda request, call: [group_need(getattr(request, field), actions)]


def or_all(
    field: str, kind: ResourceKind, need: Callable[[str, _Actions], Need], actions: _Actions = GET
) -> Asked:
    """Returns the needs of one thing, or of all where none is named."""

    def asked(request: Any, call: Call) -> list[Need]:
        name = getattr(request, field)
        return [need(name, actions)] if name else listed(kind)

    return asked


def _in_topic(request: Any, group: str, actions: _Actions) -> list[Need]:
    """Returns the needs of a group's view or change, in one topic or in all."""
    needs = [group_need(group, actions)]
    return [*needs, topic_need(request.topic, LOOK)] if request.topic else needs


def group_and_topic(actions: _Actions) -> Asked:
    """Returns the need of a call about a group in one topic, or in all."""
    return lambda request, call: _in_topic(request, request.group, actions)


def lag(request: Any, call: Call) -> list[Need]:
    """Returns the need of a group's lag, or of all groups'."""
    return _in_topic(request, request.group, LOOK) if request.group else listed(ResourceKind.GROUP)


def pulled(request: Any, call: Call) -> list[Need]:
    """Returns the needs of an operator's look at messages; with a group its offset moves."""
    needs = [topic_need(request.topic, LOOK)]
    if request.group:
        needs.append(
            group_need(request.group, UPDATE if request.HasField("commit_offset") else LOOK)
        )
    return needs


def redriven(request: Any, call: Call) -> list[Need]:
    """Returns the need of a redrive: the group, and the topic that it sends to."""
    needs = [group_need(request.group, UPDATE)]
    return [*needs, topic_need(request.topic, PUB)] if request.topic else needs


def verified(request: Any, call: Call) -> list[Need]:
    """Returns the need of having a client consume a message once more."""
    return [group_need(request.group, UPDATE), topic_need(request.topic, LOOK)]


def cloned(request: Any, call: Call) -> list[Need]:
    """Returns the need of a copy of offsets between groups."""
    needs = [group_need(request.source_group, GET)]
    return [*needs, *_in_topic(request, request.target_group, UPDATE)]


def transactions(request: Any, call: Call) -> list[Need]:
    """Returns the need of a look at transactions, of a group, a topic, or all."""
    needs = [group_need(request.group, GET)] if request.group else []
    if request.topic:
        needs.append(topic_need(request.topic, GET))
    return needs or listed(ResourceKind.TOPIC)


def all_topics(request: Any, call: Call) -> list[Need]:
    """Returns the need of a list of topics."""
    return listed(ResourceKind.TOPIC)


def all_groups(request: Any, call: Call) -> list[Need]:
    """Returns the need of a list of groups."""
    return listed(ResourceKind.GROUP)


FIRST_TOPIC: Final = Named(ResourceKind.TOPIC, _first_topic)
PRODUCERS: Final = Named(ResourceKind.GROUP, _producers)
