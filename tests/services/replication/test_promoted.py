"""Promotions instead of restarts, among all that consumers and producers do, beside a model."""

import os
from collections import Counter
from typing import Final

import pytest

from tests.models import consume_steps, later_steps
from tests.models.promoted import PromotedConsumeWalk, PromotedLaterWalk

WALKS: Final = int(os.environ.get("POCKETMQ_WALKS", "12")) // 2
"""Of a kind; scripts/torture/run semantics takes more of them."""
STEPS: Final = 50


@pytest.mark.timeout(300)
def test_a_promotion_loses_and_repeats_no_more_of_consuming_than_a_restart() -> None:
    counts: Counter[str] = Counter()
    for number in range(WALKS):
        consume_steps.walk(number, STEPS, counts, PromotedConsumeWalk)
    assert counts["walks"] == WALKS
    assert counts["promotions"] >= 2 * WALKS


# A kill finds jobs that had not begun.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.timeout(300)
def test_a_promotion_loses_and_repeats_no_delayed_message_and_no_transaction() -> None:
    counts: Counter[str] = Counter()
    for number in range(WALKS):
        later_steps.walk(number, STEPS, counts, PromotedLaterWalk)
    assert counts["walks"] == WALKS
    assert counts["promotions"] >= 2 * WALKS
