"""RocketMQ's classic client for Java works as it is, with the broker's port as its name server."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pocketmq.wire.remoting import Command, CommandReader, encode
from tests.e2e.daemon import Daemon, pocketmq
from tests.e2e.official.classic import classic_program

RUN_S: Final = 500
CASES: Final = [
    "push by tag", "two members share", "the rest takes over", "retry", "dead letter by pull",
    "orderly", "broadcast", "lite pull", "push by sql",
]  # fmt: skip
OWN_CASES: Final = {"4.9.8": [], "5.3.3": ["pop by tag", "pop retry"]}
"""Cases of one version."""


def pops(endpoint: str, group: str, topic: str) -> None:
    """Lets a group pop, as mqadmin setConsumeMode does."""
    assert not pocketmq("topic", "create", topic, "--endpoint", endpoint).code
    mode = {"consumerGroup": group, "mode": "POP", "popShareQueueNum": -1, "topic": topic}
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(encode(Command(401, {}, json.dumps(mode).encode())))
        (reply,) = CommandReader(lambda code: 0).receive(connection.recv(4_096))
    assert isinstance(reply, Command)
    assert reply.code == 0, reply.remark


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_consumers_for_java(tmp_path: Path, version: str) -> None:
    classes = classic_program(version, "Classic.java")
    with Daemon(tmp_path / "store") as daemon:
        pops(daemon.endpoint, "popped", "Popped")
        done = subprocess.run(
            ("java", f"-Duser.home={tmp_path}", "-Xmx256m", "-cp", classes, "Classic",
             daemon.endpoint),
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert told == [f"ok {name}" for name in [*CASES, *OWN_CASES[version]]], done.stderr[-2_000:]
