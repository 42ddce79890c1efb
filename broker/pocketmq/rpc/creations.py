"""Implicit creation of topics and groups, and its quota per user.

A topic is created by the first message for it or its first consumer, a group by its first consumer.
A call creates a missing topic or group if its user has `pub` on the topic, `sub` on the group, or
`create` on either. A user without these, but with the permission that the call needs, gets a
not-found error; a user without that permission gets AccessDenied. A user may create a limited
number per hour. Calls of admins are not checked here (guard.py), so admins may create as many as
the store allows.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.errors import CreationsUsedUp, GroupNotFound, TopicNotFound
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import Asked

HOUR_MS: Final = 3_600_000
USERS_MAX: Final = 4_096
"""Upper limit of users whose creations are counted; the user with the oldest hour is dropped."""
MAKERS: Final = {
    ResourceKind.TOPIC: (Action.PUB, Action.CREATE),
    ResourceKind.GROUP: (Action.SUB, Action.CREATE),
}
"""Actions, any of which lets a call create a missing resource of a kind."""

Exists = Callable[[str], object]
"""Returns the topic or group of a name, None if it does not exist."""


class Creations:
    """Topics and groups that each user created within an hour.

    exists       lookups of topics and groups, by kind
    now_ms       returns the monotonic time
    per_hour     returns how many topics and groups a user may create per hour
    """

    __slots__ = ("_exists", "_made", "_now_ms", "_per_hour")

    def __init__(
        self,
        exists: Mapping[ResourceKind, Exists],
        now_ms: Callable[[], int],
        per_hour: Callable[[], int],
    ) -> None:
        self._exists = exists
        self._now_ms = now_ms
        self._per_hour = per_hour
        self._made: dict[str, tuple[int, set[tuple[ResourceKind, str]]]] = {}
        """User -> start of its current hour, and its creations since."""
        assert exists.keys() <= MAKERS.keys(), "a kind of resource without a creating action"

    def asked(self, need: Asked) -> Asked:
        """Wraps the permission function of a method that may create the named topics and groups.

        The returned function counts the missing ones, and checks whether the user may create them.
        Errors   raised by the returned function: TopicNotFound, GroupNotFound, CreationsUsedUp
        """

        def asked(request: object, call: Call) -> list[Need]:
            needs = [*need(request, call)]
            for one in needs:
                exists = self._exists.get(one.kind)
                # A caller without permission gets AccessDenied, and does not learn what exists.
                if exists is not None and exists(one.name) is None and call.may(one):
                    self._make(one, call)
            return needs

        return asked

    def _make(self, need: Need, call: Call) -> None:
        if not call.may(Need(MAKERS[need.kind], need.kind, need.name)):
            if need.kind is ResourceKind.TOPIC:
                raise TopicNotFound(topic=need.name)
            raise GroupNotFound(group=need.name)
        self._count(call.user, (need.kind, need.name))

    def _count(self, user: str, what: tuple[ResourceKind, str]) -> None:
        limit, now_ms = self._per_hour(), self._now_ms()
        begun_ms, made = self._made.get(user, (0, None))
        if made is None or now_ms - begun_ms >= HOUR_MS:
            made = set()
            self._made.pop(user, None)
            self._made[user] = (now_ms, made)
            if len(self._made) > USERS_MAX:
                del self._made[next(iter(self._made))]
        if what not in made:
            if len(made) >= limit:
                raise CreationsUsedUp(user=user, limit=limit)
            made.add(what)
