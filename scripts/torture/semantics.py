"""Walks through everything that consumes, beside a model: seed after seed until time is up.

Each walk is one store on a simulated disk: sends, receives (in order too, by tag, again by their
attempt, such as wait, such as renew themselves), acks, changes of time, send backs, dead letters
and their redrive, resets, restarts, kills between calls and within them, power cuts. What fails is
told as the calls that led to it.
"""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.fakes.consume_steps import walk
from torture.budget import Budget

STEPS: Final = 60


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Walk; nothing is written below `place`: disks are in memory.

    Errors   AssertionError, or what escaped; its notes say what was done
    """
    counts: Counter[str] = Counter()
    logging.disable(logging.CRITICAL)
    seed = budget.seed * 10_000_000
    try:
        while budget.left():
            walk(seed, STEPS, counts)
            seed += 1
            budget.progress(f"{counts['walks']} walks")
    finally:
        logging.disable(logging.NOTSET)
    return dict(sorted(counts.items()))
