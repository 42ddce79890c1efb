"""A broker to try things with runs on an empty store that goes at the end."""

from pathlib import Path
from typing import Any

import pytest

from broker import app
from broker.config.sections import Config
from broker.model.errors import IllegalConfig, StoreLocked
from tests.cli.command_line import run


class FakeApp:
    """Notes what a broker would be run with, and whether its directory is there."""

    def __init__(self) -> None:
        self.config: Config | None = None
        self.was_there = False
        self.code = 0
        self.error: Exception | None = None

    def __call__(self, config: Config, announce: Any, *, accept_damage: bool) -> int:
        self.config = config
        self.was_there = Path(config.store.directory).is_dir()
        announce({"grpc": "127.0.0.1:1"})
        if self.error is not None:
            raise self.error
        return self.code

    @property
    def directory(self) -> Path:
        assert self.config is not None
        return Path(self.config.store.directory)


@pytest.fixture
def fake_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApp:
    fake = FakeApp()
    monkeypatch.setattr(app, "run_broker", fake)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return fake


def test_the_store_is_there_while_it_runs_and_gone_afterwards(
    fake_app: FakeApp, tmp_path: Path
) -> None:
    done = run("dev")
    assert (done.code, done.err) == (0, "")
    assert done.document == {"grpc": "127.0.0.1:1"}
    assert fake_app.was_there
    assert fake_app.directory.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_kept(fake_app: FakeApp) -> None:
    done = run("dev", "--keep")
    assert fake_app.directory.is_dir()
    assert str(fake_app.directory) in done.err


def test_left_to_itself_it_takes_any_port_and_makes_topics(fake_app: FakeApp) -> None:
    run("dev")
    config = fake_app.config
    assert config is not None
    assert (config.rpc.listen, config.http.listen) == ("127.0.0.1:0", "127.0.0.1:0")
    assert config.broker.auto_create_topics
    assert config.store.flush == "async"


def test_what_is_set_holds(fake_app: FakeApp) -> None:
    run("dev", "--port", "8081", "--set", "store.flush=sync", "--set", "brokerName=b7")
    config = fake_app.config
    assert config is not None
    assert config.rpc.listen == "127.0.0.1:8081"
    assert (config.store.flush, config.broker.name) == ("sync", "b7")


@pytest.mark.parametrize(
    ("error", "code"), [(StoreLocked(path="/x"), 4), (IllegalConfig(field="x", why="y"), 2)]
)
def test_the_store_goes_after_an_error_too(
    fake_app: FakeApp, tmp_path: Path, error: Exception, code: int
) -> None:
    fake_app.error = error
    assert run("dev").code == code
    assert list(tmp_path.iterdir()) == []


def test_its_exit_code_is_the_brokers(fake_app: FakeApp) -> None:
    fake_app.code = 74
    assert run("dev").code == 74


def test_a_setting_nobody_knows_leaves_nothing_behind(fake_app: FakeApp, tmp_path: Path) -> None:
    assert run("dev", "--set", "nonsense=1").code == 2
    assert list(tmp_path.iterdir()) == []
    assert fake_app.config is None
