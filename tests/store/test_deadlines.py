"""Deadlines come when their time has, in any number, and not when they were taken back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.store.deadlines import TICKS_PER_S, Deadlines


class Timer:
    """A timer of the loop below."""

    def __init__(self, at_s: float, call_back: Callable[[], None]) -> None:
        self.at_s = at_s
        self.call_back = call_back
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop whose time stands still until it is told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, at_s: float, call_back: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at_s, call_back))
        return self.timers[-1]

    def call_soon(self, call_back: Callable[..., None], *arguments: Any) -> None:
        self.call_at(self.now_s, lambda: call_back(*arguments))

    @property
    def armed(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.is_cancelled]

    def pass_to(self, now_s: float) -> None:
        """Advances the time, and runs the callbacks that are due on the way."""
        while due := [timer for timer in self.armed if timer.at_s <= now_s]:
            first = min(due, key=lambda timer: timer.at_s)
            self.now_s = max(self.now_s, first.at_s)
            self.timers.remove(first)
            first.call_back()
        self.now_s = now_s


def made() -> tuple[Any, Deadlines]:
    loop: Any = Loop()
    return loop, Deadlines(loop)


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=40))
def test_each_comes_in_its_tick_unless_it_was_taken_back(wanted: list[tuple[float, bool]]) -> None:
    loop, deadlines = made()
    came: dict[int, float] = {}
    for number, (after_s, is_removed) in enumerate(wanted):

        def come(number: int = number) -> None:
            assert number not in came
            came[number] = loop.now_s

        tick = deadlines.add(100.0 + after_s, come)
        if is_removed:
            deadlines.remove(tick, come)
    assert len(loop.armed) <= 1
    loop.pass_to(131.0)
    assert came.keys() == {n for n, (_, is_removed) in enumerate(wanted) if not is_removed}
    for number, at_s in came.items():
        assert 0 <= at_s - 100.0 - wanted[number][0] <= 2 / TICKS_PER_S
    assert loop.armed == []


def test_what_comes_may_add_and_take_back_others() -> None:
    loop, deadlines = made()
    came: list[str] = []

    def later() -> None:
        came.append("later")

    def never() -> None:
        came.append("never")

    taken_back = deadlines.add(105.0, never)

    def first() -> None:
        came.append("first")
        deadlines.remove(taken_back, never)
        deadlines.remove(-1, first)
        deadlines.add(104.0, later)

    deadlines.add(101.0, first)
    loop.pass_to(110.0)
    assert came == ["first", "later"]


def test_one_that_raises_keeps_no_other_from_coming() -> None:
    loop, deadlines = made()
    came: list[str] = []

    def fails() -> None:
        came.append("fails")
        raise LookupError

    for _ in range(3):
        deadlines.add(101.0, lambda: came.append("comes"))
        deadlines.add(101.0, fails)
    with pytest.raises(LookupError):
        loop.pass_to(110.0)
    assert came.count("fails") == 1
    loop.pass_to(110.0)
    assert sorted(came) == ["comes"] * 3 + ["fails"]


@given(st.lists(st.floats(0, 1e12), max_size=40))
def test_far_ones_are_late_by_little(wanted: list[float]) -> None:
    loop, deadlines = made()
    late: list[float] = []
    for after_s in wanted:
        deadlines.add(100.0 + after_s, lambda: late.append(loop.now_s - 100.0))
        allowed = 2 / TICKS_PER_S + after_s / 256
        loop.pass_to(100.0 + after_s + allowed)
        assert len(late) == 1
        assert -1e-3 <= late.pop() - after_s <= allowed
        loop.now_s = 100.0


def test_times_that_clients_name_take_no_memory_once_taken_back() -> None:
    loop, deadlines = made()
    for seconds in range(1, 200_000):
        at_s = 100.0 + seconds * 37
        deadlines.remove(deadlines.add(at_s, loop.time), loop.time)
    assert len(deadlines) <= 8_192


def test_after_the_end_nobody_is_called() -> None:
    loop, deadlines = made()
    deadlines.add(101.0, lambda: None)
    deadlines.close()
    assert loop.armed == []
