"""pocketmq.v1.Access: users and grants, for admins."""

from collections.abc import Iterable

from pocketmq.format.addresses import text_from_host
from pocketmq.format.signature import AUTHORIZATION_KEY, signed_from_text
from pocketmq.model.access import (
    Action,
    Grant,
    User,
    action_from_text,
    resource_from_text,
    source_from_text,
    text_from_actions,
)
from pocketmq.model.errors import IllegalGrant
from pocketmq.model.rights import explain
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import access_pb2 as pb
from pocketmq.rpc.service import Service
from pocketmq.rpc.v1.service_table import ACCESS_TABLE
from pocketmq.services.access.access import Access


class AccessFace:
    """Methods of pocketmq.v1.Access; served also without authentication."""

    __slots__ = ("_access", "_is_checked")

    def __init__(self, access: Access, *, is_checked: bool) -> None:
        self._access = access
        self._is_checked = is_checked

    def service(self) -> Service:
        """Returns the service."""
        return ACCESS_TABLE.face(self)

    async def _save(self, what: str, call: Call) -> None:
        signed = signed_from_text(call.metadata(AUTHORIZATION_KEY) or "")
        by = signed.access_key if signed is not None and self._is_checked else ""
        await self._access.save(what, by)

    async def create_user(self, request: pb.CreateUserRequest, call: Call) -> pb.CreateUserResponse:
        """Adds a user; durable when this returns.

        Errors   IllegalUser, UserExists, DiskFull
        """
        user = User(request.access_key, request.secret, is_admin=request.admin)
        self._access.table.roster.add(user)
        await self._save(f"user {user.access_key} added", call)
        return pb.CreateUserResponse(user=_user_message(user))

    async def update_user(self, request: pb.UpdateUserRequest, call: Call) -> pb.UpdateUserResponse:
        """Changes the given settings of a user; durable when this returns.

        Errors   UserNotFound, IllegalUser, LastAdmin, DiskFull
        """
        has = request.HasField
        user = self._access.change_user(
            request.access_key,
            secret=request.secret if has("secret") else None,
            is_admin=request.admin if has("admin") else None,
            is_enabled=request.enabled if has("enabled") else None,
            keeps_admin=self._is_checked,
        )
        await self._save(f"user {user.access_key} changed", call)
        return pb.UpdateUserResponse(user=_user_message(user))

    async def delete_user(self, request: pb.DeleteUserRequest, call: Call) -> pb.DeleteUserResponse:
        """Removes a user and its grants; durable when this returns.

        Errors   UserNotFound, LastAdmin, DiskFull
        """
        self._access.remove_user(request.access_key, keeps_admin=self._is_checked)
        await self._save(f"user {request.access_key} removed", call)
        return pb.DeleteUserResponse()

    def list_users(self, request: pb.ListUsersRequest, call: Call) -> pb.ListUsersResponse:
        """Returns all users, without their secrets."""
        users = sorted(self._access.table.roster.users.values())
        return pb.ListUsersResponse(users=map(_user_message, users), checked=self._is_checked)

    async def add_grant(self, request: pb.AddGrantRequest, call: Call) -> pb.AddGrantResponse:
        """Adds a grant, or actions to an existing grant; durable when this returns.

        Errors   IllegalGrant, UserNotFound, DiskFull
        """
        given = request.grant
        grant = self._access.table.roster.grant(
            Grant(
                given.user,
                _actions(given.actions),
                resource_from_text(given.resource),
                is_allowed=not given.deny,
                sources=tuple(map(source_from_text, given.sources)),
            )
        )
        await self._save(f"{grant.user}: {grant.decision} {grant.resource} changed", call)
        return pb.AddGrantResponse(grant=_grant_message(grant))

    async def remove_grant(
        self, request: pb.RemoveGrantRequest, call: Call
    ) -> pb.RemoveGrantResponse:
        """Removes actions from grants; durable when this returns.

        Errors   IllegalGrant, UserNotFound, GrantNotFound, DiskFull
        """
        left = self._access.table.roster.revoke(
            request.user,
            _actions(request.actions),
            resource_from_text(request.resource),
            is_allowed=not request.deny,
        )
        await self._save(f"{request.user}: {request.resource} revoked", call)
        return pb.RemoveGrantResponse(grants=map(_grant_message, left))

    def list_grants(self, request: pb.ListGrantsRequest, call: Call) -> pb.ListGrantsResponse:
        """Returns the grants of a user, or of all users.

        Errors   UserNotFound
        """
        found = self._access.table.roster.grants_of(request.user)
        return pb.ListGrantsResponse(grants=map(_grant_message, found))

    def explain(self, request: pb.ExplainRequest, call: Call) -> pb.ExplainResponse:
        """Returns whether a user may perform an action on a resource, and why.

        Errors   UserNotFound, IllegalGrant
        """
        roster = self._access.table.roster
        verdict = explain(roster, request.user, request.action, request.resource, request.source)
        grant = None if verdict.grant is None else _grant_message(verdict.grant)
        return pb.ExplainResponse(allowed=verdict.is_allowed, why=verdict.why, grant=grant)

    def own_grants(self, request: pb.OwnGrantsRequest, call: Call) -> pb.OwnGrantsResponse:
        """Returns the caller's user and grants; no user without authentication."""
        roster = self._access.table.roster
        user = roster.users.get(call.user) if self._is_checked else None
        if user is None:
            return pb.OwnGrantsResponse()
        grants, host = roster.grants_of(user.access_key), text_from_host(call.peer_host)
        return pb.OwnGrantsResponse(
            user=_user_message(user), grants=map(_grant_message, grants),
            source=host.rpartition(":")[0].strip("[]"),
        )  # fmt: skip


def _actions(texts: Iterable[str]) -> frozenset[Action]:
    actions = frozenset(map(action_from_text, texts))
    if not actions:
        raise IllegalGrant(text="", what="action", why="name at least one")
    return actions


def _user_message(user: User) -> pb.User:
    return pb.User(access_key=user.access_key, admin=user.is_admin, enabled=user.is_enabled)


def _grant_message(grant: Grant) -> pb.Grant:
    return pb.Grant(
        user=grant.user,
        actions=text_from_actions(grant.actions).split(","),
        resource=str(grant.resource),
        deny=not grant.is_allowed,
        sources=grant.sources,
    )
