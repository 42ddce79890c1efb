"""The wheel's clock goes on as it went, whatever is done to the wall clock."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.timer_layout import SHIFTS_MAX, ClockShift
from pocketmq.model.due_time import JUMP_MS
from pocketmq.model.step import Now
from pocketmq.store.timer.wheel_clock import WheelClock

HOUR_MS = 3_600_000
WALL_MS = 1_795_000_000_000
DAYS_MS = 400 * 24 * HOUR_MS


class World:
    """A wall clock that is set by hand, and messages that come, each with a time to wait."""

    def __init__(self) -> None:
        self.monotonic_ms = 0
        self.skew_ms = WALL_MS
        self.clock = WheelClock((ClockShift(),), 0, self.now(), 0, 0)
        self.due_ms: list[int] = []
        """By the monotonic clock."""
        self.says_ms: list[int] = []

    def now(self) -> Now:
        return Now(self.monotonic_ms, self.monotonic_ms + self.skew_ms)

    def look(self) -> bool:
        return self.clock.look(self.now(), len(self.due_ms))

    def come(self, wait_ms: int) -> None:
        self.look()
        self.due_ms.append(self.monotonic_ms + wait_ms)
        self.says_ms.append(self.now().wall_ms + wait_ms)

    def left_ms(self, begin: int = 0) -> list[tuple[int, int]]:
        """Returns how long messages have to wait: (by the wheel's clock, in truth)."""
        ahead_ms = self.clock.ahead_of(np.arange(begin, len(self.due_ms)))
        by_wheel = np.array(self.says_ms[begin:], np.int64) + ahead_ms - self.clock.now_ms
        truth = np.array(self.due_ms[begin:], np.int64) - self.monotonic_ms
        return list(zip(by_wheel.tolist(), truth.tolist(), strict=True))


JUMPS_MS = st.integers(-DAYS_MS, DAYS_MS).filter(lambda jump_ms: abs(jump_ms) > JUMP_MS)
STEPS = st.lists(
    st.tuples(st.integers(0, 60_000), st.just(0) | JUMPS_MS, st.integers(0, DAYS_MS)),
    max_size=SHIFTS_MAX - 1,
)


@given(STEPS)
def test_everything_waits_as_long_as_it_says(
    steps: list[tuple[int, int, int]],
) -> None:
    world = World()
    for pause_ms, jump_ms, wait_ms in steps:
        world.monotonic_ms += pause_ms
        world.look()
        world.skew_ms += jump_ms
        world.come(wait_ms)
        assert not world.look()
        assert all(by_wheel == truth for by_wheel, truth in world.left_ms())


@given(st.lists(JUMPS_MS, min_size=SHIFTS_MAX, max_size=3 * SHIFTS_MAX))
def test_however_often_it_is_set_nothing_is_early(jumps: list[int]) -> None:
    world = World()
    for jump_ms in jumps:
        world.skew_ms += jump_ms
        world.come(1_000)
    assert len(world.clock.shifts) <= SHIFTS_MAX
    assert all(by_wheel >= truth for by_wheel, truth in world.left_ms())


@given(STEPS)
def test_a_start_goes_on_by_what_was_written_down(steps: list[tuple[int, int, int]]) -> None:
    world = World()
    for pause_ms, jump_ms, wait_ms in steps:
        world.monotonic_ms += pause_ms
        world.skew_ms += jump_ms
        world.look()
        world.come(wait_ms)
        world.look()
        before = world.clock
        world.clock = WheelClock(before.shifts, before.now_ms, world.now(), 0, len(world.due_ms))
        assert world.clock.now_ms == before.now_ms
    assert all(by_wheel == truth for by_wheel, truth in world.left_ms())


def test_a_clock_set_back_while_no_broker_ran_does_not_turn_the_wheel_back() -> None:
    world = World()
    world.come(10_000)
    world.look()
    world.skew_ms -= HOUR_MS
    shifts, now_ms = world.clock.shifts, world.clock.now_ms
    world.clock = WheelClock(shifts, now_ms, world.now(), 1, 1)
    assert world.clock.now_ms == now_ms
    world.come(10_000)
    assert world.left_ms() == [(10_000, 10_000)] * 2


def test_a_slow_drift_is_no_jump_and_is_followed() -> None:
    world = World()
    for _ in range(200):
        world.monotonic_ms += 1_000
        world.skew_ms += 10
        assert not world.look()
    assert world.clock.now_ms == world.now().wall_ms


def test_shifts_that_nothing_unread_needs_are_forgotten() -> None:
    world = World()
    for _ in range(5):
        world.skew_ms += HOUR_MS
        world.come(1_000)
    counts = [len(world.clock.shifts)]
    for place in (3, 5):
        world.clock.forget(place)
        counts.append(len(world.clock.shifts))
        assert all(by_wheel == 1_000 for by_wheel, _ in world.left_ms(place))
    assert counts == [6, 2, 1]


def test_what_nobody_read_before_a_clock_set_back_and_a_start_is_not_early() -> None:
    world = World()
    world.come(10_000)
    shifts, now_ms = world.clock.shifts, world.clock.now_ms
    world.skew_ms -= HOUR_MS
    world.come(10_000)  # It was seen here, and the broker ended before that was written down.
    world.clock = WheelClock(shifts, now_ms, world.now(), 1, 2)
    assert world.left_ms() == [(10_000, 10_000)] * 2


def test_a_drift_back_makes_it_stand_and_not_go_back() -> None:
    world = World()
    world.monotonic_ms += 1_000
    assert not world.look()
    before_ms = world.clock.now_ms
    world.skew_ms -= JUMP_MS
    assert not world.look()
    assert world.clock.now_ms == before_ms
    world.monotonic_ms += 2 * JUMP_MS
    assert not world.look()
    assert world.clock.now_ms == world.now().wall_ms > before_ms
