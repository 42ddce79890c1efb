"""Imports RocketMQ's plain_acl.yml as users and grants.

    accounts[]  accessKey, secretKey, admin             a user
                defaultTopicPerm, defaultGroupPerm      grants on topic:*, group:*
                topicPerms[], groupPerms[]              NAME=PUB|SUB, NAME=DENY: grants on that one

In RocketMQ an account's rule for one name replaces its default; here a deny wins. So actions that
the default allows and the rule for a name does not are denied for that name. No message contains a
secret.
Source: PlainPermissionManager, PlainAccessConfig, Permission.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.config.plain_yaml import PlainYamlError, read_yaml
from pocketmq.model.access import (
    Action,
    Grant,
    Resource,
    ResourceKind,
    User,
    check_user,
    resource_from_text,
)
from pocketmq.model.errors import IllegalConfig, IllegalGrant, IllegalUser

PERMISSIONS: Final[Mapping[str, frozenset[Action]]] = {
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
    "ANY": frozenset({Action.PUB, Action.SUB}),
    "DENY": frozenset(),
}
_KINDS: Final = (
    (ResourceKind.TOPIC, "defaultTopicPerm", "topicPerms"),
    (ResourceKind.GROUP, "defaultGroupPerm", "groupPerms"),
)
_NO_WHITE_LIST: Final = "addresses that need no signature are not known here: all calls are signed"


class PlainAcl(NamedTuple):
    """Users and grants of a plain_acl.yml.

    notes   ignored settings, with reasons
    """

    users: list[User]
    grants: list[Grant]
    notes: list[str]


def is_plain_acl(path: Path) -> bool:
    """Returns whether a file is one by its name."""
    return path.suffix.lower() in {".yml", ".yaml"}


def read_plain_acl(path: Path, text: str) -> PlainAcl:
    """Returns the users and grants of a plain_acl.yml.

    Errors   IllegalConfig, which names the account and never a secret
    """
    try:
        document = read_yaml(text)
    except PlainYamlError as error:
        raise IllegalConfig(field=str(path), why=str(error)) from None
    accounts = document.get("accounts") if isinstance(document, dict) else None
    if not isinstance(accounts, list):
        raise IllegalConfig(field=str(path), why="it has no accounts, as plain_acl.yml does")
    found = PlainAcl([], [], [])
    if document.get("globalWhiteRemoteAddresses"):
        found.notes.append(f"globalWhiteRemoteAddresses is left out: {_NO_WHITE_LIST}")
    for number, account in enumerate(accounts, 1):
        if not isinstance(account, dict) or not isinstance(account.get("accessKey"), str):
            why = f"account {number} has no accessKey"
            raise IllegalConfig(field=str(path), why=why)
        try:
            _take(found, account)
        except (IllegalUser, IllegalGrant) as error:
            why = f"account {account['accessKey'][:64]}: {_why(error)}"
            raise IllegalConfig(field=str(path), why=why) from None
    return found


def _why(error: IllegalUser | IllegalGrant) -> str:
    """Returns the fault; of a user not the text, which may contain a secret."""
    return str(error) if isinstance(error, IllegalGrant) else "its key or secret cannot be one here"


def _take(found: PlainAcl, account: Mapping[str, Any]) -> None:
    key, secret = account["accessKey"], account.get("secretKey", "")
    user = User(key, secret if isinstance(secret, str) else "", is_admin=_is_true(account))
    check_user(user)
    if any(known.access_key == key for known in found.users):
        raise IllegalGrant(text=key, what="account", why="it is there twice")
    found.users.append(user)
    if account.get("whiteRemoteAddress"):
        found.notes.append(f"whiteRemoteAddress of {key} is left out: {_NO_WHITE_LIST}")
    if not user.is_admin:
        found.grants.extend(_grants(key, account))


def _is_true(account: Mapping[str, Any]) -> bool:
    return str(account.get("admin", "")).lower() == "true"


def _grants(key: str, account: Mapping[str, Any]) -> Iterator[Grant]:
    """Yields the grants of an account."""
    for kind, default_name, names in _KINDS:
        usual = _permission(account.get(default_name) or "DENY")
        if usual:
            yield Grant(key, usual, Resource(kind, "*"))
        rules = account.get(names) or []
        for rule in rules if isinstance(rules, list) else [rules]:
            name, _, permission = str(rule).partition("=")
            allowed = _permission(permission)
            resource = resource_from_text(f"{kind.value}:{name.strip()}")
            if allowed:
                yield Grant(key, allowed, resource)
            if usual - allowed:
                yield Grant(key, usual - allowed, resource, is_allowed=False)


def _permission(text: object) -> frozenset[Action]:
    wanted = str(text).replace(" ", "").upper()
    found = PERMISSIONS.get(wanted)
    if found is None:
        why = f"it is none of {', '.join(PERMISSIONS)}"
        raise IllegalGrant(text=wanted[:64], what="permission", why=why)
    return found
