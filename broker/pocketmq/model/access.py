"""Users, access rules, and the permissions that calls require.

    rule   user · actions · resource · allow or deny · networks
           app    pub,sub   topic:orders-*   allow      10.0.0.0/8

A resource is topic:NAME, group:NAME or cluster:NAME. A NAME that ends in * matches all names with
that prefix. * alone, without a kind, matches everything. The actions are RocketMQ's.
Source: User, Acl, Resource, ResourcePattern, Action, Decision of org.apache.rocketmq.auth.
"""

import re
from enum import Enum
from ipaddress import ip_network
from typing import Final, NamedTuple

from pocketmq.model.errors import IllegalGrant, IllegalUser

KEY_LENGTH_MAX: Final = 64
SECRET_LENGTH_MAX: Final = 256
SECRET_LENGTH_SAFE: Final = 8
"""A shorter secret can be guessed."""
PATTERN_LENGTH_MAX: Final = 255
EVERY: Final = "*"
_KEY: Final = re.compile(r"[A-Za-z0-9._@-]+", re.ASCII)


class Action(Enum):
    """An action on a resource; ALL means every action, and no call requires it."""

    ALL = "all"
    PUB = "pub"
    SUB = "sub"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GET = "get"
    LIST = "list"

    __hash__ = object.__hash__  # Enum's own hash takes longer than the rest of a check.


class ResourceKind(Enum):
    """The kind of a resource; EVERYTHING means all kinds, and no call requires it."""

    EVERYTHING = "*"
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"

    __hash__ = object.__hash__


class Resource(NamedTuple):
    """The topic, group or cluster with a name, or all with names that match a pattern."""

    kind: ResourceKind
    pattern: str

    def __str__(self) -> str:
        if self.kind is ResourceKind.EVERYTHING:
            return EVERY
        return f"{self.kind.value}:{self.pattern}"

    def covers(self, kind: ResourceKind, name: str) -> bool:
        """Returns whether the resource covers a name; only the pattern * covers the name *."""
        if self.kind is ResourceKind.EVERYTHING:
            return True
        if self.kind is not kind:
            return False
        if self.pattern.endswith(EVERY):
            is_all = name == EVERY and self.pattern != EVERY
            return not is_all and name.startswith(self.pattern[:-1])
        return name == self.pattern


class User(NamedTuple):
    """A user who signs calls; admins may do everything."""

    access_key: str
    secret: str
    is_admin: bool = False
    is_enabled: bool = True


class Grant(NamedTuple):
    """A rule that allows or denies a user actions on a resource.

    sources   networks from which the rule applies, such as "10.0.0.0/8"; empty: from everywhere
    """

    user: str
    actions: frozenset[Action]
    resource: Resource
    is_allowed: bool = True
    sources: tuple[str, ...] = ()

    @property
    def decision(self) -> str:
        """The decision as text: allow or deny."""
        return "allow" if self.is_allowed else "deny"


class Need(NamedTuple):
    """A permission that a call requires.

    actions   one of them must be allowed
    name      name of a topic, group or cluster; "*": all of the kind
    """

    actions: tuple[Action, ...]
    kind: ResourceKind
    name: str

    @property
    def resource(self) -> Resource:
        """The required resource."""
        return Resource(self.kind, self.name)


def action_from_text(text: str) -> Action:
    """Parses the name of an action, in upper or lower case.

    Errors   IllegalGrant
    """
    try:
        return Action(text.strip().lower())
    except ValueError:
        why = f"it is not one of {', '.join(action.value for action in Action)}"
        raise IllegalGrant(text=text, what="action", why=why) from None


def actions_from_text(text: str) -> frozenset[Action]:
    """Parses actions such as "pub,sub".

    Errors   IllegalGrant
    """
    return frozenset(action_from_text(part) for part in text.split(","))


def text_from_actions(actions: frozenset[Action]) -> str:
    """Returns actions as text, such as "pub,sub"."""
    return ",".join(action.value for action in Action if action in actions)


def resource_from_text(text: str) -> Resource:
    """Parses a resource such as "topic:orders-*", or "*".

    Errors   IllegalGrant
    """
    if text == EVERY:
        return Resource(ResourceKind.EVERYTHING, EVERY)
    kind, _, pattern = text.partition(":")
    try:
        found = ResourceKind(kind.lower())
    except ValueError:
        found = ResourceKind.EVERYTHING
    if found is ResourceKind.EVERYTHING or not pattern:
        why = "write topic:NAME, group:NAME, cluster:NAME, with a * at the end for many, or *"
        raise IllegalGrant(text=text, what="resource", why=why)
    if len(pattern) > PATTERN_LENGTH_MAX or not pattern.isprintable():
        why = f"a name is at most {PATTERN_LENGTH_MAX} printable characters"
        raise IllegalGrant(text=text, what="resource", why=why)
    if EVERY in pattern[:-1]:
        why = "a * is allowed only at the end"
        raise IllegalGrant(text=text, what="resource", why=why)
    return Resource(found, pattern)


def source_from_text(text: str) -> str:
    """Parses an address or a network; returns a network such as "10.0.0.0/8".

    Errors   IllegalGrant
    """
    try:
        return str(ip_network(text.strip(), strict=False))
    except ValueError as error:
        raise IllegalGrant(text=text, what="address or network", why=str(error)) from None


def check_user(user: User) -> None:
    """Raises IllegalUser unless clients can send the user's access key and secret."""
    key, secret = user.access_key, user.secret
    if not _KEY.fullmatch(key) or len(key) > KEY_LENGTH_MAX:
        why = f"an access key is 1 to {KEY_LENGTH_MAX} letters, digits and . _ @ -"
        raise IllegalUser(user=key, why=why)
    is_plain = secret.isascii() and secret.isprintable() and " " not in secret
    if not is_plain or not 0 < len(secret) <= SECRET_LENGTH_MAX:
        why = f"a secret is 1 to {SECRET_LENGTH_MAX} printable ASCII characters without spaces"
        raise IllegalUser(user=key, why=why)
