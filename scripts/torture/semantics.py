"""Walks through everything that consumes, beside a model: seed after seed until time is up.

Each walk is one store on a simulated disk: sends, receives (in order too, by tag), acks, changes of
time, send backs, dead letters, restarts, kills between calls and within them, power cuts. What
fails is told as the calls that led to it.
"""

import logging
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fakes.consume_machine import COUNTED, ConsumeMachine
from torture.budget import Budget

WALKS: Final = 50
"""Of one seed."""
STEPS: Final = 60


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Walk; nothing is written below `place`: disks are in memory.

    Errors   AssertionError, or what escaped; its notes say what was done
    """
    COUNTED.clear()
    logging.disable(logging.CRITICAL)
    number = budget.seed * 1_000_000
    try:
        while budget.left():
            number += 1
            run_state_machine_as_test(
                seed(number)(ConsumeMachine),
                settings=settings(
                    max_examples=WALKS,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    derandomize=False,
                    suppress_health_check=list(HealthCheck),
                    phases=(Phase.generate,),
                ),
            )
            budget.progress(f"{COUNTED['walks']} walks")
    finally:
        logging.disable(logging.NOTSET)
    return {"seeds": number - budget.seed * 1_000_000, **dict(sorted(COUNTED.items()))}
