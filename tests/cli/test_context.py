"""Contexts keep connections; options are stronger than --context, that than the environment."""

import json
import os
import stat
from pathlib import Path

import pytest

from pocketmq.client import Unreachable
from tests.cli.command_line import Ran, run
from tests.cli.local_broker import LocalBroker

PROD = ("mq.example:9000", "ops", "ops-secret")


@pytest.fixture
def file() -> Path:
    """The file of contexts, which the first `context add` makes."""
    return Path(os.environ["XDG_CONFIG_HOME"]) / "pocketmq" / "contexts.json"


def add(name: str, endpoint: str, key: str = "", secret: str = "", *more: str) -> Ran:
    """Adds a context, whose secret is typed."""
    keys = ("--access-key", key) if key else ()
    return run("context", "add", name, "--endpoint", endpoint, *keys, *more, given=f"{secret}\n")


def called(broker: LocalBroker, *words: str, **environment: str) -> tuple[str, ...]:
    """Returns the endpoint and the credentials that a command used."""
    assert run("topic", "ls", *words, **environment).code == 0
    return (broker.endpoint, *broker.credentials)


def test_the_first_context_is_used_and_only_its_user_reads_the_file(
    broker: LocalBroker, file: Path
) -> None:
    done = add("prod", *PROD)
    assert done.code == 0
    assert done.document == {
        "name": "prod",
        "current": True,
        "endpoint": "mq.example:9000",
        "access_key": "ops",
    }
    assert PROD[2] not in done.out + done.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert called(broker) == PROD


def test_contexts_are_listed_used_and_removed_without_their_secrets(file: Path) -> None:
    add("prod", *PROD)
    add("local", "127.0.0.1:8081")
    listed = run("context", "ls", "-o", "json")
    assert [(row["name"], row["current"]) for row in listed.document] == [
        ("local", False),
        ("prod", True),
    ]
    assert PROD[2] not in listed.out
    assert run("context", "use", "local").document["current"] is True
    assert run("context", "rm", "local").code == 0
    assert json.loads(file.read_text())["current"] == ""
    assert run("context", "rm", "prod").code == 0
    assert PROD[2] not in file.read_text()


def test_what_is_stronger_names_the_broker(broker: LocalBroker) -> None:
    add("prod", *PROD)
    add("test", "t:1", "tester", "t-secret")
    own = {"POCKETMQ_ENDPOINT": "e:1"}
    assert called(broker) == PROD
    assert called(broker, POCKETMQ_CONTEXT="test") == ("t:1", "tester", "t-secret")
    assert called(broker, **own) == ("e:1", "", ""), "no secret for an address of the environment"
    assert called(broker, "--endpoint", "o:1") == ("o:1", "", "")
    assert called(broker, "--context", "test", **own) == ("t:1", "tester", "t-secret")
    assert called(broker, "--context", "test", "--endpoint", "o:1")[0] == "o:1"
    named = called(broker, "--access-key", "me", "--secret-key", "mine")
    assert named == ("mq.example:9000", "me", "mine")
    keys = {"POCKETMQ_ACCESS_KEY": "env", "POCKETMQ_SECRET_KEY": "env-secret"}
    assert called(broker, **keys) == ("mq.example:9000", "env", "env-secret")
    assert called(broker, "--context", "test", **keys) == ("t:1", "tester", "t-secret")
    run("context", "use", "--none")
    assert called(broker) == ("127.0.0.1:8081", "", "")


def test_a_container_signs_as_its_first_admin_unless_a_user_is_named(broker: LocalBroker) -> None:
    own = {"POCKETMQ_ADMIN_SECRET": "first"}
    assert called(broker, **own) == ("127.0.0.1:8081", "admin", "first")
    assert called(broker, "--access-key", "a", "--secret-key", "b", **own)[1:] == ("a", "b")
    add("open", "h:1")
    assert called(broker, **own) == ("h:1", "", ""), "a context has its own credentials"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("use", "none"), 3, "there is no context 'none'"),
        (("rm", "none"), 3, "pocketmq context ls"),
        (("use", "prd"), 3, "did you mean prod? If not: pocketmq context add prd"),
        (("use",), 2, "give a NAME, or --none"),
        (("add", "prod"), 4, "replace it with --yes"),
        (("add", " x"), 2, "is no name"),
        (("add", "y", "--secret-key-file", "s"), 2, "requires --access-key"),
    ],
)
def test_wrong_use_says_how_to_go_on(words: tuple[str, ...], code: int, told: str) -> None:
    add("prod", *PROD)
    done = run("context", *words)
    assert done.code == code
    assert told in done.err
    assert run("topic", "ls", "--context", "none").code == 3


def test_a_context_is_replaced_by_yes_and_its_secret_read_from_a_file(
    broker: LocalBroker, tmp_path: Path
) -> None:
    add("prod", *PROD)
    secret = tmp_path / "secret"
    secret.write_text("new\n")
    assert add("prod", "n:1", "ops", "", "--secret-key-file", str(secret), "--yes").code == 0
    assert called(broker) == ("n:1", "ops", "new")


@pytest.mark.parametrize(
    "line", ["context add y --access-key ops --secret-key-file {}", "user add ops --secret-file {}"]
)
def test_an_empty_file_of_a_secret_is_an_error(
    line: str, broker: LocalBroker, tmp_path: Path
) -> None:
    """Else the context would ask for the secret, and the user would get one that is unknown."""
    secret = tmp_path / "secret"
    secret.write_text("\n")
    done = run(*line.format(secret).split(" "))
    assert (done.code, done.out) == (2, "")
    assert f"{secret} is empty: it must contain the secret" in done.err


def test_a_file_that_others_read_is_refused(file: Path) -> None:
    add("prod", *PROD)
    file.chmod(0o640)
    done = run("topic", "ls")
    assert done.code == 4
    assert done.err.endswith(f"Next:  chmod 600 {file}\n")


@pytest.mark.parametrize("text", ["{", "[]", '{"current": "", "contexts": {"a": {"b": 1}}}'])
def test_a_file_that_is_damaged_is_named(file: Path, text: str) -> None:
    add("prod", *PROD)
    file.write_text(text)
    done = run("context", "ls")
    assert done.code == 1
    assert f"{file} cannot be read" in done.err


def test_an_unreachable_broker_of_a_context_is_told_with_its_name(broker: LocalBroker) -> None:
    add("prod", *PROD)
    broker.error = Unreachable("Unreachable", "no broker answers at mq.example:9000")
    done = run("topic", "ls")
    assert done.code == 5
    assert "no broker answers at mq.example:9000 (context prod)" in done.err
    assert "pocketmq context ls" in done.err


def test_a_token_is_of_the_user_of_the_context() -> None:
    add("prod", *PROD)
    given = run("user", "token", "--access-key", "ops", "--secret-key", "ops-secret").out
    assert run("user", "token").out == given


def test_an_address_of_the_environment_that_is_stronger_is_noted() -> None:
    own = {"POCKETMQ_ENDPOINT": "e:1"}
    add("prod", *PROD)
    told = run("context", "use", "prod", **own).err
    assert "Note: POCKETMQ_ENDPOINT is set and comes before contexts: unset it to use prod" in told
    assert "Note" not in run("context", "use", "prod").err
    assert "Note" not in run("context", "add", "test", "--endpoint", "t:1", **own).err
