"""RocketMQ's starter for Spring Boot works as it is; the broker's port is its name server."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import classic_program, java_command

STARTER: Final = "2.3.1"
RUN_S: Final = 200
CASES: Final = [
    "sync send", "async and one-way send", "batch with headers", "delay", "order",
    "request and reply", "transaction", "retry",
]  # fmt: skip


@pytest.mark.timeout(240, func_only=True)
def test_the_starter_for_spring_boot(tmp_path: Path) -> None:
    classes = classic_program(STARTER, "Springs.java", "rocketmq-spring-boot-starter")
    with Daemon(tmp_path / "store") as daemon:
        done = subprocess.run(
            java_command(classes, "springs.Springs", daemon.endpoint, home=tmp_path),
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
        told = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
        assert told == [f"ok {name}" for name in CASES], done.stdout[-2_000:] + done.stderr[-500:]
        for name in ("Spring", "SpringOrdered", "SpringDecided"):
            assert daemon.ask("topic", "info", name).code == 0
