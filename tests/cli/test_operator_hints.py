"""Next steps that an operator can type as they are."""

from pathlib import Path

import pytest

from pocketmq.app.certificate import made
from pocketmq.app.dialling import dial_of
from pocketmq.cli.failures import failure_of_broker
from pocketmq.config.load import load
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
from tests.sim.clock import FakeClock


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
    with pytest.raises(IllegalConfig, match=r"rpc\.tls_key: .*k\.pem is no private key in PEM"):
        tls_context(str(cert), str(key))
    key.write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(IllegalConfig, match="are no certificate and key"):
        tls_context(str(cert), str(key))


def test_the_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("c.pem", "k.pem", "other.pem")]
    (certificate, key), (_, other) = made(["localhost"]), made(["localhost"])
    for file, content in zip(files, (certificate, key, other), strict=True):
        Path(file).write_bytes(content)
    tls_context(files[0], files[1])
    with pytest.raises(IllegalConfig, match=r"rpc\.tls_key: .*other\.pem is not the key of"):
        tls_context(files[0], files[2])
    with pytest.raises(IllegalConfig, match=r"rpc\.tls_cert: .*k\.pem is no certificate in PEM"):
        tls_context(files[1], files[1])


def settings_at(directory: Path, main: str, part: str = "") -> Path:
    """Writes a settings file, and one in its conf.d; returns the first."""
    (directory / "conf.d").mkdir(parents=True)
    (directory / "conf.d" / "20.toml").write_text(part)
    file = directory / "b.toml"
    file.write_text(main)
    return file


@pytest.mark.parametrize(
    "part", ['[store]\nflush = "asyn"\n', "[store\n"], ids=["setting", "not TOML"]
)
@pytest.mark.parametrize("command", [("serve", "-c"), ("config", "show")])
def test_the_check_after_an_error_in_conf_d_reads_all_files(
    tmp_path: Path, part: str, command: tuple[str, ...]
) -> None:
    file = settings_at(tmp_path / "my etc", "", part)
    done = run(*command, str(file))
    assert done.code == 2
    assert f"correct {file.parent}/conf.d/20.toml" in done.err
    assert f"pocketmq config check '{file}'\n" in done.err


def test_a_check_with_force_is_repeated_with_force(tmp_path: Path) -> None:
    file = settings_at(tmp_path, '[retention]\nage_ms = "30m"\n[store]\nflush = "asyn"\n')
    assert (
        f"then: pocketmq config check {file} --force\n"
        in run("config", "check", str(file), "--force").err
    )
    assert f"then: pocketmq config check {file}\n" in run("config", "check", str(file)).err


def test_a_check_names_files_that_a_start_could_not_read(tmp_path: Path) -> None:
    file = settings_at(
        tmp_path,
        f'[rpc]\ntls_cert = "{tmp_path}/c.pem"\ntls_key = "{tmp_path}/k.pem"\n'
        f'[replication]\nleader = "a:1"\nuser = "u"\nsecret_path = "{tmp_path}/s"\n',
    )
    (tmp_path / "k.pem").touch()
    done = run("config", "check", str(file), "-o", "json")
    assert done.code == 0
    for key, line, path in (("rpc.tls_cert", 2, "c.pem"), ("replication.secret_path", 7, "s")):
        text = f"setting {key} ({file}:{line}): {tmp_path}/{path} cannot be read: No such file"
        assert f"Note: {text}" in done.err
        assert text in done.out
    assert "k.pem cannot" not in done.err


def test_a_secret_that_a_follower_cannot_read_is_told_with_its_line() -> None:
    def why(**given: str) -> str:
        settings = [f"replication.{key}={value}" for key, value in given.items()]
        with pytest.raises(IllegalConfig) as error:
            dial_of("a:1", load(assignments=settings), FakeClock())
        return str(error.value)

    text = (
        "setting replication.secret_path (--set): /nope cannot be read: No such file or directory"
    )
    assert why(user="u", secret_path="/nope") == text
    assert "it is empty, and the user 'u' signs" in why(user="u")


def test_an_option_before_the_command_is_shown_as_the_command_has_it() -> None:
    assert "as in pocketmq bench COMMAND --seconds …" in run("bench", "--duration", "3s").err
    assert "as in pocketmq bench COMMAND --rate …" in run("bench", "--rate", "3").err
    assert "use --seconds" in run("bench", "produce", "--duration", "3s").err
    assert "see pocketmq bench COMMAND --help" in run("bench", "--colour", "3").err
    assert "as in pocketmq COMMAND --colour …" in run("--colour", "3").err


def test_the_log_level_is_a_setting() -> None:
    assert "use --set logs.level=debug" in run("serve", "--log-level", "debug").err


def test_the_written_configuration_of_prometheus_starts_by_its_own_path(tmp_path: Path) -> None:
    to = tmp_path / "my monitoring"
    done = run("monitoring", "init", str(to))
    command = f"prometheus --config.file='{to}/prometheus.yml'"
    assert command in done.err
    assert command in (to / "prometheus.yml").read_text()
