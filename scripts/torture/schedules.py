"""Schedules of the asyncio core, walks beside a model, churn: seed after seed until time is up."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.models.churn import ChurnTally, churn
from tests.models.model_walk import walk
from tests.sim.schedules import Tally, play
from torture.budget import Budget

STEPS: Final = 100
DELETES: Final = 40


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Plays all three by turns; nothing is written below `place`: disks are in memory.

    Errors   AssertionError, or what escaped; its notes say how to play it again
    """
    tally, churned, steps = Tally(), ChurnTally(), Counter[str]()
    logging.disable(logging.CRITICAL)
    seed = budget.seed * 10_000_000
    try:
        while budget.left():
            play(seed, tally)
            play(seed + 1_000_000, tally)
            walk(seed, STEPS, steps)
            if seed % 20 == 0:
                churn(seed, churned, deletes=DELETES)
            seed += 1
            budget.progress(f"{tally.schedules} schedules, {steps['walks']} walks")
    finally:
        logging.disable(logging.NOTSET)
    return {
        "schedules": tally.schedules,
        "operations": sum(tally.operations.values()),
        "awaits cancelled": sum(tally.cancelled.values()),
        "puts acknowledged, given up, of those stored": [
            tally.acknowledged, tally.given_up, tally.kept
        ],
        "walks beside the model": steps["walks"],
        "kills, power cuts, restarts": [steps["kill"], steps["cut"], steps["restart"]],
        "topics deleted under load": churned.deletes,
        "files expired under load": churned.expired_files,
    }  # fmt: skip
