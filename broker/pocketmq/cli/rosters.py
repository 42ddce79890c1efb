"""Access to users and grants, by a broker or in a store that no broker has open."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.options import PATH
from pocketmq.model.access import (
    Grant,
    User,
    actions_from_text,
    resource_from_text,
    source_from_text,
    text_from_actions,
)
from pocketmq.model.rights import explain
from pocketmq.model.roster import Roster, is_last_admin

Document = dict[str, Any]
Changed = TypeVar("Changed")

store_option: Final = click.option(
    "--store", type=PATH, metavar="DIR",
    help="Use this store instead of a broker; it must not be in use, and may be new.",
)  # fmt: skip


def user_document(access_key: str, is_admin: bool, is_enabled: bool) -> Document:
    """Returns a user as commands print one."""
    return {"access_key": access_key, "admin": is_admin, "enabled": is_enabled}


def grant_document(
    user: str, actions: Iterable[str], resource: str, is_denied: bool, sources: Iterable[str]
) -> Document:
    """Returns a grant as commands print one."""
    return {
        "user": user,
        "actions": list(actions),
        "resource": resource,
        "decision": "deny" if is_denied else "allow",
        "sources": list(sources),
    }


class BrokerRoster:
    """Users and grants of a broker.

    Errors   of every method: ClientError
    """

    __slots__ = ("_ask", "_broker")

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker.admin.access
        self._ask = broker.ask

    def add(self, access_key: str, secret: str, *, is_admin: bool) -> Document:
        """Creates a user."""
        made = self._broker.create_user(access_key, secret, admin=is_admin)
        return user_document(*self._ask(made))

    def change(
        self, access_key: str, secret: str | None, is_admin: bool | None, is_enabled: bool | None
    ) -> Document:
        """Changes the given settings of a user."""
        changed = self._broker.update_user(
            access_key, secret=secret, admin=is_admin, enabled=is_enabled
        )
        return user_document(*self._ask(changed))

    def remove(self, access_key: str) -> None:
        """Removes a user and its grants."""
        self._ask(self._broker.delete_user(access_key))

    def must_stay(self, access_key: str) -> bool:
        """Returns whether a user is the last enabled admin, and so is not removed."""
        return self.is_checked and is_last_admin(access_key, _admins(self.users()))

    def users(self) -> list[Document]:
        """Returns all users."""
        return [user_document(*user) for user in self._ask(self._broker.list_users())[0]]

    @property
    def is_checked(self) -> bool:
        """Whether the broker checks users."""
        return self._ask(self._broker.list_users())[1]

    def grant(
        self, user: str, actions: str, resource: str, *, is_denied: bool, sources: tuple[str, ...]
    ) -> Document:
        """Adds a grant."""
        from pocketmq.client.values import GrantState

        given = GrantState(user, actions.split(","), resource, is_denied, sources)
        return grant_document(*self._ask(self._broker.add_grant(given)))

    def revoke(self, user: str, actions: str, resource: str, *, is_denied: bool) -> list[Document]:
        """Removes actions from a grant; returns the remaining grants for the resource."""
        asked = self._broker.remove_grant(user, actions.split(","), resource, deny=is_denied)
        return [grant_document(*grant) for grant in self._ask(asked)]

    def grants(self, user: str) -> list[Document]:
        """Returns the grants of a user, or of all users ("")."""
        return [grant_document(*grant) for grant in self._ask(self._broker.list_grants(user))]

    def explain(self, user: str, action: str, resource: str, source: str) -> Document:
        """Returns whether a user may perform an action, and why."""
        told = self._ask(self._broker.explain(user, action, resource, source))
        grant = None if told.grant is None else grant_document(*told.grant)
        return {"allowed": told.allowed, "why": told.why, "grant": grant}


class StoreRoster:
    """Users and grants of a store that no broker has open.

    Errors   of every method: NotAStore, StoreLocked, TableUnreadable; errors of Roster
    """

    __slots__ = ("_directory",)

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _changed(self, change: Callable[[Roster], Changed]) -> Changed:
        from pocketmq.tools.users import changed_roster

        with changed_roster(self._directory) as roster:
            return change(roster)

    def _read(self) -> Roster:
        from pocketmq.tools.users import read_roster

        return read_roster(self._directory)

    def add(self, access_key: str, secret: str, *, is_admin: bool) -> Document:
        """Creates a user."""
        user = User(access_key, secret, is_admin=is_admin)
        self._changed(lambda roster: roster.add(user))
        return _user_document(user)

    def change(
        self, access_key: str, secret: str | None, is_admin: bool | None, is_enabled: bool | None
    ) -> Document:
        """Changes the given settings of a user."""
        changed = self._changed(
            lambda roster: roster.change(
                access_key, secret=secret, is_admin=is_admin, is_enabled=is_enabled,
                keeps_admin=True,
            )
        )  # fmt: skip
        return _user_document(changed)

    def remove(self, access_key: str) -> None:
        """Removes a user and its grants."""
        self._changed(lambda roster: roster.remove(access_key, keeps_admin=True))

    def must_stay(self, access_key: str) -> bool:
        """Returns whether a user is the last enabled admin, and so is not removed."""
        return is_last_admin(access_key, _admins(self.users()))

    def users(self) -> list[Document]:
        """Returns all users."""
        return [_user_document(user) for user in sorted(self._read().users.values())]

    def grant(
        self, user: str, actions: str, resource: str, *, is_denied: bool, sources: tuple[str, ...]
    ) -> Document:
        """Adds a grant."""
        grant = Grant(
            user,
            actions_from_text(actions),
            resource_from_text(resource),
            is_allowed=not is_denied,
            sources=tuple(map(source_from_text, sources)),
        )
        return _grant_document(self._changed(lambda roster: roster.grant(grant)))

    def revoke(self, user: str, actions: str, resource: str, *, is_denied: bool) -> list[Document]:
        """Removes actions from a grant; returns the remaining grants for the resource."""
        taken, thing = actions_from_text(actions), resource_from_text(resource)
        left = self._changed(
            lambda roster: roster.revoke(user, taken, thing, is_allowed=not is_denied)
        )
        return list(map(_grant_document, left))

    def grants(self, user: str) -> list[Document]:
        """Returns the grants of a user, or of all users ("")."""
        return list(map(_grant_document, self._read().grants_of(user)))

    def explain(self, user: str, action: str, resource: str, source: str) -> Document:
        """Returns whether a user may perform an action, and why."""
        told = explain(self._read(), user, action, resource, source)
        grant = None if told.grant is None else _grant_document(told.grant)
        return {"allowed": told.is_allowed, "why": told.why, "grant": grant}


def roster_of(broker: BrokerConnection, store: Path | None) -> BrokerRoster | StoreRoster:
    """Returns the roster of a store if one is named, else the roster of the broker."""
    return BrokerRoster(broker) if store is None else StoreRoster(store)


def _admins(users: Iterable[Document]) -> Iterator[str]:
    return (user["access_key"] for user in users if user["admin"] and user["enabled"])


def _user_document(user: User) -> Document:
    return user_document(user.access_key, user.is_admin, user.is_enabled)


def _grant_document(grant: Grant) -> Document:
    actions = text_from_actions(grant.actions).split(",")
    return grant_document(
        grant.user, actions, str(grant.resource), not grant.is_allowed, grant.sources
    )
