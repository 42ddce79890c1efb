"""Permissions that calls need, as the rows of methods have them (method_table.py).

    SendMessage   (request, call) -> the needs of this request
    ListUsers     AdminOnly("see users")

A group owns its retry and dead-letter topics. Access to them needs access to the group, and to each
group that may have messages there (model/ownership.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pocketmq.model.access import EVERY, Action, Need, ResourceKind
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_readable_by
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Metadata


class AdminOnly(NamedTuple):
    """A method that no grant opens, and its purpose."""

    what: str


Asked = Callable[[Any, Call], Iterable[Need]]
"""Returns the needs of a call by its parsed request; none: any user may."""
NeedTable = Mapping[str, Asked | AdminOnly]
"""The need of each method of an API, by its name."""


class Named(NamedTuple):
    """The one topic, or group of producers, that a shortcut's request publishes to.

    name   returns it by the request's bytes and metadata, None where that takes a closer look
    """

    kind: ResourceKind
    name: Callable[[bytes, Metadata], str | None]


class FaceRules(NamedTuple):
    """Permission tables of a protocol version.

    needs   of all its methods
    quick   of those with shortcuts; without it a shortcut is not taken
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
"""Consumers may look at an object, as may callers with GET alone."""
SEE: Final = (Action.GET, Action.SUB, Action.LIST)
"""Rows about a thing need one of these; LIST alone does not show messages."""
FIND: Final = (Action.PUB, Action.SUB, Action.GET)
"""Producers and consumers have to learn the address."""


def topic_need(name: str, actions: tuple[Action, ...]) -> Need:
    """Returns the need of one of these actions on a topic; `Access` knows a retry topic's group."""
    if name.startswith(DLQ_PREFIX):
        return Need(actions, ResourceKind.GROUP, name.removeprefix(DLQ_PREFIX))
    return Need(
        actions, ResourceKind.GROUP if name.startswith(RETRY_PREFIX) else ResourceKind.TOPIC, name
    )


def consumed_needs(group: str, topic: str) -> list[Need]:
    """Returns the needs of a group that reads or settles a topic: both, of its own topics itself.

    Of a retry topic that others may have too it gets its own messages (filter/owned.py).
    """
    if group and topic.startswith(RETRY_PREFIX) and is_readable_by(topic, group):
        return [group_need(group, SUB)]
    return [group_need(group, SUB), topic_need(topic, SUB)]


def group_need(name: str, actions: tuple[Action, ...]) -> Need:
    """Returns the same of a group."""
    return Need(actions, ResourceKind.GROUP, name)


def listed(kind: ResourceKind) -> list[Need]:
    """Returns the needs of a list of all topics, or all groups."""
    return [Need(LIST, kind, EVERY)]


def nothing(request: Any, call: Call) -> list[Need]:
    """Returns that any user may."""
    return []
