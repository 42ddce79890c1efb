"""Operators' requests about users and rules, on a broker that checks signatures.

    3001  AUTH_CREATE_USER    3006  AUTH_CREATE_ACL
    3002  AUTH_UPDATE_USER    3007  AUTH_UPDATE_ACL
    3003  AUTH_DELETE_USER    3008  AUTH_DELETE_ACL
    3004  AUTH_GET_USER       3009  AUTH_GET_ACL
    3005  AUTH_LIST_USER      3010  AUTH_LIST_ACL

A Super user is an admin, and an entry of a policy is a rule. Secrets are never returned.
Source: AdminBrokerProcessor, UserConverter, AclConverter.
"""

from typing import Any, Final

from pocketmq.model.access import User, resource_from_text
from pocketmq.model.errors import UnsupportedFeature
from pocketmq.model.roster import Roster
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.policies import SUBJECT, grants_in, policy_body, user_of
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.json_body import Body, body_of, json_answer, text_in
from pocketmq.rpc.classic.signing import ACCESS_KEY
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.service import MalformedRequest
from pocketmq.services.access.access import Access
from pocketmq.wire.remoting import Command

SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"


class AdminUsers:
    """The requests about users and rules.

    access   None: the broker does not check signatures, so every request is refused
    """

    __slots__ = ("_access",)

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def _checked(self) -> Access:
        if self._access is None:
            raise UnsupportedFeature(
                feature="users by mqadmin where calls are not signed; use pocketmq user"
            )
        return self._access

    def _roster(self) -> Roster:
        return self._checked().table.roster

    async def _saved(self, what: str, request: Command) -> Command:
        await self._checked().save(what, request.fields.get(ACCESS_KEY, ""))
        return OK

    async def create(self, request: Command, call: ClassicCall) -> Command:
        """Adds a user; durable before the answer.

        Errors   MalformedRequest, IllegalUser, UserExists, UnsupportedFeature, DiskFull
        """
        roster, name, body = self._roster(), text_field(request, "username"), body_of(request)
        is_admin = _choice(body, "userType", SUPER, NORMAL)
        is_enabled = _choice(body, "userStatus", ENABLED, DISABLED)
        user = User(name, text_in(body, "password"), is_admin is True, is_enabled is not False)
        roster.add(user)
        return await self._saved(f"user {name} added", request)

    async def update(self, request: Command, call: ClassicCall) -> Command:
        """Changes the given settings of a user; durable before the answer.

        Errors   MalformedRequest, IllegalUser, UserNotFound, LastAdmin, UnsupportedFeature,
                 DiskFull
        """
        access, name, body = self._checked(), text_field(request, "username"), body_of(request)
        access.change_user(
            name,
            secret=text_in(body, "password") or None,
            is_admin=_choice(body, "userType", SUPER, NORMAL),
            is_enabled=_choice(body, "userStatus", ENABLED, DISABLED),
        )
        return await self._saved(f"user {name} changed", request)

    async def delete(self, request: Command, call: ClassicCall) -> Command:
        """Removes a user and the user's rules; durable before the answer.

        Errors   MalformedRequest, UserNotFound, LastAdmin, UnsupportedFeature, DiskFull
        """
        access, name = self._checked(), text_field(request, "username")
        access.remove_user(name)
        return await self._saved(f"user {name} removed", request)

    def get(self, request: Command, call: ClassicCall) -> Command:
        """Returns a user, without the secret.

        Errors   MalformedRequest, UserNotFound, UnsupportedFeature
        """
        return json_answer(_user_body(self._roster().existing(text_field(request, "username"))))

    def all_users(self, request: Command, call: ClassicCall) -> Command:
        """Returns the users whose names contain `filter`, without their secrets.

        Errors   UnsupportedFeature
        """
        part = request.fields.get("filter", "")
        users = sorted(self._roster().users.values())
        return json_answer([_user_body(user) for user in users if part in user.access_key])

    async def create_rules(self, request: Command, call: ClassicCall) -> Command:
        """Adds rules of a user, or actions to existing rules; durable before the answer.

        Errors   MalformedRequest, IllegalGrant, UserNotFound, UnsupportedFeature, DiskFull
        """
        return await self._put_rules(request, replaces=False)

    async def update_rules(self, request: Command, call: ClassicCall) -> Command:
        """Replaces a user's rules for the resources in the request; durable before the answer.

        Errors   those of `create_rules`
        """
        return await self._put_rules(request, replaces=True)

    async def _put_rules(self, request: Command, *, replaces: bool) -> Command:
        roster, user = self._roster(), user_of(text_field(request, "subject"))
        roster.existing(user)
        grants = grants_in(user, body_of(request))
        if replaces:
            named = {grant.resource for grant in grants}
            roster.grants = [
                one for one in roster.grants if one.user != user or one.resource not in named
            ]
        for grant in grants:
            roster.grant(grant)
        return await self._saved(f"{user}: rules changed", request)

    async def delete_rules(self, request: Command, call: ClassicCall) -> Command:
        """Removes a user's rules, or those for one resource; durable before the answer.

        Errors   MalformedRequest, IllegalGrant, UserNotFound, UnsupportedFeature, DiskFull
        """
        roster, user = self._roster(), user_of(text_field(request, "subject"))
        roster.existing(user)
        text = request.fields.get("resource", "")
        resource = resource_from_text(text) if text else None
        roster.grants = [
            one for one in roster.grants if one.user != user or resource not in (None, one.resource)
        ]
        return await self._saved(f"{user}: rules removed", request)

    def rules(self, request: Command, call: ClassicCall) -> Command:
        """Returns the rules of a user.

        Errors   MalformedRequest, IllegalGrant, UserNotFound, UnsupportedFeature
        """
        user = user_of(text_field(request, "subject"))
        return json_answer(policy_body(user, self._roster().grants_of(user)))

    def all_rules(self, request: Command, call: ClassicCall) -> Command:
        """Returns rules by user, selected by two filters.

        The subject of a returned rule contains `subjectFilter`, and the resource `resourceFilter`.

        Errors   UnsupportedFeature
        """
        roster = self._roster()
        subject = request.fields.get("subjectFilter", "")
        resource = request.fields.get("resourceFilter", "").lower()
        found = []
        for name in sorted(roster.users):
            grants = [one for one in roster.grants_of(name) if resource in str(one.resource)]
            if grants and subject in SUBJECT + name:
                found.append(policy_body(name, grants))
        return json_answer(found)


def _choice(body: Body, name: str, yes: str, no: str) -> bool | None:
    """Returns True if a member is `yes`, False if it is `no`, None if it is absent.

    Errors   MalformedRequest
    """
    found = text_in(body, name).lower()
    if found not in ("", yes.lower(), no.lower()):
        raise MalformedRequest(why=f"{name} is neither {yes} nor {no}")
    return found == yes.lower() if found else None


def _user_body(user: User) -> dict[str, Any]:
    return {
        "userStatus": ENABLED if user.is_enabled else DISABLED,
        "userType": SUPER if user.is_admin else NORMAL,
        "username": user.access_key,
    }
