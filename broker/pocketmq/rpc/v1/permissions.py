"""Permissions that calls of v1 need."""

from collections.abc import Callable
from typing import Any, Final

from pocketmq.format.end_request import EndRequest
from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.rpc.call import Call
from pocketmq.rpc.codec.send_topic import own_topic
from pocketmq.rpc.permissions import (
    CREATE,
    DELETE,
    FIND,
    GET,
    LOOK,
    PUB,
    SUB,
    UPDATE,
    AdminOnly,
    Asked,
    FaceRules,
    Named,
    NeedTable,
    consumed_needs,
    group_need,
    listed,
    nothing,
    topic_need,
)
from pocketmq.rpc.service import Metadata
from pocketmq.rpc.v1.service_table import ACCESS, ADMIN, BROKER
from pocketmq.services.produce.drafts import Drafts

_Actions = tuple[Action, ...]
_PRODUCER_GROUP: Final = b"\x8a\x01"
"""The tag of a message's producer group; the same bytes in a body cost a closer look."""
_QUICK_LOOKS_MAX: Final = 64
"""Bytes that begin like the tag and are looked at singly, which is faster while they are rare."""


def _sent(request: Drafts, call: Call) -> list[Need]:
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


def _consumed(request: Any, call: Call) -> list[Need]:
    """Returns the needs of reading, or of settling: the topic, and the group if any."""
    if not request.group:
        return [topic_need(request.topic, SUB)]
    return consumed_needs(request.group, request.topic)


def _of_topic(actions: _Actions, field: str = "topic") -> Asked:
    return lambda request, call: [topic_need(getattr(request, field), actions)]


def _of_group(actions: _Actions, field: str = "group") -> Asked:
    return lambda request, call: [group_need(getattr(request, field), actions)]


def _or_all(
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


def _group_and_topic(actions: _Actions) -> Asked:
    return lambda request, call: _in_topic(request, request.group, actions)


def _lag(request: Any, call: Call) -> list[Need]:
    return _in_topic(request, request.group, LOOK) if request.group else listed(ResourceKind.GROUP)


def _on_cluster(actions: _Actions, cluster: str) -> Asked:
    return lambda request, call: [Need(actions, ResourceKind.CLUSTER, cluster)]


def _pulled(request: Any, call: Call) -> list[Need]:
    """Returns the needs of an operator's look at messages; with a group its offset moves."""
    needs = [topic_need(request.topic, LOOK)]
    if request.group:
        needs.append(
            group_need(request.group, UPDATE if request.HasField("commit_offset") else LOOK)
        )
    return needs


def _redriven(request: Any, call: Call) -> list[Need]:
    needs = [group_need(request.group, UPDATE)]
    return [*needs, topic_need(request.topic, PUB)] if request.topic else needs


def _verified(request: Any, call: Call) -> list[Need]:
    return [group_need(request.group, UPDATE), topic_need(request.topic, LOOK)]


def _cloned(request: Any, call: Call) -> list[Need]:
    needs = [group_need(request.source_group, GET)]
    return [*needs, *_in_topic(request, request.target_group, UPDATE)]


def _transactions(request: Any, call: Call) -> list[Need]:
    needs = [group_need(request.group, GET)] if request.group else []
    if request.topic:
        needs.append(topic_need(request.topic, GET))
    return needs or listed(ResourceKind.TOPIC)


def _all_topics(request: Any, call: Call) -> list[Need]:
    return listed(ResourceKind.TOPIC)


def _all_groups(request: Any, call: Call) -> list[Need]:
    return listed(ResourceKind.GROUP)


BROKER_NEEDS: Final[NeedTable] = {
    "SendMessage": _sent,
    "Recall": _of_topic(PUB),
    "PullMessage": _consumed,
    "EndTransaction": _of_group(PUB),
    "CheckTransactions": _of_group(PUB),
    "Receive": _consumed,
    "Ack": _consumed,
    "ChangeInvisible": _consumed,
    "SendBack": _consumed,
    "ForwardToDeadLetters": _consumed,
    "QueryByKey": _of_topic(LOOK),
    "QueryById": _of_topic(LOOK),
    "QueryByTime": _of_topic(LOOK),
    "QueryOffsets": _of_topic(LOOK),
    "CommitOffset": _consumed,
    "FetchOffset": _consumed,
}


def admin_needs(cluster: str) -> NeedTable:
    """Returns the needs of Admin's calls in a broker of a cluster."""
    look_at_cluster, change_cluster = _on_cluster(GET, cluster), _on_cluster(UPDATE, cluster)
    return {
        "CreateTopic": _of_topic(CREATE, "name"),
        "ListTopics": _all_topics,
        "DescribeTopic": _of_topic(FIND, "name"),
        "UpdateTopic": _of_topic(UPDATE, "name"),
        "DeleteTopic": _of_topic(DELETE, "name"),
        "TopicStats": _or_all("name", ResourceKind.TOPIC, topic_need),
        "CreateGroup": _of_group(CREATE, "name"),
        "ListGroups": _all_groups,
        "DescribeGroup": _of_group(LOOK, "name"),
        "UpdateGroup": _of_group(UPDATE, "name"),
        "DeleteGroup": _of_group(DELETE, "name"),
        "ListMembers": _of_group(LOOK),
        "PrintClientStack": _of_group(LOOK),
        "VerifyMessage": _verified,
        "ListOffsets": _group_and_topic(LOOK),
        "GroupLag": _lag,
        "SetOffsets": _group_and_topic(UPDATE),
        "ResetOffsets": _group_and_topic(UPDATE),
        "CloneOffsets": _cloned,
        "PullMessage": _pulled,
        "QueryByKey": _of_topic(LOOK),
        "QueryByTag": _of_topic(LOOK),
        "QueryById": _of_topic(LOOK),
        "TraceMessage": _or_all("topic", ResourceKind.TOPIC, topic_need),
        "ListDeadLetters": _or_all("group", ResourceKind.GROUP, group_need),
        "RedriveDeadLetters": _redriven,
        "ListDelayed": _or_all("topic", ResourceKind.TOPIC, topic_need),
        "ListTransactions": _transactions,
        "DescribeTransaction": nothing,  # Its topic is known when it is found.
        "ResumeTransaction": change_cluster,
        "StoreStatus": look_at_cluster,
        "EffectiveConfig": look_at_cluster,
        "Flush": change_cluster,
        "Drain": AdminOnly("stop the broker"),
    }


ACCESS_NEEDS: Final[NeedTable] = {
    **dict.fromkeys(("ListUsers", "ListGrants", "Explain"), AdminOnly("see users and grants")),
    **dict.fromkeys(
        ("CreateUser", "UpdateUser", "DeleteUser", "AddGrant", "RemoveGrant"),
        AdminOnly("change users and grants"),
    ),
}


def rules_of(cluster: str) -> dict[str, FaceRules]:
    """Returns the needs of each API's calls in a broker of a cluster, by the API's name."""
    quick = {
        "SendMessage": Named(ResourceKind.TOPIC, _first_topic),
        "EndTransaction": Named(ResourceKind.GROUP, _producers),
    }
    return {
        BROKER.full_name: FaceRules(BROKER_NEEDS, quick),
        ADMIN.full_name: FaceRules(admin_needs(cluster)),
        ACCESS.full_name: FaceRules(ACCESS_NEEDS),
    }
