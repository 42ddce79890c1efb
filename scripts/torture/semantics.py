"""Walks through what messages mean, beside models: seed after seed until time is up.

Each walk is one store on a simulated disk, with restarts, kills between calls and within them,
power cuts. By turns
    consuming    sends, receives (in order too, by tag, again by their attempt, such as wait, such
                 as renew themselves), acks, changes of time, send backs, dead letters and their
                 redrive, resets
    later        messages that wait for a delay level or a time, some recalled; transactions decided
                 in time, late, twice and by strangers; clocks set by a second to thirty days

What fails is told as the calls that led to it.
"""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.models import consume_steps, later_steps
from torture.budget import Budget

STEPS: Final = 60


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Walks; nothing is written below `place`: disks are in memory.

    Errors   AssertionError, or what escaped; its notes say what was done
    """
    consuming, later = Counter[str](), Counter[str]()
    logging.disable(logging.CRITICAL)
    seed = budget.seed * 10_000_000
    try:
        while budget.left():
            consume_steps.walk(seed, STEPS, consuming)
            later_steps.walk(seed, STEPS, later)
            seed += 1
            budget.progress(f"{consuming['walks']} + {later['walks']} walks")
    finally:
        logging.disable(logging.NOTSET)
    return {"consuming": dict(sorted(consuming.items())), "later": dict(sorted(later.items()))}
