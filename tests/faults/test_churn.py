"""C4: topics that go, files that expire and files that are closed, under readers and writers."""

import os
from typing import Final

import pytest

from tests.models.churn import ChurnTally, churn

SEED: Final = int(os.environ.get("POCKETMQ_SEED", "2000000"))
DELETES: Final = 400
"""About 20 ms each, with all that goes on around it. scripts/torture/run schedules takes more."""
RUN: Final = 20


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("quiet")
def test_nobody_meets_anything_but_a_message_or_a_status() -> None:
    tally = ChurnTally()
    for seed in range(SEED, SEED + DELETES // RUN):
        churn(seed, tally, deletes=RUN)
    assert tally.deletes == DELETES
    assert tally.expired_files > DELETES // 2
    assert tally.messages > 10 * DELETES
    statuses = {"FOUND", "EXPIRED", "OFFSET_TOO_SMALL", "NO_NEW_MESSAGE", "OFFSET_OVERFLOW_BADLY"}
    assert statuses <= tally.statuses.keys()
