"""Everything that consumes, done in any order beside a model: restarts, kills, power cuts too."""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fakes.consume_machine import COUNTED, ConsumeMachine

PIECES: Final = 4
WALKS: Final = int(os.environ.get("POCKETMQ_WALKS", "300")) // PIECES
"""Of a piece; scripts/torture/run semantics takes more of them."""
STEPS: Final = 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", range(PIECES))
def test_whatever_is_done_each_message_is_consumed_as_its_group_was_told(piece: int) -> None:
    COUNTED.clear()
    run_state_machine_as_test(
        seed(piece)(ConsumeMachine),
        settings=settings(
            max_examples=WALKS,
            stateful_step_count=STEPS,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
            # What fails is told as it was done: to shorten it takes minutes.
            phases=(Phase.generate,),
        ),
    )
    assert COUNTED["walks"] >= WALKS
    for what in ("kills", "power cuts", "restarts", "settled", "refused"):
        assert COUNTED[what] >= WALKS, f"{what}: {COUNTED[what]}"
    assert COUNTED["dead letters"]
