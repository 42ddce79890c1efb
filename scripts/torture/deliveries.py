"""Crashes at every step that takes a message on: seed after seed until time is up.

    timer ─ delay level ─ recall ─ commit, rollback, check back ─ receive, ack, revival, send back …

A kill -9 at each line of the broker that changed what lies on disk, power cuts at each call of the
disk; each state is started, and all that may come is compared with what was told: see
tests/sim/crash_deliveries.py. With async flush there are only kills: a power cut may take
what was answered.
"""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.sim.crash_deliveries import CASES, crashes, lived_on
from torture.budget import Budget

CUTS: Final = {"sync": 3, "async": 0}
"""At each call of the disk."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Crash; nothing is written below `place`: disks are in memory.

    Errors   AssertionError, or what escaped; its notes say where the crash came
    """
    states: Counter[str] = Counter()
    kills = rounds = 0
    logging.disable(logging.CRITICAL)
    try:
        while budget.left():
            for case in CASES:
                for flush, cuts in CUTS.items():
                    found = crashes(case, budget.seed * 1_000_000 + rounds, flush, cuts=cuts)
                    for crash in found:
                        lived_on(crash)
                    states[case] += len(found)
                    kills += sum(crash.point.is_kill for crash in found)
                    budget.progress(f"{states.total()} states")
            rounds += 1
    finally:
        logging.disable(logging.NOTSET)
    total = states.total()
    return {"rounds": rounds, "states": total, "kills": kills, "power cuts": total - kills} | {
        "by case": dict(states)
    }
