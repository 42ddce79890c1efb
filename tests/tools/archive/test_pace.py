"""A change is archived within the time that was asked for, as long as rounds are quick enough."""

import pytest

from pocketmq.tools.archive.pace import Pace


def longest(durations: list[float], every_s: float = 1.0) -> float:
    """Returns the longest time from the begin of a round to the end of the next one."""
    pace, begun, now, found = Pace(every_s), 0.0, 0.0, 0.0
    for number, duration in enumerate(durations):
        now += duration
        if number:
            found = max(found, now - begun)
        begun, now = now - duration, now + pace.pause(now - duration, now)
        if number:
            assert now > begun
    return found


@pytest.mark.parametrize("duration", [0.0, 0.04, 0.18, 0.4])
def test_rounds_of_one_duration(duration: float) -> None:
    assert 0.5 <= longest([duration] * 20) <= 1.0


def test_rounds_that_get_slower_slowly() -> None:
    assert longest([0.02 * 1.2**number for number in range(17)]) <= 1.0
    assert longest([0.02, 0.5] * 9) <= 1.0
    assert longest([0.02, 0.02, 0.5] * 9) <= 1.0, "one slow round among quick ones is in time"


def test_rounds_that_take_longer_than_the_time_follow_one_another() -> None:
    assert longest([2.0] * 5) == pytest.approx(4.05)
    assert Pace(5.0).pause(0.0, 9.0) == pytest.approx(0.25)
