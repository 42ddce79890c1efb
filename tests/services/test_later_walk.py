"""All that delivers later, done in any order beside a model: clocks set, kills, power cuts too."""

import os
from collections import Counter
from typing import Final

import pytest

from tests.models.later_steps import walk

PIECES: Final = 4
WALKS: Final = int(os.environ.get("POCKETMQ_WALKS", "32")) // PIECES
"""Of a piece; scripts/torture/run semantics takes more of them."""
STEPS: Final = 50
ENOUGH: Final = 50
"""Of so many walks, everything is in some."""


# A kill finds jobs that had not begun.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", range(PIECES))
def test_whatever_is_done_each_message_comes_once_in_its_time_or_never(piece: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(WALKS):
        walk(piece * WALKS + number, STEPS, counts)
    assert counts["walks"] == WALKS
    if WALKS >= ENOUGH:
        for what in ("came", "rolled back", "recalled", "kills", "cut off", "asked"):
            assert counts[what] >= WALKS // 2, f"{what}: {counts[what]}"
        for what in ("jumps", "given up", "foreign decisions", "restarts", "power cuts"):
            assert counts[what], what
