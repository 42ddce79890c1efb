"""Decides what a page offers its visitor: the broker's rules, applied to the visitor's grants.

The broker still checks each call. A page leaves out the forms whose calls the broker would refuse.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from pocketmq.client.async_access import OwnGrants
from pocketmq.client.values import GrantState
from pocketmq.model.access import (
    EVERY,
    Grant,
    Need,
    ResourceKind,
    User,
    action_from_text,
    actions_from_text,
    resource_from_text,
)
from pocketmq.model.errors import BrokerError
from pocketmq.model.rights import LOOPBACK, Rights

PROBE: Final = "x"
"""Replaces the * of a pattern, which makes a name that matches the pattern."""


class Offers:
    """The actions and reads that pages offer one visitor.

    own            user and grants of the visitor; None: everything is allowed
    is_read_only   whether no action is offered, only reads
    is_admin       whether changes of users and grants are offered
    """

    __slots__ = ("_address", "_grants", "_rights", "is_admin", "is_read_only", "own")

    def __init__(self, own: OwnGrants | None = None, *, is_read_only: bool = False) -> None:
        self.is_read_only = is_read_only
        self.own = own
        self._grants: list[Grant] = []
        self._rights: Rights | None = None
        self._address = ip_address(LOOPBACK).packed
        user = own.user if own is not None else None
        if own is not None and user is not None and not user.admin:
            self._grants = [*_grants(own.grants)]
            self._rights = Rights(User(user.access_key, ""), self._grants)
            self._address = ip_address(own.source or LOOPBACK).packed
        self.is_admin = self._rights is None and not is_read_only
        assert not (self.is_admin and self._grants), "an admin needs no grants"

    @property
    def own_grants(self) -> list[GrantState] | None:
        """The grants of a user who is no admin; None: the visitor may see those of all users."""
        return None if self._rights is None or self.own is None else self.own.grants

    def may(self, action: str, kind: str, name: str) -> bool:
        """Returns whether an action on the topic or group of a name is offered."""
        return not self.is_read_only and self.sees(action, kind, name)

    def may_any(self, action: str, kind: str) -> bool:
        """Returns whether an action is offered on at least one name of a kind."""
        return not self.is_read_only and self.sees_any(action, kind)

    def sees(self, action: str, kind: str, name: str) -> bool:
        """Returns whether the broker allows an action, which may be a read."""
        if self._rights is None:
            return True
        need = Need((action_from_text(action),), ResourceKind(kind), name)
        return self._rights.verdict(need, self._address).is_allowed

    def sees_any(self, action: str, kind: str) -> bool:
        """Returns whether the broker allows an action on at least one name of a kind."""
        if self._rights is None:
            return True
        return any(self.sees(action, kind, name) for name in self._names(ResourceKind(kind)))

    def _names(self, kind: ResourceKind) -> Iterable[str]:
        """Yields names that match the patterns of allowing grants."""
        for one in self._grants:
            if one.is_allowed and one.resource.kind in (kind, ResourceKind.EVERYTHING):
                yield one.resource.pattern
                yield one.resource.pattern.replace(EVERY, PROBE)


def _grants(given: Iterable[GrantState]) -> Iterable[Grant]:
    for one in given:
        try:
            actions, resource = (
                actions_from_text(",".join(one.actions)),
                resource_from_text(one.resource),
            )
        except BrokerError:  # A newer broker may have actions and resources unknown here.
            continue
        yield Grant(
            one.user, actions, resource, is_allowed=not one.deny, sources=tuple(one.sources)
        )
