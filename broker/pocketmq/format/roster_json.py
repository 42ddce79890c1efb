"""The file of users and rules: PocketMQ's own JSON, because RocketMQ keeps them in RocksDB.

{"note": "…", "format_version": 1,
 "users":  [{"access_key", "secret", "admin", "enabled"}],
 "grants": [{"user", "actions": [..], "resource", "decision", "sources": [..]}]}
"""

import json
from typing import Any, Final

from pocketmq.format.json_text import read_object
from pocketmq.model.access import (
    Grant,
    User,
    action_from_text,
    check_user,
    resource_from_text,
    source_from_text,
)
from pocketmq.model.errors import RequestError
from pocketmq.model.roster import Roster

FORMAT_VERSION: Final = 1
NOTE: Final = "Contains the secrets of users: only the broker's user may read this file."


def encode_roster(roster: Roster) -> bytes:
    """Returns the content of the file."""
    users = [
        {
            "access_key": user.access_key, "secret": user.secret,
            "admin": user.is_admin, "enabled": user.is_enabled,
        }
        for user in roster.users.values()
    ]  # fmt: skip
    grants = [
        {
            "user": grant.user, "actions": sorted(action.value for action in grant.actions),
            "resource": str(grant.resource), "decision": grant.decision,
            "sources": list(grant.sources),
        }
        for grant in roster.grants
    ]  # fmt: skip
    document = {"note": NOTE, "format_version": FORMAT_VERSION, "users": users, "grants": grants}
    return json.dumps(document, indent=2).encode()


def decode_roster(content: bytes) -> Roster:
    """Parses the content of the file.

    Errors   ValueError: the content is invalid, or of another version than FORMAT_VERSION
    """
    try:
        document = read_object(content)
        found = int(document["format_version"])
        if found != FORMAT_VERSION:
            raise ValueError(f"it has version {found}, this broker reads {FORMAT_VERSION}")
        roster = Roster(map(_user, document["users"]))
        for row in document["grants"]:
            roster.grant(_grant(row))
    except (KeyError, TypeError, AttributeError, OverflowError, RequestError) as error:
        raise ValueError(f"a member is missing or invalid: {error}") from error
    return roster


def _user(row: dict[str, Any]) -> User:
    user = User(
        str(row["access_key"]), str(row["secret"]),
        is_admin=row["admin"] is True, is_enabled=row["enabled"] is True,
    )  # fmt: skip
    check_user(user)
    return user


def _grant(row: dict[str, Any]) -> Grant:
    if row["decision"] not in ("allow", "deny"):
        raise ValueError(f"{row['decision']!r} is neither allow nor deny")
    if not row["actions"]:
        raise ValueError(f"a rule of {row['user']!r} has no actions")
    return Grant(
        str(row["user"]),
        frozenset(action_from_text(text) for text in row["actions"]),
        resource_from_text(row["resource"]),
        is_allowed=row["decision"] == "allow",
        sources=tuple(source_from_text(text) for text in row["sources"]),
    )
