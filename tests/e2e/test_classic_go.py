"""RocketMQ's classic client for Go works as it is, with the broker's port as its name server."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.official.classic import OWN
from tests.e2e.official.programs import Missing, built, need, run

RUN_S: Final = 120
CASES: Final = [
    "admin create", "admin list", "admin delete",
    "sync", "async", "batch", "delay", "sends arrive", "refused",
    "one queue a sharding key", "orderly",
    "transaction", "check back",
    "push by tag", "two members share", "the rest takes over",
    "delivered", "retry",
    "broadcast, first member", "broadcast, second member",
    "pull", "pull from an offset", "poll", "stored offset",
]  # fmt: skip
"""Names of main.go; "sends arrive" contains the message sent one-way."""


def classic_go() -> Path:
    """Returns the program, built with the client that its go.mod names.

    Errors   Missing
    """
    need("go")
    source = OWN / "go"
    names = ("go.mod", "go.sum", "main.go")

    def build(folder: Path) -> None:
        run("go", "build", "-o", str(folder / "client"), ".", where=source)

    return built("classic-go", [source / name for name in names], build) / "client"


def test_the_client_for_go(tmp_path: Path) -> None:
    try:
        program = classic_go()
    except Missing as why:
        pytest.skip(str(why))
    with Daemon(tmp_path / "store", "--set", "transactions.timeout_ms=1s") as daemon:
        done = subprocess.run(
            (str(program), daemon.endpoint, str(tmp_path / "client.log")),
            env={**os.environ, "HOME": str(tmp_path)},  # Broadcasting members keep offsets there.
            capture_output=True, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    told = sorted(line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed ")))
    assert told == sorted(f"ok {name}" for name in CASES), done.stderr[-2_000:]
