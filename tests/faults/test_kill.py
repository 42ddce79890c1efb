"""kill -9, again and again: what was acknowledged is there afterwards, once, in its order.

The broker dies under load, while it starts, while it stops, and in the middle of system calls; the
next one starts with other options. See lives.py and history.py.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.faults.lives import LOAD, START, STOP, SYSCALL, Lives, can_trace

KILLS_MIN: Final = 22
"""`scripts/torture/run kill` kills for hours."""
ACKNOWLEDGED_MIN: Final = 10_000
"""On average a life is long enough for every kind of file to roll, half of a small one."""
ROUND: Final = (LOAD, START, LOAD, STOP, LOAD, SYSCALL, LOAD, START, SYSCALL, LOAD, STOP)
WHOLE_EVERY: Final = 8


def killed_again_and_again(place: Path, seed: int, ends: Sequence[str]) -> Lives:
    """Live and die as told, then compare everything."""
    print(f"repro: pytest tests/faults/test_kill.py, seed {seed}")
    lives, chance = Lives(place, seed), Random(seed)
    for number, ended_by in enumerate(ends):
        wanted = chance.choice([1, 300, 800, 2_500])
        lives.live(ended_by, wanted, whole=not number % WHOLE_EVERY)
    lives.end()
    return lives


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_survives_kills(tmp_path: Path, seed: int) -> None:
    if not can_trace():
        pytest.skip("strace is missing, or may not trace")
    lives = killed_again_and_again(tmp_path, seed, ROUND)
    figures = lives.history.figures
    print(f"kills {dict(lives.kills)}, figures {dict(figures)}")
    assert lives.kills.total() * 2 >= KILLS_MIN
    assert figures["acknowledged"] * 2 >= ACKNOWLEDGED_MIN
    assert figures["read"] > figures["acknowledged"] // 4
