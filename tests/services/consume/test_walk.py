"""Everything that consumes, done in any order beside a model: restarts, kills, power cuts too."""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fakes.consume_machine import COUNTED, ConsumeMachine

WALKS: Final = int(os.environ.get("POCKETMQ_WALKS", "300"))
STEPS: Final = int(os.environ.get("POCKETMQ_WALK_STEPS", "50"))


@pytest.mark.timeout(600)
def test_whatever_is_done_each_message_is_consumed_as_its_group_was_told() -> None:
    COUNTED.clear()
    run_state_machine_as_test(
        ConsumeMachine,
        settings=settings(
            max_examples=WALKS,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        ),
    )
    assert COUNTED["walks"] >= WALKS
    for what in ("kills", "power cuts", "restarts", "settled", "refused", "dead letters"):
        assert COUNTED[what] >= WALKS // 2, f"{what}: {COUNTED[what]}"
