"""Header blocks, frames and conversations by chance, against hpack, hyperframe and h2, at length.

The generators are those of tests/wire/test_chance.py, from other seeds. Of ten cases about eight
are header blocks, as a conversation costs as much as hundreds of them.
"""

from pathlib import Path
from random import Random
from typing import Any, Final

from pocketmq.native import why_not_compiled
from tests.wire.cases import block_case, conversation_case, frames_case, time_limit
from torture.budget import Budget

PORTION: Final = 50
"""Seeds that one process takes at a time."""
BLOCK_ROUNDS: Final = 16
HANG_S: Final = 120.0
Counts = tuple[int, int, int]


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs cases until the time is over or there were enough; returns how many.

    Errors   AssertionError: what went wrong, with its seed
    """
    blocks = frames = conversations = 0
    seeds = range(budget.seed << 32, (budget.seed << 32) + budget.cases)
    for some in budget.in_portions(seeds, PORTION, _portion):
        blocks, frames, conversations = (
            sum(pair) for pair in zip((blocks, frames, conversations), some, strict=True)
        )
        budget.progress(f"{blocks} blocks, {frames} frame sequences, {conversations} conversations")
        if blocks + frames + conversations >= budget.cases:
            break
    return {
        "cases": blocks + frames + conversations,
        "header blocks": blocks,
        "frame sequences": frames,
        "conversations": conversations,
        "form": why_not_compiled() or "compiled",
    }


def _portion(seeds: list[int]) -> Counts:
    """Runs the cases of some seeds; returns how many blocks, frame sequences and conversations."""
    blocks = frames = conversations = 0
    for seed in seeds:
        with time_limit(HANG_S):
            try:
                for at in range(BLOCK_ROUNDS):
                    blocks += block_case(Random((seed << 8) + at))
                frames += frames_case(Random(seed))
                frames += frames_case(Random(-seed))
                conversations += conversation_case(Random(seed))
            except Exception as error:
                raise AssertionError(f"seed {seed}") from error
    return blocks, frames, conversations
