"""A broker's users and their access rules, in memory and mutable."""

from collections.abc import Iterable

from pocketmq.model.access import Action, Grant, Resource, User, check_user, text_from_actions
from pocketmq.model.errors import GrantNotFound, LastAdmin, UserExists, UserNotFound


def is_last_admin(access_key: str, admins: Iterable[str]) -> bool:
    """Returns whether a user is the only one of the enabled admins."""
    return [*admins] == [access_key]


class Roster:
    """Users by access key, and rules in the order of their creation."""

    __slots__ = ("grants", "users")

    def __init__(self, users: Iterable[User] = (), grants: Iterable[Grant] = ()) -> None:
        self.users = {user.access_key: user for user in users}
        self.grants = list(grants)
        assert all(grant.user in self.users for grant in self.grants), "rule of an unknown user"

    def existing(self, access_key: str) -> User:
        """Returns a user.

        Errors   UserNotFound
        """
        user = self.users.get(access_key)
        if user is None:
            raise UserNotFound(user=access_key)
        return user

    def add(self, user: User) -> None:
        """Adds a new user.

        Errors   IllegalUser, UserExists
        """
        check_user(user)
        if user.access_key in self.users:
            raise UserExists(user=user.access_key)
        self.users[user.access_key] = user

    def change(
        self,
        access_key: str,
        *,
        secret: str | None = None,
        is_admin: bool | None = None,
        is_enabled: bool | None = None,
        keeps_admin: bool = False,
    ) -> User:
        """Changes the given settings of a user; returns the new state.

        keeps_admin   whether the only enabled admin must stay one
        Errors        IllegalUser, UserNotFound, LastAdmin
        """
        known = self.existing(access_key)
        user = User(
            access_key,
            known.secret if secret is None else secret,
            is_admin=known.is_admin if is_admin is None else is_admin,
            is_enabled=known.is_enabled if is_enabled is None else is_enabled,
        )
        check_user(user)
        if keeps_admin and not (user.is_admin and user.is_enabled):
            self.check_other_admin(access_key)
        self.users[access_key] = user
        return user

    def remove(self, access_key: str, *, keeps_admin: bool = False) -> None:
        """Removes a user and its rules.

        keeps_admin   whether the only enabled admin must stay
        Errors        UserNotFound, LastAdmin
        """
        self.existing(access_key)
        if keeps_admin:
            self.check_other_admin(access_key)
        del self.users[access_key]
        self.grants = [grant for grant in self.grants if grant.user != access_key]

    def check_other_admin(self, access_key: str) -> None:
        """Checks that a user is not the only enabled admin.

        Errors   LastAdmin
        """
        admins = (one.access_key for one in self.users.values() if one.is_admin and one.is_enabled)
        if is_last_admin(access_key, admins):
            raise LastAdmin(user=access_key)

    def grants_of(self, access_key: str) -> list[Grant]:
        """Returns the rules of a user; access key "": the rules of all users.

        Errors   UserNotFound
        """
        if not access_key:
            return [*self.grants]
        self.existing(access_key)
        return [grant for grant in self.grants if grant.user == access_key]

    def grant(self, grant: Grant) -> Grant:
        """Adds a rule, merged with an existing one that differs only in the actions; returns it.

        Errors   UserNotFound
        """
        self.existing(grant.user)
        assert grant.actions, "rule without actions"
        for place, known in enumerate(self.grants):
            if known._replace(actions=grant.actions) == grant:
                merged = known._replace(actions=_merged(known.actions | grant.actions))
                self.grants[place] = merged
                return merged
        merged = grant._replace(actions=_merged(grant.actions))
        self.grants.append(merged)
        return merged

    def revoke(
        self, user: str, actions: frozenset[Action], resource: Resource, *, is_allowed: bool = True
    ) -> list[Grant]:
        """Removes actions from a user's rules on a resource, whatever their networks.

        is_allowed   whether to change the rules that allow, or those that deny

        Returns  the user's remaining rules on the resource
        Errors   UserNotFound; GrantNotFound: no such rule has one of the actions
        """
        self.existing(user)
        left, is_changed = [], False
        for grant in self.grants:
            if (grant.user, grant.resource, grant.is_allowed) == (user, resource, is_allowed):
                kept = _without(grant.actions, actions)
                is_changed |= kept != grant.actions
                grant = grant._replace(actions=kept)
            left.append(grant)
        if not is_changed:
            decision = "allows" if is_allowed else "denies"
            raise GrantNotFound(
                user=user, decision=decision, actions=text_from_actions(actions),
                resource=str(resource),
            )  # fmt: skip
        self.grants = [grant for grant in left if grant.actions]
        return [grant for grant in self.grants_of(user) if grant.resource == resource]


def _merged(actions: frozenset[Action]) -> frozenset[Action]:
    return frozenset({Action.ALL}) if Action.ALL in actions else actions


def _without(known: frozenset[Action], actions: frozenset[Action]) -> frozenset[Action]:
    if Action.ALL in actions:
        return frozenset()
    if Action.ALL in known:
        known = frozenset(Action) - {Action.ALL}
    return known - actions
