"""Errors of unsigned calls, and of users without permission."""

from typing import Final

from pocketmq.model.errors.code import Code, RequestError

NOT_SIGNED: Final = "the call has no signature"


class Unauthenticated(RequestError, code=Code.UNAUTHORIZED):
    """A call without a valid signature; the error does not show whether key or secret is wrong."""

    message = (
        "{why}; this broker requires authentication: give the client an access key and its secret "
        "(pocketmq user add makes them)"
    )
    why: str


class AccessDenied(RequestError, code=Code.FORBIDDEN):
    """A call for which its user has no permission."""

    message = (
        "user {user} may not {action} {resource}: {why}; an admin changes that: "
        "pocketmq acl {remedy} {user} {action} {resource}"
    )
    plain = RequestError.plain | {"user", "action", "remedy"}
    user: str
    action: str
    resource: str
    why: str
    remedy: str


class AdminsOnly(RequestError, code=Code.FORBIDDEN):
    """A call that only admins may make."""

    message = "user {user} may not {what}, which is for admins: pocketmq user edit {user} --admin"
    plain = RequestError.plain | {"user", "what"}
    user: str
    what: str


class IllegalUser(RequestError):
    """An access key or a secret that clients cannot send."""

    message = "user {user} is not allowed: {why}"
    user: str
    why: str


class UserNotFound(RequestError, code=Code.BAD_REQUEST):
    """An access key that belongs to no user."""

    message = "there is no user {user}; see pocketmq user ls"
    user: str


class UserExists(RequestError, code=Code.PRECONDITION_FAILED):
    """Creation of a user whose access key exists."""

    message = "user {user} exists already; change it: pocketmq user edit {user}"
    user: str


class LastAdmin(RequestError, code=Code.PRECONDITION_FAILED):
    """A change after which a broker that checks users would have no enabled admin."""

    message = (
        "user {user} is the last enabled admin; make another one first: pocketmq user add NAME "
        "--admin"
    )
    user: str


class IllegalGrant(RequestError):
    """An invalid rule."""

    message = "{text} is not a valid {what}: {why}"
    plain = RequestError.plain | {"what"}
    text: str
    what: str
    why: str


class GrantNotFound(RequestError, code=Code.BAD_REQUEST):
    """Removal of a rule that does not exist."""

    message = "user {user} has no rule that {decision} {actions} on {resource}; see pocketmq acl ls"
    plain = RequestError.plain | {"decision", "actions", "resource"}
    user: str
    decision: str
    actions: str
    resource: str
