"""Decides whether a user may perform an action, and names the rule that decides.

    a disabled user                        everything is denied
    an admin                               everything is allowed
    the broker's own topics and groups     only for admins
    a rule denies the action               denied
    a rule allows the action               allowed
    no rule matches                        denied

The first row that applies decides. In RocketMQ, the closest rule decides.
Source: DefaultAuthorizationHandler, AclAuthorizationHandler.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from pocketmq.model.access import (
    Action,
    Grant,
    Need,
    ResourceKind,
    User,
    action_from_text,
    resource_from_text,
)
from pocketmq.model.errors import IllegalGrant
from pocketmq.model.roster import Roster
from pocketmq.model.topic import is_brokers_topic, is_system_group

LOOPBACK: Final = "127.0.0.1"
KNOWN_MAX: Final = 10_000
"""Upper limit of cached results for one user; clients may send any number of names."""


class Verdict(NamedTuple):
    """Whether an action is allowed, and why; `grant` is the rule that decides, if any."""

    is_allowed: bool
    why: str
    grant: Grant | None = None


class Rights:
    """The rights of one user at one time.

    generation   changes when the user gets a new secret, is enabled again, or is created again
    """

    __slots__ = ("_grants", "_is_local", "_known", "generation", "published", "user")

    def __init__(self, user: User, grants: Iterable[Grant], generation: int = 0) -> None:
        self.user = user
        self.generation = generation
        self._grants = [*grants]
        assert all(grant.user == user.access_key for grant in self._grants), "grant of another user"
        self._is_local = any(grant.sources for grant in self._grants)
        self._known: dict[Need, bool] = {}
        self.published: set[tuple[ResourceKind, str]] = set()
        """Cache of topics and groups for which the user has the permission PUB from any address."""

    def may(self, need: Need, address: bytes) -> bool:
        """Returns whether an enabled user has a permission; takes 0.2 µs if the result is cached.

        address   packed address of the client, 4 or 16 bytes
        """
        if self.user.is_admin:
            return True
        if self._is_local:
            return self.verdict(need, address).is_allowed
        known = self._known.get(need)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[need] = self.verdict(need, address).is_allowed
        return known

    def allow(self, kind: ResourceKind, name: str) -> None:
        """Caches that the user has the permission PUB, unless rules depend on the address."""
        if not self._is_local and len(self.published) < KNOWN_MAX:
            self.published.add((kind, name))

    def verdict(self, need: Need, address: bytes) -> Verdict:
        """Returns whether a permission is granted, and why."""
        if not self.user.is_enabled:
            return Verdict(False, "the user is disabled")
        if self.user.is_admin:
            return Verdict(True, "an admin may do everything")
        if belongs_to_broker(need):
            return Verdict(False, "it belongs to the broker: only admins may access it")
        about = [grant for grant in self._grants if _is_about(grant, need, address)]
        refused = Verdict(False, "no rule allows it")
        for action in need.actions:  # One allowed action is enough.
            found = [grant for grant in about if grant.actions & {action, Action.ALL}]
            denial = next((grant for grant in found if not grant.is_allowed), None)
            if found and denial is None:
                return Verdict(True, "a rule allows it", found[0])
            if denial is not None and refused.grant is None:
                refused = Verdict(False, "a rule denies it", denial)
        return refused


def explain(roster: Roster, user: str, action: str, resource: str, source: str = "") -> Verdict:
    """Decides about an action and a resource that are given as text.

    source   the client's address; "": this machine
    Errors   UserNotFound, IllegalGrant
    """
    rights = Rights(roster.existing(user), roster.grants_of(user))
    thing = resource_from_text(resource)
    need = Need((action_from_text(action),), thing.kind, thing.pattern)
    try:
        address = ip_address(source or LOOPBACK).packed
    except ValueError as error:
        raise IllegalGrant(text=source, what="address", why=str(error)) from None
    return rights.verdict(need, address)


def belongs_to_broker(need: Need) -> bool:
    """Returns whether a permission is about a topic or group of the broker itself."""
    if need.kind is ResourceKind.TOPIC:
        return is_brokers_topic(need.name)
    return need.kind is ResourceKind.GROUP and is_system_group(need.name)


def _is_about(grant: Grant, need: Need, address: bytes) -> bool:
    if not grant.resource.covers(need.kind, need.name):
        return False
    return not grant.sources or _is_from(grant.sources, address)


def _is_from(sources: tuple[str, ...], address: bytes) -> bool:
    came_from = ip_address(address)
    if isinstance(came_from, IPv6Address):
        came_from = came_from.ipv4_mapped or came_from
    return any(came_from in ip_network(source) for source in sources)
