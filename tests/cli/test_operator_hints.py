"""Next steps that an operator can type as they are."""

from pathlib import Path

import pytest

from pocketmq.cli.failures import failure_of_broker
from pocketmq.model.errors import (
    BrokerError,
    IllegalConfig,
    SettingsFileUnusable,
    StoreLocked,
    TableUnreadable,
)
from pocketmq.rpc.own.tls import tls_context
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (IllegalConfig(field="store.flush (b.toml:2)", why="no"), "pocketmq config check b.toml"),
        (IllegalConfig(field="store.flush (--set)", why="no"), "pocketmq config init"),
        (SettingsFileUnusable(field="b.toml", why="no"), "pocketmq config check b.toml"),
        (SettingsFileUnusable(field="b.toml", why="No such file or directory"), "a file that exi"),
        (TableUnreadable(path="/s/config/topics.json", why="no"), "pocketmq store repair /s,"),
    ],
)
def test_the_next_step_names_the_file_or_the_store(error: BrokerError, step: str) -> None:
    assert step in failure_of_broker(error, "serve").next_step


def test_a_group_that_nothing_was_retried_for_is_skipped(
    broker: LocalBroker,
) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=0)
    broker.stand("billing", "%RETRY%billing", q0=0)
    assert run("group", "skip", "billing", "--yes").code == 0
    assert broker.stands("billing")[0] == 3


def test_a_skip_that_would_change_nothing_does_not_ask_for_yes(broker: LocalBroker) -> None:
    broker.fill(3)
    run("group", "create", "billing")
    broker.stand("billing", "orders", q0=3, q1=0)
    done = run("group", "skip", "billing")
    assert (done.code, "nothing to change" in done.err) == (0, True)


def test_a_missing_settings_file_is_not_to_be_corrected() -> None:
    done = run("config", "check", "nowhere.toml")
    assert "pocketmq config init nowhere.toml" in done.err


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("stop", "ends at SIGTERM: kill PID"),
        ("Shutdown", "ends at SIGTERM: kill PID"),
        ("restart", "then pocketmq serve"),
        ("reload", "at SIGHUP: kill -HUP PID"),
        ("logs", "writes its log to standard error"),
    ],
)
def test_what_a_signal_does_is_no_command(name: str, advice: str) -> None:
    done = run(name)
    assert done.code == 2
    assert f"there is no command {name!r}; a broker" in done.err
    assert advice in done.err


def test_a_subcommand_of_such_a_name_gets_no_such_advice() -> None:
    assert "SIGTERM" not in run("topic", "stop").err


def test_top_that_watches_is_told_what_it_has() -> None:
    assert "No such option '--watch': it repeats by itself on a terminal, at --interval" in (
        run("top", "--watch", "1s").err
    )


@pytest.mark.parametrize("command", ["user", "acl"])
def test_users_of_a_running_broker_are_changed_without_the_store(command: str) -> None:
    step = failure_of_broker(StoreLocked(path="/s"), command).next_step
    assert step == "if its broker runs, leave out --store: then the broker makes the change"


@pytest.mark.parametrize("word", ["path", "dir", "root"])
def test_a_word_of_the_same_meaning_is_understood(word: str) -> None:
    done = run("serve", "--set", f"store.{word}=/x")
    assert f"setting store.{word} (--set): no setting has this name; did you mean store.dir" in (
        done.err
    )


def test_a_file_of_tls_that_is_missing_is_named(tmp_path: Path) -> None:
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    with pytest.raises(IllegalConfig, match=r"rpc\.tls_cert: .*c\.pem cannot be read: No such"):
        tls_context(str(cert), str(key))
    cert.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(IllegalConfig, match=r"rpc\.tls_key: .*k\.pem cannot be read: No such"):
        tls_context(str(cert), str(key))
    key.write_text("")
    with pytest.raises(IllegalConfig, match="are no certificate and key"):
        tls_context(str(cert), str(key))
