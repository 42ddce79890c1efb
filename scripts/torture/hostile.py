"""Hostile peers and mutated bytes, at length: the fast tier's cases, seed after seed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from torture.budget import Budget

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = ("tests/faults/test_fuzz.py", "tests/faults/test_hostile_http2.py")
COUNTED: Final = re.compile(r"^\.?(\d+) (cases|requests|sets|stores|messages)", re.MULTILINE)
ROUND_S: Final = 600


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Run rounds until the time is over; returns how many cases there were.

    Errors   AssertionError: what a round found, with its seed
    """
    counts: dict[str, int] = {}
    rounds = 0
    while rounds == 0 or budget.left():
        seed = budget.seed + rounds
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", f"--basetemp={place / 'round'}", *TESTS],
            cwd=ROOT,
            env={**os.environ, "SEED": str(seed)},
            capture_output=True,
            text=True,
            check=False,
            timeout=ROUND_S,
        )
        assert done.returncode == 0, f"repro: SEED={seed} pytest {' '.join(TESTS)}\n{done.stdout}"
        for count, what in COUNTED.findall(done.stdout):
            counts[what] = counts.get(what, 0) + int(count)
        rounds += 1
        budget.progress(f"{rounds} rounds, {counts}")
    return {"rounds": rounds, **counts}
