"""Hostile classic clients by chance: each request is answered once, or its connection closed.

The battery `classic_frames` of scripts/torture runs more of the same.
"""

from random import Random

import pytest

from tests.kit.hostile_classic import hostile

CASES = 700


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("seed", range(2))
async def test_hostile_frames_are_answered_or_end_their_connection(seed: int, signs: bool) -> None:
    async with hostile(Random(seed), signs=signs) as lives:
        done = 0
        while done < CASES:
            done += await lives.one()
            await lives.sound()
    assert len(lives.kinds) > 10
    assert len(lives.codes) > 5
    assert lives.closed_count
    assert (lives.forged_count > 10) is signs
