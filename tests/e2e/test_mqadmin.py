"""RocketMQ's mqadmin reads the broker as it is, with the broker's port as its name server."""

import subprocess
from pathlib import Path
from typing import Final

from tests.e2e.daemon import Daemon, pocketmq
from tests.e2e.official.classic import classic_program

VERSION: Final = "5.5.0"
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
    "consumerProgress": "readers",
    "statsAll -t orders": "readers",
    "haStatus -b {at}": "Master",
    "getNamesrvConfig": "orderMessageEnable",
}
"""Command -> a text that it prints."""


def test_commands_that_read(tmp_path: Path) -> None:
    classes = classic_program(VERSION, "Admin.java", "rocketmq-tools")
    with Daemon(tmp_path / "store") as daemon:
        at = daemon.endpoint
        for command in (
            "topic create orders --queues 1", "group create readers", "produce orders a",
            "produce orders b", "group reset readers --topic orders --to 1 --yes",
        ):  # fmt: skip
            done = pocketmq(*command.split(), "--endpoint", at)
            assert done.code == 0, done.err
        lines = [f"{command.format(at=at)} -n {at}".split() for command in COMMANDS]
        words = [word for line in lines for word in (*line, "--")]
        done_all = subprocess.run(
            ("java", f"-Duser.home={tmp_path}", "-Xmx256m", "-cp", classes, "Admin", *words),
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    told = [part.partition("\n") for part in done_all.stdout.split("== ")[1:]]
    assert [name for name, _, _ in told] == [line[0] for line in lines]
    shown = {
        command: expected in text
        for (command, expected), (_, _, text) in zip(COMMANDS.items(), told, strict=True)
    }
    assert all(shown.values()), (shown, done_all.stdout[-6_000:], done_all.stderr[-3_000:])
    assert "Exception" not in done_all.stdout + done_all.stderr
