"""kill -9 while groups receive and acknowledge: what is done stays done, all else comes back."""

from pathlib import Path
from typing import Final

import pytest

from tests.faults.consuming_lives import ConsumingLives

KILLS: Final = 3
LEASES_MS: Final = (1_000,)
ATTEMPTS_MAX: Final = 2
"""Both are short: what is open in the end is waited for."""


@pytest.mark.timeout(200)
def test_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    lives = ConsumingLives(tmp_path, 1, LEASES_MS, ATTEMPTS_MAX)
    print(f"repro: scripts/torture/run kill --workload pop; {tmp_path}, seed 1")
    for number in range(KILLS):
        lives.live(number)
    lives.end()
    figures = lives.figures
    print(f"kills {dict(lives.kills)}, figures {dict(figures)}")
    assert lives.kills.total() == KILLS
    assert figures["deliveries"] > figures["acks answered"] > 0
