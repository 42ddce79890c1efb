"""Implicit creation of topics and groups, and its quota per user.

A topic is created by the first message for it or the first query of its route, a group by its first
consumer. A call creates it if its user may `pub` to the topic, `sub` for the group or `create` it;
for any other user a missing name is not found. Admins create as many as the store takes, other
users a limited number an hour.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.errors import CreationsUsedUp, GroupNotFound, TopicNotFound
from pocketmq.rpc.call import Call
from pocketmq.rpc.permissions import Asked

HOUR_MS: Final = 3_600_000
USERS_MAX: Final = 4_096
"""Users whose creations are counted; of more, those that began to be longest ago are forgotten."""
MAKERS: Final = {
    ResourceKind.TOPIC: (Action.PUB, Action.CREATE),
    ResourceKind.GROUP: (Action.SUB, Action.CREATE),
}
"""The permission by which a call creates a missing thing of a kind."""

Exists = Callable[[str], object]
"""Returns the thing of a name, None where there is none."""


class Creations:
    """Topics and groups that each user created within an hour.

    exists       by kind, whether there is a topic or a group of a name
    now_ms       the time, which only grows
    per_hour     returns how many things a user may create in an hour
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
        """By user: the begin of its hour, and its creations since."""
        assert exists.keys() <= MAKERS.keys(), "a kind says what makes a thing of it"

    def asked(self, need: Asked) -> Asked:
        """Returns the needs of calls that create the things they name.

        Errors   those of the call: TopicNotFound, GroupNotFound, CreationsUsedUp, beside its own
        """

        def asked(request: object, call: Call) -> list[Need]:
            needs = [*need(request, call)]
            for one in needs:
                exists = self._exists.get(one.kind)
                # A caller that may not even look gets that error, not a list of what exists.
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
        """Counts a user's creations; a name repeated within the hour counts once."""
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
