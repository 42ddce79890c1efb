"""Calls of pocketmq.v1.Access: users and grants, for admins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pocketmq.client.channel import Channel, Stub, value_of
from pocketmq.client.values import GrantState, check_kind
from pocketmq.rpc.pb import access_pb2


class UserState(NamedTuple):
    """A user, without the secret."""

    access_key: str
    admin: bool
    enabled: bool


class Explained(NamedTuple):
    """Whether a user may perform an action, why, and the deciding grant, if there is one."""

    allowed: bool
    why: str
    grant: GrantState | None


class OwnGrants(NamedTuple):
    """The caller's user and grants; user None: the broker checks no signatures.

    source   the caller's address, which the broker compares with the `sources` of grants
    """

    user: UserState | None
    grants: list[GrantState]
    source: str


class AsyncAccess:
    """Administration of users and grants: `AsyncClient.admin.access`.

    Errors   raised by every method: ClientError and its subclasses
    """

    __slots__ = ("_ask", "_read")

    def __init__(self, channel: Channel) -> None:
        stub = Stub(channel, access_pb2.DESCRIPTOR.services_by_name["Access"])
        self._ask, self._read = stub.ask, stub.read

    async def create_user(self, access_key: str, secret: str, *, admin: bool = False) -> UserState:
        """Creates a user."""
        answer = await self._ask("CreateUser", access_key=access_key, secret=secret, admin=admin)
        return value_of(UserState, answer.user)

    async def update_user(
        self,
        access_key: str,
        *,
        secret: str | None = None,
        admin: bool | None = None,
        enabled: bool | None = None,
    ) -> UserState:
        """Changes the fields of a user for which a value other than None is given."""
        answer = await self._ask(
            "UpdateUser", is_repeatable=True,
            access_key=access_key, secret=secret, admin=admin, enabled=enabled,
        )  # fmt: skip
        return value_of(UserState, answer.user)

    async def delete_user(self, access_key: str) -> None:
        """Deletes a user and the user's grants."""
        await self._ask("DeleteUser", access_key=access_key)

    async def list_users(self) -> tuple[list[UserState], bool]:
        """Returns the users ordered by access key, and whether the broker checks signatures."""
        answer = await self._read("ListUsers")
        return [value_of(UserState, user) for user in answer.users], answer.checked

    async def add_grant(self, grant: GrantState) -> GrantState:
        """Adds a grant, or adds its actions to an existing grant; returns the resulting grant."""
        check_kind(grant, GrantState)
        _check_actions(grant.actions)
        answer = await self._ask("AddGrant", is_repeatable=True, grant=grant._asdict())
        return _grant(answer.grant)

    async def remove_grant(
        self, user: str, actions: Sequence[str], resource: str, *, deny: bool = False
    ) -> list[GrantState]:
        """Removes actions from a user's grants; returns the remaining grants on the resource."""
        _check_actions(actions)
        answer = await self._ask(
            "RemoveGrant", user=user, actions=actions, resource=resource, deny=deny
        )
        return list(map(_grant, answer.grants))

    async def list_grants(self, user: str = "") -> list[GrantState]:
        """Returns the grants of a user, or of all users."""
        return list(map(_grant, (await self._read("ListGrants", user=user)).grants))

    async def explain(self, user: str, action: str, resource: str, source: str = "") -> Explained:
        """Returns whether a user may perform an action on a resource, and the deciding grant."""
        answer = await self._read(
            "Explain", user=user, action=action, resource=resource, source=source
        )
        grant = _grant(answer.grant) if answer.HasField("grant") else None
        return Explained(answer.allowed, answer.why, grant)

    async def own_grants(self) -> OwnGrants:
        """Returns the caller's own user and grants; each user may call it."""
        answer = await self._read("OwnGrants")
        user = value_of(UserState, answer.user) if answer.HasField("user") else None
        return OwnGrants(user, list(map(_grant, answer.grants)), answer.source)


def _grant(message: Any) -> GrantState:
    return value_of(
        GrantState, message, actions=list(message.actions), sources=list(message.sources)
    )


def _check_actions(actions: object) -> None:
    if isinstance(actions, str):
        raise TypeError(f"actions is a str, but a grant has several: write [{actions!r}]")
