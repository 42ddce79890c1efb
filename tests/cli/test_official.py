"""`mqbroker` runs a broker by RocketMQ's words; the other programs say what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import run
from tests.cli.test_serve import Served, served

__all__ = ["served"]


def test_mqbroker_serves_by_its_files(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b7\nlistenPort=10911\nmaxTopicLength=9\n")
    words = ("-n", "ns:9876", "--enable-proxy", "-c", str(file))
    done = run("sh", "mqbroker", *words, "--set", "store.flush=sync", HOME="/h")
    assert done.code == 0, done.err
    config = served.config
    assert (config.broker.name, config.rpc.listen) == ("b7", "0.0.0.0:8081")
    assert (config.store.directory, config.store.flush) == ("/h/store", "sync")
    assert any("maxTopicLength" in warning for warning in config.warnings)
    assert served.live.is_live


def test_mqbroker_without_a_file_has_rocketmqs_defaults(served: Served) -> None:
    run("mqbroker", HOME="/h")
    assert (served.config.preset, served.config.access.check) == ("server", "users")
    run("mqbroker", "--insecure", HOME="/h", POCKETMQ_PRESET="edge")
    assert (served.config.preset, served.config.access.check) == ("edge", "off")


def test_the_first_admin_of_the_file_is_handed_on(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text('initAuthenticationUser={"username":"root","password":"s"}\n')
    for name in ("POCKETMQ_ADMIN_USER", "POCKETMQ_ADMIN_SECRET"):
        monkeypatch.delenv(name, raising=False)
    run("mqbroker", "-c", str(file), HOME="/h")
    assert served.count == 1
    handed = {
        name: os.environ.pop(name) for name in ("POCKETMQ_ADMIN_USER", "POCKETMQ_ADMIN_SECRET")
    }
    assert handed == {"POCKETMQ_ADMIN_USER": "root", "POCKETMQ_ADMIN_SECRET": "s"}


def test_p_prints_the_settings_and_serves_nothing(served: Served) -> None:
    done = run("mqbroker", "-p", HOME="/h")
    assert (done.code, served.count) == (0, 0)
    assert "/h/store" in done.out


def test_a_name_server_waits_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "pocketmq", "sh", "mqnamesrv", "-p"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "PocketMQ needs no name server" in process.stderr.readline()
        process.terminate()
        assert process.wait(60) == 0


def test_a_proxy_is_told_what_to_do() -> None:
    done = run("sh", "mqproxy", "-pc", "/x.json")
    assert done.code == 2
    assert "remove the service of the proxy, and publish port 8081 of the broker" in done.err


def test_a_command_of_mqadmin_is_told_by_its_name_here() -> None:
    done = run("sh", "mqadmin", "updateTopic", "-n", "ns:9876", "-t", "orders")
    assert done.code == 2
    assert "use: pocketmq topic create" in done.err
