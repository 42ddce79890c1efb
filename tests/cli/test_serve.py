"""`serve` turns its flags into settings, `dev` runs on a store that goes; the rest is the app's."""

import os
import socket
from pathlib import Path

import pytest

from pocketmq.app import serve as app
from pocketmq.app.serve import Announce
from pocketmq.app.stage import Stage
from pocketmq.cli.serve import introduce
from pocketmq.config.live import LiveConfig
from pocketmq.config.sections import Config
from pocketmq.model.errors import IllegalConfig, StoreLocked
from tests.cli.command_line import run


class Served:
    """Stands for the app: keeps the settings, says one ready line, ends with a code or an error."""

    def __init__(self) -> None:
        self.config = Config()
        self.code = 0
        self.count = 0
        self.error: Exception | None = None

    def __call__(
        self, live: LiveConfig, announce: Announce, *, accept_damage: bool, stage: Stage
    ) -> int:
        self.live, self.config, self.stage = live, live.config, stage
        self.accept_damage = accept_damage
        self.count += 1
        self.had_directory = self.directory.is_dir()
        announce({"grpc": "127.0.0.1:1", "grpc_tls": None})
        if self.error is not None:
            raise self.error
        return self.code

    @property
    def directory(self) -> Path:
        return Path(self.config.store.directory)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    made = Served()
    monkeypatch.setattr(app, "run_broker", made)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return made


def test_flags_are_settings(served: Served) -> None:
    flags = ("--store", "/s", "--listen", "0.0.0.0:1", "--http", "[::]:2", "--transport", "grpcio")
    run("serve", *flags, "--set", "maxIndexNum=9")
    config = served.config
    assert (config.store.directory, config.store.index_entry_count_max) == ("/s", 9)
    assert (config.rpc.listen, config.http.listen) == ("0.0.0.0:1", "[::]:2")
    assert config.rpc.transport == "grpcio"
    run("serve", "--tls-cert", "c.pem", "--tls-key", "k.pem")
    rpc = served.config.rpc
    assert (rpc.transport, rpc.tls_cert, rpc.tls_key) == ("own", "c.pem", "k.pem")
    assert rpc.offers_tls
    run("serve", "--no-tls")
    assert not served.config.rpc.offers_tls


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_everybody_is_let_in_on_request_only(served: Served, command: str) -> None:
    run(command)
    assert served.config.access.check == "auto"
    run(command, "--insecure")
    assert served.config.access.check == "off"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("serve", "--listen", "h:99999"), "Invalid value for '--listen': 'h:99999': the port is"),
        (("serve", "--http", "h"), "Invalid value for '--http': 'h' is not HOST:PORT"),
        (("dev", "--listen", "h:99999"), "Invalid value for '--listen': 'h:99999': the port is"),
        (("serve", "--set", "rpc.listen=h:99999"), "setting rpc.listen (--set): 'h:99999'"),
        (("console", "--listen", "h:99999"), "--listen: 'h:99999': the port is not in the range"),
    ],
)
def test_an_illegal_address_is_refused_by_the_name_of_its_option(
    served: Served, words: tuple[str, ...], told: str
) -> None:
    done = run(*words)
    assert (done.code, told in done.err) == (2, True), done.err


