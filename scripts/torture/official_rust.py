"""RocketMQ's own client for Rust under the tests' cases, as far as it can do what they ask.

A battery as its build takes minutes of a core: 250 crates.
"""

import sys
from pathlib import Path
from subprocess import run
from typing import Any, Final

from tests.e2e.official.programs import PROGRAMS, Missing
from torture.budget import Budget, NotHere

ROOT: Final = Path(__file__).parents[2]
CASES: Final = "tests/e2e/official/rust_cases.py"


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Builds the client, and runs the cases; returns what pytest says at its end.

    Errors   AssertionError: a case failed. NotHere
    """
    try:
        PROGRAMS["rust"]()
    except Missing as why:
        raise NotHere(str(why)) from why
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", f"--basetemp={place / 't'}"]
    done = run([*command, CASES], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
    return {"cases": done.stdout.strip().splitlines()[-1]}
