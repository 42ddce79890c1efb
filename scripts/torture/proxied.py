"""Official clients on PocketMQ behind RocketMQ's own proxy, as long as there is time.

The cases are those of the clients' own tests; tests/e2e/official/proxied.py names the ones that the
proxy does not pass on. Requires a JRE 17, Maven or the jars, and what the clients need.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from harness.budget import Budget
from harness.process import ROOT, environment
from tests.e2e.official.proxied import LEFT_OUT
from torture.moving_in import jars_here

CASES: Final = "tests/e2e/official/proxied.py"
ROUND_S: Final = 1_200
COUNTED: Final = re.compile(r"(\d+) (passed|failed|skipped|error)")


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs rounds of all cases; returns how many passed.

    Errors   NotHere; AssertionError: a case failed
    """
    jars_here()
    counts: Counter[str] = Counter()
    for number, _ in enumerate(budget.seeds()):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", CASES),
                *("-k", f"not ({' or '.join(LEFT_OUT)})"),
                f"--basetemp={place / f'round-{number}'}",
            ],
            cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
            timeout=ROUND_S,
        )  # fmt: skip
        assert done.returncode == 0, f"repro: pytest {CASES}\n{done.stdout}"
        counts["rounds"] += 1
        for count, what in COUNTED.findall(done.stdout.splitlines()[-1]):
            counts[f"cases {what}"] += int(count)
        budget.progress(f"{dict(counts)}")
    return {**counts, "left out": len(LEFT_OUT)}
