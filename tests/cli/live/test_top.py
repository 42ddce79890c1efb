"""Top is drawn on a terminal, and printed once elsewhere."""

import io
import sys

import pytest

from broker.cli.live import top as top_module
from broker.cli.live.snapshot import Snapshot, snapshot_document
from broker.cli.live.top import head_lines
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def busy(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Each interval a message comes in."""

    def pause(seconds: float) -> None:
        fake.fill(1)

    monkeypatch.setattr("time.sleep", pause)
    return fake


def test_a_pipe_gets_one_document(busy: FakeBroker) -> None:
    document = run("top").document
    assert [row["name"] for row in document["topics"]] == ["orders"]
    assert document["topics"][0]["in_per_s"] > 0
    assert document["store"]["state"] == "running"


def test_as_many_as_asked_for(busy: FakeBroker) -> None:
    rows = run("top", "--count", "2", "-o", "jsonl").rows
    assert [row["topics"][0]["message_count"] for row in rows] == [1, 2]


def test_a_table_without_a_terminal_is_plain(busy: FakeBroker) -> None:
    lines = run("top", "-o", "table").out.splitlines()
    assert lines[0].split() == ["TOPIC", "IN/S", "OUT/S", "LAG", "MESSAGES", "GROUPS"]
    assert lines[1].split()[0] == "orders"


def test_a_terminal_gets_a_picture(busy: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    top_module.top.main(
        ["--count", "1", "-o", "table"], standalone_mode=False, prog_name="pocketmq top"
    )
    drawn = screen.getvalue()
    assert "IN/S" in drawn
    assert "orders" in drawn
    assert "broker-a of DefaultCluster" in drawn


def test_ctrl_c_ends_the_picture(busy: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr("time.sleep", interrupt)
    top_module.top.main(["-o", "table"], standalone_mode=False, prog_name="pocketmq top")


def test_the_head_tells_of_the_store(fake: FakeBroker) -> None:
    moment = Snapshot(0.0, fake.status)
    text = "\n".join(head_lines(snapshot_document(moment, moment)))
    assert "disk 30.0 MB free of 100 MB" in text
    assert "log 3.0 kB, 0 B/s" in text
    assert "retention on" in text
