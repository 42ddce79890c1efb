"""Everything that consumes, done in any order beside a model: restarts, kills, power cuts too."""

import os
from collections import Counter
from typing import Final

import pytest

from tests.models.consume_steps import walk

PIECES: Final = 2
WALKS: Final = int(os.environ.get("POCKETMQ_WALKS", "48")) // PIECES
"""Of a piece; scripts/torture/run semantics takes more of them."""
STEPS: Final = 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", range(PIECES))
def test_whatever_is_done_each_message_is_consumed_as_its_group_was_told(piece: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(WALKS):
        walk(piece * WALKS + number, STEPS, counts)
    assert counts["walks"] == WALKS
    for what in ("kills", "power cuts", "restarts", "settled", "refused", "resets", "waits served"):
        assert counts[what] >= WALKS // 2, f"{what}: {counts[what]}"
    for what in (
        "dead letters", "redrives", "given again", "leaves order", "receives while off", "purged",
        "added queues", "removes", "new groups",
    ):  # fmt: skip
        assert counts[what], what
