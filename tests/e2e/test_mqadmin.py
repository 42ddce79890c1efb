"""RocketMQ's mqadmin reads the broker as it is, with the broker's port as its name server."""

import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pocketmq.wire.remoting import Command, encode
from tests.e2e.daemon import Daemon, pocketmq
from tests.e2e.official.classic import classic_program
from tests.rpc.classic.consumer import heartbeat

RUN_S: Final = 300
COMMANDS: Final = {
    "clusterList": "broker-a",
    "brokerStatus -b {at}": "putTps",
    "getBrokerConfig -b {at}": "brokerPermission",
    "topicList": "orders",
    "topicStatus -t orders": "broker-a",
    "topicRoute -t orders": "readQueueNums",
    "getConsumerConfig -g readers": "consumeFromMinEnable",
    "consumerProgress -g readers": "Consume Diff Total: 1",
    "consumerProgress -g idle": "Consume Diff Total: 2",
    "consumerProgress": "readers",
    "statsAll -t orders": "readers",
    "haStatus -b {at}": "Master",
    "getNamesrvConfig": "orderMessageEnable",
    "producer -b {at}": "CLIENT_INNER_PRODUCER",
    "consumerConnection -g readers": "CLUSTERING",
}
"""Command -> a text that it prints."""


def mqadmin(classes: str, home: Path, at: str) -> "subprocess.CompletedProcess[str]":
    """Runs the commands on a broker, in one JVM."""
    lines = [f"{command.format(at=at)} -n {at}".split() for command in COMMANDS]
    words = [word for line in lines for word in (*line, "--")]
    return subprocess.run(
        ("java", f"-Duser.home={home}", "-Xmx256m", "-cp", classes, "Admin", *words),
        capture_output=True, text=True, check=False, timeout=RUN_S,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["5.5.0", "5.3.3"])
def test_commands_that_read(tmp_path: Path, version: str) -> None:
    classes = classic_program(version, "Admin.java", "rocketmq-tools")
    with Daemon(tmp_path / "store") as daemon:
        at = daemon.endpoint
        for command in (
            "topic create orders --queues 1", "group create readers", "produce orders a",
            "produce orders b", "group reset readers --topic orders --to 1 --yes",
            "group create idle", "group reset idle --topic orders --to 0 --yes",
        ):  # fmt: skip
            done = pocketmq(*command.split(), "--endpoint", at)
            assert done.code == 0, done.err
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(encode(Command(34, {}, heartbeat("readers", "orders"))))
            assert client.recv(4)  # It is a member, and its retry topic exists.
            done_all = mqadmin(classes, tmp_path, at)
    told = [part.partition("\n") for part in done_all.stdout.split("== ")[1:]]
    assert [name for name, _, _ in told] == [command.split()[0] for command in COMMANDS]
    shown = {
        command: expected in text
        for (command, expected), (_, _, text) in zip(COMMANDS.items(), told, strict=True)
    }
    assert all(shown.values()), (shown, done_all.stdout[-6_000:], done_all.stderr[-3_000:])
    assert "Exception" not in done_all.stdout + done_all.stderr
