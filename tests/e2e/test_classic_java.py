"""RocketMQ's classic client for Java works as it is, with the broker's port as its name server."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import classic_program

RUN_S: Final = 500
CASES: Final = [
    "push by tag", "two members share", "the rest takes over", "retry", "dead letter by pull",
    "orderly", "broadcast", "lite pull", "push by sql",
]  # fmt: skip


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_consumers_for_java(tmp_path: Path, version: str) -> None:
    classes = classic_program(version, "Classic.java")
    with Daemon(tmp_path / "store") as daemon:
        done = subprocess.run(
            ("java", f"-Duser.home={tmp_path}", "-Xmx256m", "-cp", classes, "Classic",
             daemon.endpoint),
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert told == [f"ok {name}" for name in CASES], done.stderr[-2_000:]