def test_a_console_at_a_port_in_use_names_the_way_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("console", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.code == 1
    assert "cannot be used: Address already in use\nNext:  name another port" in done.err


def test_damage_is_accepted_on_request_only(served: Served) -> None:
    run("serve", "--store", "/s")
    assert not served.accept_damage
    run("serve", "--store", "/s", "--accept-damage")
    assert served.accept_damage


def test_a_flag_beats_set_whatever_the_order(served: Served) -> None:
    run("serve", "--listen", "127.0.0.1:0", "--set", "listenPort=10911")
    assert served.config.rpc.listen == "127.0.0.1:0"
    assert served.config.broker.advertised_port == 10_911


def test_file_preset_and_environment_count(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[broker]\nname = "f"\n[store]\nflush = "sync"\n')
    run("serve", "-c", str(file), "--preset", "server", POCKETMQ__BROKER__NAME="e")
    config = served.config
    assert (config.broker.name, config.store.flush, config.preset) == ("e", "sync", "server")


def test_serve_reads_all_its_sources_again_and_dev_does_not(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[logs]\nlevel = "info"\n')
    run("serve", "-c", str(file), "--set", "retention.hours=5", POCKETMQ__BROKER__PERMISSION="4")
    file.write_text('[logs]\nlevel = "debug"\n[retention]\nhours = "9"\n')
    live = served.live
    live.reload()
    assert (live.config.logs.level, live.config.retention.hours) == ("debug", "05")
    run("dev")
    assert not served.live.is_live


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["serve", "--preset", "cloud"], "dev, edge, server"),
        (["serve", "--set", "flushDisktype=ASYNC_FLUSH"], "did you mean flushDiskType?"),
        (["dev", "--set", "nonsense=1"], "no setting has this name"),
    ],
)
def test_a_wrong_setting_is_exit_2_and_nothing_is_served(
    served: Served, tmp_path: Path, arguments: list[str], hint: str
) -> None:
    done = run(*arguments)
    assert (done.code, done.out, served.count) == (2, "", 0)
    assert hint in done.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_the_ready_line_is_json_and_the_exit_code_the_apps(served: Served, command: str) -> None:
    served.code = 74
    done = run(command)
    assert done.document == {"grpc": "127.0.0.1:1", "grpc_tls": None}
    assert (done.code, done.err) == (74, "")


def test_the_store_of_dev_is_there_while_it_runs_and_gone_afterwards(
    served: Served, tmp_path: Path
) -> None:
    assert run("dev").code == 0
    assert served.had_directory
    assert served.directory.parent == tmp_path
    assert [*tmp_path.iterdir()] == []
    done = run("dev", "--keep")
    assert served.directory.is_dir()
    assert str(served.directory) in done.err


def test_dev_takes_any_port_and_makes_topics(served: Served) -> None:
    run("dev")
    config = served.config
    assert (config.rpc.listen, config.http.listen) == ("127.0.0.1:0", "127.0.0.1:0")
    assert config.broker.auto_create_topics
    assert config.store.flush == "async"
    run("dev", "--port", "8081", "--set", "store.flush=sync", "--set", "brokerName=b7")
    config = served.config
    assert config.rpc.listen == "127.0.0.1:8081"
    assert (config.store.flush, config.broker.name) == ("sync", "b7")


@pytest.mark.parametrize("text", ["orders:letters", "a,,b", ":fifo"])
def test_dev_says_which_types_topics_have(served: Served, text: str) -> None:
    done = run("dev", "--topics", text)
    assert (done.code, served.count) == (2, 0)
    assert "types are delay, fifo, mixed, normal, priority, transaction" in done.err


def test_dev_tells_people_how_clients_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    introduce({"grpc": "127.0.0.1:4711"})
    told = capsys.readouterr()
    assert told.out == '{"grpc": "127.0.0.1:4711"}\n'
    assert 'ClientConfiguration("127.0.0.1:4711", Credentials())' in told.err
    assert "export POCKETMQ_ENDPOINT=127.0.0.1:4711" in told.err


@pytest.mark.parametrize(
    ("error", "code"), [(StoreLocked(path="/x"), 4), (IllegalConfig(field="x", why="y"), 2)]
)
def test_the_store_of_dev_goes_after_an_error_too(
    served: Served, tmp_path: Path, error: Exception, code: int
) -> None:
    served.error = error
    assert run("dev").code == code
    assert [*tmp_path.iterdir()] == []


def test_a_directory_that_cannot_be_used_is_exit_2_before_anything_is_served(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "README.md"
    file.touch()
    for place in (file, file / "store"):
        ended = run("serve", "--store", str(place))
        assert (ended.code, served.count) == (2, 0)
        assert f"store.directory: {file} is not a directory; name a directory" in ended.err
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    ended = run("serve", "--store", str(tmp_path / "a" / "store"))
    assert (ended.code, served.count) == (2, 0)
    assert f"{tmp_path} of user id {tmp_path.stat().st_uid} is not writable" in ended.err
    assert "run the broker as its owner" in ended.err


def test_the_error_of_an_option_names_it_and_the_next_step() -> None:
    ended = run("serve", "--tls-cert", "c.pem")
    assert ended.code == 2
    assert "rpc.tls_cert = c.pem (--tls-cert) and rpc.tls_key" in ended.err
    assert "Next:  name both files, each in PEM: --tls-cert FILE --tls-key FILE" in ended.err
