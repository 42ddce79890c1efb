"""The units are sound and closed, and a broker reports to a supervisor as sd_notify(3) says."""

import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import Daemon

UNITS: Final = Path(__file__).resolve().parents[2] / "conf" / "systemd"
PROGRAM: Final = "/opt/pocketmq/bin/pocketmq"
EXPOSURE_MAX: Final = 3.0
PATIENCE_S: Final = 60
NOTIFYING: Final = """
import os, sys
os.environ.update(NOTIFY_SOCKET=sys.argv[1], WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that runs a command as systemd runs one of Type=notify."""


def analyzed(*words: str) -> str:
    """Returns what systemd-analyze says."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    done = subprocess.run(
        [program, "--no-pager", *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in UNITS.iterdir():
        text = path.read_text("utf-8")
        (tmp_path / path.name).write_text(text.replace(PROGRAM, "/bin/true"), "utf-8")
    names = sorted(str(path) for path in tmp_path.iterdir())
    assert [Path(name).name for name in names] == ["pocketmq.service", "pocketmq.socket"]
    assert analyzed("verify", *names) == ""


def test_the_service_is_closed() -> None:
    told = analyzed("security", "--offline=true", str(UNITS / "pocketmq.service"))
    found = re.search(r"Overall exposure level for pocketmq\.service: ([\d.]+)", told)
    assert found is not None, told
    assert float(found[1]) <= EXPOSURE_MAX


def test_a_supervisor_hears_of_every_state(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE_S)

        def heard_until(word: str) -> list[str]:
            texts: list[str] = []
            while not texts or not texts[-1].startswith(word):
                texts.append(listening.recv(4096).decode())
            return texts

        tracer = ("python3", "-c", NOTIFYING, str(tmp_path / "notify"))
        with Daemon(tmp_path / "store", tracer=tracer) as broker:
            assert any("EXTEND_TIMEOUT_USEC=" in text for text in heard_until("READY=1"))
            broker.signal(signal.SIGHUP)
            assert any(text.startswith("RELOADING=1") for text in heard_until("READY=1"))
            assert "STATUS=running" in heard_until("WATCHDOG=1")[-1]
            assert broker.stop() == 0
            heard_until("STOPPING=1")
