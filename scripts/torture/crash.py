"""D1 at length: crash states of a store on a simulated disk, as tests/faults/test_power_cut.py.

Each worker takes lives of its own: worker n of N begins at seed + n. A violation is raised with the
life it was found in; `one_line` of tests/sim/crash_lives.py does that life once more.
"""

import logging
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.sim.crash_lives import Budgeted, live_on
from tests.sim.crash_recovery import Tally, figures
from torture.budget import Budget

LAP_SECONDS = 20.0
"""Processor time of a worker before it tells how far it is."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Returns figures; raises AssertionError with what was violated."""
    del place  # All of it happens in memory.
    total = Tally()
    lap = 0
    with ProcessPoolExecutor(budget.workers) as pool:
        while budget.left():
            seeds = [budget.seed + lap * budget.workers + n for n in range(budget.workers)]
            seconds = min(LAP_SECONDS, max(budget.seconds - budget.spent, 1.0))
            for found in pool.map(_lap, seeds, [seconds] * budget.workers):
                total.add(found)
            if total.violations:
                raise AssertionError("\n".join([str(figures(total)), *total.violations[:10]]))
            budget.progress(f"{total.states} crash states, {total.distinct} distinct")
            lap += 1
    rate = round(total.states / max(budget.spent, 1e-9))
    return figures(total) | {"call kinds": len(total.calls), "states a second": rate}


def _lap(seed: int, seconds: float) -> Tally:
    logging.disable(logging.CRITICAL)
    tally = Tally()
    live_on(tally, seed=seed, budget=Budgeted(seconds=seconds))
    return tally
