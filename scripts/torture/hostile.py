"""Hostile peers and mutated bytes, at length: the fast tier's cases, seed after seed.

An attack takes a twentieth of the seconds, 60 at most; its figures are those of the last round.
"""

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
SUFFERED: Final = re.compile(r"^\.?(.+), repro: SEED=\d+\n(own|grpcio): (.+)$", re.MULTILINE)
ATTACK_MAX_S: Final = 60.0
ATTACK_MIN_S: Final = 2.0
ATTACKS_MAX: Final = 40
ROUND_S: Final = 600
TEST_S: Final = 120
"""What a test may take beside its attack."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs rounds until the time is over; returns how many cases there were.

    Errors   AssertionError: what a round found, with its seed
    """
    counts: dict[str, int] = {}
    suffered: dict[str, str] = {}
    attack_s = min(ATTACK_MAX_S, max(ATTACK_MIN_S, budget.seconds / 20))
    rounds = 0
    while rounds == 0 or budget.left():
        seed = budget.seed + rounds
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-s", f"--timeout={TEST_S + 2 * attack_s}"),
                *(f"--basetemp={place / 'round'}", *TESTS),
            ],
            cwd=ROOT,
            env={**os.environ, "SEED": str(seed), "HOSTILE_S": str(attack_s)},
            capture_output=True,
            text=True,
            check=False,
            timeout=ROUND_S + ATTACKS_MAX * attack_s,
        )
        assert done.returncode == 0, f"repro: SEED={seed} pytest {' '.join(TESTS)}\n{done.stdout}"
        for count, what in COUNTED.findall(done.stdout):
            counts[what] = counts.get(what, 0) + int(count)
        for attack, transport, figures in SUFFERED.findall(done.stdout):
            suffered[f"{transport}: {attack}"] = figures
        rounds += 1
        budget.progress(f"{rounds} rounds, {counts}")
    return {"rounds": rounds, "attack s": attack_s, **counts, **suffered}
