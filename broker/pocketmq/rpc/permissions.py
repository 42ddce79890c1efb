"""Permissions that calls need, for the rows of method_table.py.

    SendMessage   (request, call) -> the permissions that this request needs
    ListUsers     AdminOnly("see users")

A group owns its retry and dead-letter topics. Access to them needs access to the group, and to
every other group that may have messages there (model/ownership.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pocketmq.model.access import EVERY, Action, Need, ResourceKind
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_readable_by
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Metadata


class AdminOnly(NamedTuple):
    """A rule for methods that only admins may call; `what` describes the method."""

    what: str


Asked = Callable[[Any, Call], Iterable[Need]]
"""Returns the permissions that a parsed request needs; empty: any user may call."""
NeedTable = Mapping[str, Asked | AdminOnly]
"""Method name -> the permissions that its calls need."""


class Named(NamedTuple):
    """The topic or producer group on which a request of a shortcut needs `pub`.

    name   returns the name from the request's bytes and metadata; None: the handler serves the call
    """

    kind: ResourceKind
    name: Callable[[bytes, Metadata], str | None]


class FaceRules(NamedTuple):
    """Permission tables of a protocol version, by method name.

    needs      permissions of all methods
    quick      names to check for shortcuts; a shortcut without an entry is not used
    creating   methods whose calls create missing topics or groups
    """

    needs: NeedTable
    quick: Mapping[str, Named] = {}
    creating: frozenset[str] = frozenset()


PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
CREATE: Final = (Action.CREATE,)
UPDATE: Final = (Action.UPDATE,)
DELETE: Final = (Action.DELETE,)
GET: Final = (Action.GET,)
LIST: Final = (Action.LIST,)
LOOK: Final = (Action.GET, Action.SUB)
"""Any of these actions permits reading an object, such as a topic."""
SEE: Final = (Action.GET, Action.SUB, Action.LIST)
"""Any of these actions permits seeing an object's row in a list; LIST alone permits no reading."""
FIND: Final = (Action.PUB, Action.SUB, Action.GET)
"""Any of these actions permits a route query, as all clients need the broker's address."""


def topic_need(name: str, actions: tuple[Action, ...]) -> Need:
    """Returns the permission for one of `actions` on a topic, or on the group that owns it.

    The name of a retry topic is kept: `Access` resolves its group.
    """
    if name.startswith(DLQ_PREFIX):
        return Need(actions, ResourceKind.GROUP, name.removeprefix(DLQ_PREFIX))
    return Need(
        actions, ResourceKind.GROUP if name.startswith(RETRY_PREFIX) else ResourceKind.TOPIC, name
    )


def consumed_needs(group: str, topic: str) -> list[Need]:
    """Returns the permissions of a group that receives or settles messages of a topic.

    `sub` on the group suffices for the group's own retry topic. In a retry topic that several
    groups may own, the group gets only its own messages (filter/owned.py).
    """
    if group and topic.startswith(RETRY_PREFIX) and is_readable_by(topic, group):
        return [group_need(group, SUB)]
    return [group_need(group, SUB), topic_need(topic, SUB)]


def group_need(name: str, actions: tuple[Action, ...]) -> Need:
    """Returns the permission for one of `actions` on a group."""
    return Need(actions, ResourceKind.GROUP, name)


def listed(kind: ResourceKind) -> list[Need]:
    """Returns the permissions to list all topics, or all groups."""
    return [Need(LIST, kind, EVERY)]


def nothing(request: Any, call: Call) -> list[Need]:
    """Returns no permissions: any user may call."""
    return []
