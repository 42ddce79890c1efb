"""The machine's clocks agree with the machine, and a fake one can stand in for them."""

import time

from broker.model.clock import Clock, SystemClock


class FrozenClock:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def elapsed_ms(clock: Clock, since_ms: int) -> int:
    return clock.monotonic_ms() - since_ms


def test_wall_time_is_in_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().wall_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_monotonic_time_is_in_milliseconds_and_never_goes_back() -> None:
    before = time.monotonic_ns() // 1_000_000
    now = SystemClock().monotonic_ms()
    assert before <= now <= time.monotonic_ns() // 1_000_000


def test_any_clock_will_do() -> None:
    assert elapsed_ms(FrozenClock(250), 100) == 150
    assert elapsed_ms(SystemClock(), 0) > 0
