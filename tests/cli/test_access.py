"""Users and grants by the command line: of a broker, and of a store that none has open."""

import json
from pathlib import Path

import pytest

from pocketmq.cli.rosters import BrokerRoster
from pocketmq.format.signature import page_token_of
from pocketmq.model.access import User
from pocketmq.tools.users import read_roster
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.fixture(params=["broker", "store"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """Options that lead a command to a broker, or to a store."""
    if request.param == "store":
        return ("--store", str(tmp_path / "store"))
    request.getfixturevalue("broker")
    return ()


def test_users_are_made_changed_listed_and_removed(where: tuple[str, ...], tmp_path: Path) -> None:
    made = run("user", "add", "app", *where)
    shown = made.document
    secret = shown.pop("secret")
    assert len(secret) == 32
    assert shown == {"access_key": "app", "admin": False, "enabled": True}
    assert "pocketmq acl grant app" in made.err
    assert run("user", "add", "app", *where).code == 4
    file = tmp_path / "secret"
    file.write_text("a secret-of-mine\n".replace(" ", "-"))
    admin = run("user", "add", "admin", "--admin", "--secret-file", str(file), *where).document
    assert admin == {"access_key": "admin", "admin": True, "enabled": True}
    changed = run("user", "edit", "app", "--enabled", "false", "--admin", *where).document
    assert changed == {"access_key": "app", "admin": True, "enabled": False}
    renewed = run("user", "edit", "app", "--new-secret", *where).document
    assert renewed.pop("secret") != secret
    assert renewed == changed
    assert run("user", "ls", *where).document == [admin, changed]
    planned = run("user", "rm", "app", *where)
    assert (planned.code, planned.document) == (4, {"access_key": "app", "grants": []})
    assert run("user", "rm", "app", "--yes", *where).code == 0
    assert run("user", "ls", *where).document == [admin]
    assert run("user", "rm", "app", "--yes", *where).code == 3


LAST = "user 'root' is the last enabled admin; make another one first"


def test_a_store_keeps_its_last_enabled_admin(tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "store"))
    run("user", "add", "root", "--admin", *where)
    run("user", "add", "app", *where)
    run("user", "add", "off", "--admin", *where)
    run("user", "edit", "off", "--enabled", "false", *where)
    before = run("user", "ls", *where).document
    for change in (("--enabled", "false"), ("--no-admin",)):
        refused = run("user", "edit", "root", *change, *where)
        assert (refused.code, LAST in refused.err) == (4, True)
    refused = run("user", "rm", "root", "--yes", *where)
    assert (refused.code, LAST in refused.err) == (4, True)
    planned = run("user", "rm", "root", *where)
    assert (planned.code, LAST in planned.err) == (4, True)
    assert "--yes" not in planned.err
    assert run("user", "ls", *where).document == before
    assert run("user", "edit", "root", "--new-secret", *where).code == 0
    run("user", "edit", "off", "--enabled", "true", *where)
    assert "add --yes" in run("user", "rm", "root", *where).err
    assert run("user", "rm", "root", "--yes", *where).code == 0


@pytest.mark.parametrize("is_checked", [True, False])
def test_the_plan_for_the_last_admin_of_a_broker_that_checks_users(
    broker: LocalBroker, is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("user", "add", "root", "--admin")
    monkeypatch.setattr(BrokerRoster, "is_checked", is_checked)
    planned = run("user", "rm", "root")
    assert (planned.code, planned.document) == (4, {"access_key": "root", "grants": []})
    assert (LAST in planned.err, "add --yes" in planned.err) == (is_checked, not is_checked)


def test_grants_are_made_explained_and_taken_back(where: tuple[str, ...]) -> None:
    run("user", "add", "app", *where)
    resource = "topic:orders-*"
    source = ("--source", "10.1.2.3/8", "--source", "127.0.0.1")
    made = run("acl", "grant", "app", "sub,PUB", resource, *source, *where).document
    assert made == {
        "user": "app", "actions": ["pub", "sub"], "resource": resource, "decision": "allow",
        "sources": ["10.0.0.0/8", "127.0.0.1/32"],
    }  # fmt: skip
    question = ("acl", "explain", "app", "pub", "topic:orders-eu")
    told = run(*question, *where).document
    assert told == {"allowed": True, "why": "a rule allows it", "grant": made}
    far = run(*question, "--source", "192.0.2.1", *where).document
    assert far == {"allowed": False, "why": "no rule allows it", "grant": None}
    denial = run("acl", "grant", "app", "all", "topic:orders-eu", "--deny", *where).document
    assert run(*question, *where).document["grant"] == denial
    assert run("acl", "ls", *where).document == [made, denial]
    assert run("acl", "ls", "app", *where).document == [made, denial]
    left = run("acl", "revoke", "app", "pub", resource, *where).document
    assert left == [{**made, "actions": ["sub"]}]
    assert run("acl", "revoke", "app", "all", "topic:orders-eu", "--deny", *where).document == []
    assert run("acl", "revoke", "app", "pub", resource, *where).code == 3


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (("acl", "grant", "app", "write", "topic:t"), "write"),
        (("acl", "grant", "app", "pub", "orders"), "orders"),
        (("acl", "grant", "app", "pub", "topic:t", "--source", "here"), "here"),
        (("acl", "explain", "app", "pub", "topic:t", "--source", "here"), "here"),
        (("user", "add", "a b"), "a b"),
    ],
)
def test_what_makes_no_sense_is_refused_in_its_words(
    where: tuple[str, ...], line: tuple[str, ...], word: str
) -> None:
    run("user", "add", "app", *where)
    done = run(*line, *where)
    assert done.code == 4
    assert word in done.err


