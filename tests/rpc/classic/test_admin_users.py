"""Users and rules by mqadmin, on a broker that checks signatures."""

import json
from typing import Any, Final

import pytest

from pocketmq.model.access import User
from pocketmq.rpc.classic.admin.users import AdminUsers
from pocketmq.rpc.classic.service_table import TABLE
from pocketmq.rpc.classic.signing import signed_by_fields
from pocketmq.rpc.guard import Guard
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.users import SECRET
from tests.rpc.classic.test_signing import signed

ENTRY: Final = {
    "actions": ["Pub", "Sub"], "decision": "Allow", "resource": "Topic:orders-*",
    "sourceIps": ["10.0.0.0/8"],
}  # fmt: skip


@pytest.fixture
async def client(broker: StoreBroker) -> RemotingPair:
    """A client of a broker with the users admin and app."""
    broker.access.table.roster.add(User("admin", SECRET, is_admin=True))
    broker.access.table.roster.add(User("app", SECRET))
    broker.access.refresh()
    guard = Guard(broker.access, None, signed_by_fields)
    return RemotingPair(guard.guarded(broker.classic.service(), TABLE.rules("DefaultCluster")))


async def ask(
    client: RemotingPair, code: int, body: Any = None, by: str = "admin", **fields: str
) -> Command:
    """Sends a signed request."""
    content = b"" if body is None else json.dumps(body).encode()
    return await client.ask(code, signed(fields, content, user=by), content)


def rules(subject: str, *entries: dict[str, Any], **policy: str) -> dict[str, Any]:
    """Returns the body of a request that sets rules."""
    return {"subject": subject, "policies": [{"entries": [*entries], **policy}]}


async def listed(client: RemotingPair, code: int, **fields: str) -> Any:
    """Returns the content of a reply."""
    reply = await ask(client, code, **fields)
    assert reply.code == 0, reply.remark
    return json.loads(reply.body)


async def test_a_user_is_created_changed_listed_and_deleted(client: RemotingPair) -> None:
    made = {"username": "new", "password": "p1", "userType": "Normal"}
    assert (await ask(client, 3001, made, username="new")).code == 0
    shown = {"userStatus": "enable", "userType": "Normal", "username": "new"}
    assert await listed(client, 3004, username="new") == shown
    changed = {"password": "p2", "userType": "Super", "userStatus": "disable"}
    assert (await ask(client, 3002, changed, username="new")).code == 0
    shown = {"userStatus": "disable", "userType": "Super", "username": "new"}
    assert await listed(client, 3005, filter="ne") == [shown]
    names = [user["username"] for user in await listed(client, 3005)]
    assert names == ["admin", "app", "new"]
    assert (await ask(client, 3003, username="new")).code == 0
    gone = await ask(client, 3004, username="new")
    assert (gone.code, "new" in gone.remark) == (1, True)


async def test_a_new_user_signs_and_a_secret_is_never_shown(client: RemotingPair) -> None:
    made = {"username": "new", "password": "a-long-password", "userType": "Super"}
    assert (await ask(client, 3001, made, username="new")).code == 0
    number = client.send(3005, signed({}, user="new", secret="a-long-password"))
    await client.settled()
    reply = client.replies[number]
    assert (reply.code, b"a-long-password" in reply.body) == (0, False)


async def test_rules_are_added_replaced_listed_and_deleted(client: RemotingPair) -> None:
    subject = {"subject": "User:app"}
    assert (await ask(client, 3006, rules("User:app", ENTRY), **subject)).code == 0
    expected = {"policies": [{"entries": [ENTRY], "policyType": "Custom"}], **subject}
    assert await listed(client, 3009, **subject) == expected
    everything = {"actions": ["All"], "decision": "Deny", "resource": "*", "sourceIps": []}
    more = rules("User:app", {**ENTRY, "actions": ["GET"]}, everything, policyType="Custom")
    assert (await ask(client, 3007, more, **subject)).code == 0
    entries = [{**ENTRY, "actions": ["Get"]}, everything]
    expected = {"policies": [{"entries": entries, "policyType": "Custom"}], **subject}
    assert await listed(client, 3010) == [expected]
    assert await listed(client, 3010, subjectFilter="other") == []
    only = await listed(client, 3010, resourceFilter="orders")
    assert only[0]["policies"][0]["entries"] == entries[:1]
    assert (await ask(client, 3008, resource="Topic:orders-*", **subject)).code == 0
    left = await listed(client, 3009, **subject)
    assert left["policies"][0]["entries"] == [everything]
    assert (await ask(client, 3008, **subject)).code == 0
    assert await listed(client, 3009, **subject) == {"policies": [], **subject}


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("app", rules("app", ENTRY)),
        ("User:none", rules("User:none", ENTRY)),
        ("User:app", rules("User:app")),
        ("User:app", rules("User:app", ENTRY, policyType="Default")),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "decision": "Maybe"})),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "actions": ["fly"]})),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "actions": []})),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "actions": "Pub"})),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "sourceIps": ["here"]})),
        ("User:app", rules("User:app", ENTRY, {**ENTRY, "resource": "Topic"})),
    ],
)
async def test_rules_that_cannot_be_kept_change_nothing(
    broker: StoreBroker, client: RemotingPair, subject: str, body: Any
) -> None:
    for code in (3006, 3007):
        refused = await ask(client, code, body, subject=subject)
        assert (refused.code, bool(refused.remark)) == (1, True)
    assert broker.access.table.roster.grants == []


async def test_a_type_or_state_of_a_user_that_is_not_known_is_refused(client: RemotingPair) -> None:
    for odd in ({"userType": "Root"}, {"userStatus": "off"}):
        assert (await ask(client, 3002, odd, username="app")).code == 1


@pytest.mark.parametrize("code", range(3001, 3011))
async def test_only_admins_see_and_change_users(client: RemotingPair, code: int) -> None:
    reply = await ask(client, code, {}, by="app", username="app", subject="User:app")
    assert (reply.code, "for admins" in reply.remark) == (16, True)


async def test_users_are_not_served_where_calls_are_not_signed(
    broker: StoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.classic.admin, "users", AdminUsers(None))
    client = RemotingPair(broker.classic.service())
    for code in range(3001, 3011):
        reply = await client.ask(code, {"username": "u", "subject": "User:u"}, b"{}")
        assert (reply.code, "pocketmq user" in reply.remark) == (3, True)


async def test_the_last_enabled_admin_stays_one(client: RemotingPair) -> None:
    changes = [(3002, {"userType": "Normal"}), (3002, {"userStatus": "disable"}), (3003, None)]
    for code, body in changes:
        refused = await ask(client, code, body, username="admin")
        assert refused.code != 0, code
        assert "'admin' is the last enabled admin; make another one first" in refused.remark
    assert (await ask(client, 3002, {"password": SECRET}, username="admin")).code == 0
    second = {"username": "second", "password": "p1", "userType": "Super"}
    assert (await ask(client, 3001, second, username="second")).code == 0
    assert (await ask(client, 3003, username="admin")).code == 0
