"""SIGHUP, as a closed terminal sends it: `serve` reads its settings again, `dev` ends in order."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Daemon, Served


def events(log: Path, name: str) -> list[dict[str, Any]]:
    """Returns the lines of one event."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def hang_up(broker: Daemon) -> dict[str, Any]:
    """Sends SIGHUP and returns the line it is answered with."""
    names = ("config.reloaded", "config.refused")
    before = sum(len(events(broker.log, name)) for name in names)
    broker.signal(signal.SIGHUP)
    while True:
        found = [event for name in names for event in events(broker.log, name)]
        if len(found) > before:
            return max(found, key=lambda event: str(event["time"]))
        assert broker.page("/livez").status == 200


def test_serve_takes_over_what_is_live_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[limits]\nmax_message_size_bytes = 10\n")
    with Daemon(tmp_path / "store", "-c", str(file)) as broker:
        assert broker.ask("produce", "orders", "more than ten").code != 0

        file.write_text('[limits]\nmax_message_size_bytes = 100\n[store]\nflush = "async"\n')
        told = hang_up(broker)
        assert told["event"] == "config.reloaded"
        assert told["changed"] == "limits.max_message_size_bytes = 100"
        assert told["needs_restart"] == "store.flush = async"
        assert broker.ask("produce", "orders", "more than ten").code == 0

        file.write_text("[broker]\npermission = 9\n[limits]\nmax_message_size_bytes = 'x'\n")
        told = hang_up(broker)
        assert told["event"] == "config.refused"
        assert "broker.permission" in told["reason"]
        assert told["reason"].endswith(f"; and 1 more: pocketmq config check {file}")
        assert broker.ask("produce", "orders", "still taken").code == 0

        file.write_text("[broker]\npermission = 4\n")
        assert hang_up(broker)["changed"].startswith("broker.permission = 4")
        assert broker.ask("produce", "orders", "refused").code != 0
        page = broker.page("/metrics").text.splitlines()
        (line,) = [line for line in page if line.startswith("rocketmq_broker_permission{")]
        assert line.endswith(" 4.0")
        assert broker.stop() == 0
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_dev_ends_in_order_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    dev = Served(tmp_path / "dev.log")
    dev.start([sys.executable, "-m", "pocketmq", "dev"], env={"TMPDIR": str(scratch)})
    try:
        dev.serve()
        assert Path(dev.ready["store"]).parent == scratch
        dev.signal(number)
        if number == signal.SIGHUP:
            dev.signal(number)  # as a shell and the system send it when a terminal closes
        assert dev.wait() == 0
    finally:
        dev.end()
    assert [*scratch.iterdir()] == []
    (stopped,) = events(dev.log, "broker.stopped")
    assert stopped["signal"] == number.name


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_dev_leaves_nothing_when_it_is_told_to_end_while_it_begins(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "pocketmq", "dev"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={"TMPDIR": str(tmp_path)}) as dev:
        while not [*tmp_path.iterdir()]:
            assert dev.poll() is None
        dev.send_signal(number)
        assert dev.wait(60) in (0, 128 + number)
    assert [*tmp_path.iterdir()] == []