def test_nobody_is_found_by_any_other_name(where: tuple[str, ...]) -> None:
    run("user", "add", "app", *where)
    for line in (("acl", "ls", "x"), ("acl", "grant", "x", "pub", "*"), ("user", "edit", "x")):
        done = run(*line, *where)
        assert done.code == 3
        assert "there is no user 'x'" in done.err


def test_a_table_says_what_json_says(where: tuple[str, ...]) -> None:
    run("user", "add", "app", *where)
    run("acl", "grant", "app", "pub,sub", "topic:t", *where)
    lines = run("acl", "ls", "-o", "table", *where).out.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "DECISION", "ACTIONS", "RESOURCE", "SOURCES"],
        ["app", "allow", "pub,sub", "topic:t"],
    ]


def test_secrets_come_from_one_place(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store"))
    run("user", "add", "app", *store)
    file = tmp_path / "secret"
    done = run("user", "edit", "app", "--new-secret", "--secret-file", str(file), *store)
    assert done.code == 2
    missing = run("user", "edit", "app", "--secret-file", str(file), *store)
    assert missing.code == 2
    assert "cannot be read" in missing.err


def test_the_secret_stands_in_the_store_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    made = run("user", "add", "admin", "--admin", "--store", str(store)).document
    known = read_roster(store).users
    assert known == {"admin": User("admin", made["secret"], is_admin=True)}
    assert made["secret"] not in json.dumps(run("user", "ls", "--store", str(store)).document)


def test_a_broker_that_is_told_knows(broker: LocalBroker) -> None:
    run("user", "add", "app")
    assert [user.access_key for user in broker.inner.access.table.roster.users.values()] == ["app"]


def test_commands_sign_as_they_are_told(broker: LocalBroker, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("in-a-file\n")
    run("user", "ls")
    assert broker.credentials == ("", "")
    run("user", "ls", "--access-key", "app", "--secret-key", "told")
    assert broker.credentials == ("app", "told")
    run("user", "ls", "--secret-key-file", str(file), POCKETMQ_ACCESS_KEY="app")
    assert broker.credentials == ("app", "in-a-file")
    keys = {"POCKETMQ_ACCESS_KEY": "app", "POCKETMQ_SECRET_KEY": "set"}
    run("user", "ls", **keys)
    assert broker.credentials == ("app", "set")
    run("user", "ls", POCKETMQ_ACCESS_KEY="app", POCKETMQ_SECRET_KEY_FILE=str(file))
    assert broker.credentials == ("app", "in-a-file")
    assert run("user", "ls", "--secret-key-file", str(tmp_path / "none")).code == 2


def test_a_token_is_made_of_key_and_secret_and_asks_no_broker() -> None:
    keys = ("--access-key", "scraper", "--secret-key")
    made = run("user", "token", *keys, "s" * 24)
    assert made.out.strip() == page_token_of("scraper", "s" * 24)
    assert run("user", "token", *keys, "t" * 24).out != made.out
    refused = run("user", "token", *keys, "")
    assert (refused.code, refused.out) == (2, "")
    assert "access key 'scraper' has no secret here" in refused.err
    assert "a token needs both" in run("user", "token").err
