"""How tests run a command in a process of its own: a lock is one between processes."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.cli.command_line import Ran

ROOT: Final = Path(__file__).parents[3]


def run_elsewhere(*arguments: str) -> Ran:
    """Runs `pocketmq ARGUMENTS` in another process."""
    done = subprocess.run(
        [sys.executable, "-m", "pocketmq", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)
