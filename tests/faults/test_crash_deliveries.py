"""kill -9 at every step that takes a message on: nothing is lost, comes twice, or comes early.

A step is a line of the broker that changed what lies on disk, or a call of the disk.
scripts/torture/run deliveries takes all of them, adds power cuts everywhere, and other orders of
tasks.
"""

from collections.abc import Iterator

import pytest

from tests.sim.crash_deliveries import CASES, COPIES, WRITTEN, Crash, crashes, lived_on

STATES_MIN = 3
"""Distinct ones of a case: before, with what it puts, and with all that follows."""

ONE_OF = 3
"""Of the states of a case so many are lived on from, the last one always."""


pytestmark = pytest.mark.usefixtures("quiet")
"""A crash is no news here."""


def some(found: list[Crash], first: int = 0) -> Iterator[Crash]:
    """Yields one in so many of the crashes, and the last one."""
    yield from found[first:-1:ONE_OF]
    yield found[-1]


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_a_kill_at_any_step_loses_nothing_and_brings_nothing_twice(case: str, flush: str) -> None:
    found = crashes(case, 7, flush, cuts=0)
    assert len(found) >= STATES_MIN
    for crash in some(found, flush == "async"):
        lived_on(crash)


@pytest.mark.parametrize("case", COPIES)
def test_a_power_cut_within_a_put_loses_nothing_and_leaves_one_copy_more_at_most(case: str) -> None:
    found = [crash for crash in crashes(case, 5001, "sync", cuts=5) if not crash.point.is_kill]
    assert len(found) >= STATES_MIN
    for crash in some(found):
        lived_on(crash)


def test_a_power_cut_that_takes_what_was_due_as_it_came_lets_it_come_again() -> None:
    """Messages behind it wait by the timer's log, which such a cut may leave."""
    found = crashes("delivered by the timer", 1_000_000_000_010, "sync", cuts=3)
    for crash in some([crash for crash in found if not crash.point.is_kill]):
        lived_on(crash)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("case", CASES | WRITTEN)
def test_no_other_file_is_ahead_of_the_log_in_what_it_says_is_settled(
    case: str, flush: str
) -> None:
    """At each call of the disk power is cut, and the log alone loses what was not synced."""
    found = crashes(case, 11, flush, cuts=0, is_log_behind=True)
    for crash in found if case in WRITTEN else some(found, flush == "async"):
        lived_on(crash)
