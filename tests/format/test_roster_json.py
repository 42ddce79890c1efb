"""The file of users holds what it was given, and says why where it cannot be read."""

import json

import pytest

from pocketmq.format.roster_json import decode_roster, encode_roster
from pocketmq.model.access import User
from pocketmq.model.roster import Roster
from tests.kit.users import grant_of

ROSTER = Roster(
    [User("admin", "s1", is_admin=True), User("app", "s2", is_enabled=False)],
    [
        grant_of("app", "pub,sub", "topic:orders-*"),
        grant_of("app", "all", "*", is_allowed=False, sources=("10.0.0.0/8", "2001:db8::/32")),
    ],
)


def test_users_and_rules_come_back() -> None:
    back = decode_roster(encode_roster(ROSTER))
    assert (back.users, back.grants) == (ROSTER.users, ROSTER.grants)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format_version": 2}, "version 2"),
        ({"users": [{"access_key": "x"}]}, "missing"),
        ({"users": [{"access_key": "a b", "secret": "s", "admin": True, "enabled": True}]}, "a b"),
        ({"users": 7}, "invalid"),
        ({"grants": [{"user": "app"}]}, "missing"),
        (
            {"grants": [{"user": "nobody", "actions": ["pub"], "resource": "*",
                         "decision": "allow", "sources": []}]},
            "nobody",
        ),
        (
            {"grants": [{"user": "app", "actions": ["pub"], "resource": "*",
                         "decision": "maybe", "sources": []}]},
            "maybe",
        ),
        *(
            (
                {"grants": [{"user": "app", "actions": json.loads(actions), "resource": "*",
                             "decision": "deny", "sources": []}]},
                "'app' has no actions",
            )
            for actions in ("[]", "{}", '""')
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_told(change: dict[str, object], why: str) -> None:
    document = json.loads(encode_roster(ROSTER))
    with pytest.raises(ValueError, match=why):
        decode_roster(json.dumps(document | change).encode())


def test_bytes_that_are_no_json_are_told() -> None:
    with pytest.raises(ValueError):
        decode_roster(b"\0")
