"""`serve` turns its flags into settings; the rest is the app's."""

from pathlib import Path

import pytest

from broker import app
from broker.app import Announce
from broker.config.sections import Config
from tests.cli.command_line import Ran, run


class Served:
    """Stands for the app: keeps the settings, says one ready line, ends with a code."""

    def __init__(self) -> None:
        self.config = Config()
        self.code = 0

    def __call__(self, config: Config, announce: Announce, *, accept_damage: bool) -> int:
        self.config = config
        self.accept_damage = accept_damage
        announce({"grpc": "127.0.0.1:1", "grpc_tls": None})
        return self.code


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    made = Served()
    monkeypatch.setattr(app, "run_broker", made)
    return made


def serve(*arguments: str, **environment: str) -> Ran:
    return run("serve", *arguments, **environment)


def test_flags_are_settings(served: Served) -> None:
    serve("--store", "/s", "--listen", "0.0.0.0:1", "--http", "[::]:2", "--set", "maxIndexNum=9")
    config = served.config
    assert config.store.directory == "/s"
    assert config.rpc.listen == "0.0.0.0:1"
    assert config.http.listen == "[::]:2"
    assert config.store.index_entry_count_max == 9


def test_damage_is_accepted_on_request_only(served: Served) -> None:
    serve("--store", "/s")
    assert not served.accept_damage
    serve("--store", "/s", "--accept-damage")
    assert served.accept_damage


def test_a_flag_beats_set_whatever_the_order(served: Served) -> None:
    serve("--listen", "127.0.0.1:0", "--set", "listenPort=10911")
    assert served.config.rpc.listen == "127.0.0.1:0"
    assert served.config.broker.advertised_port == 10_911


def test_file_and_environment_count(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[broker]\nname = "f"\n[store]\nflush = "async"\n')
    serve("-c", str(file), POCKETMQ__BROKER__NAME="e")
    assert served.config.broker.name == "e"
    assert served.config.store.flush == "async"


def test_a_preset_is_a_set_of_defaults(served: Served) -> None:
    serve("--preset", "server", "--set", "store.flush=sync")
    assert served.config.preset == "server"
    assert served.config.store.commit_log_file_size_bytes == 1 << 30
    assert served.config.store.flush == "sync"


def test_an_unknown_preset_is_exit_2(served: Served) -> None:
    done = serve("--preset", "cloud")
    assert done.code == 2
    assert "dev, edge, server" in done.err


def test_the_ready_line_is_json_on_standard_output(served: Served) -> None:
    assert serve().document == {"grpc": "127.0.0.1:1", "grpc_tls": None}


def test_the_exit_code_is_the_apps(served: Served) -> None:
    served.code = 74
    assert serve().code == 74


def test_a_wrong_setting_is_exit_2_and_nothing_is_served(served: Served) -> None:
    done = serve("--set", "flushDisktype=ASYNC_FLUSH")
    assert done.code == 2
    assert "did you mean flushDiskType?" in done.err
    assert done.out == ""
