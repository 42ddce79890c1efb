"""The machine's clocks agree with the machine."""

import time

from broker.model.clock import SystemClock


def test_wall_time_is_in_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().wall_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_monotonic_time_is_in_milliseconds_and_never_goes_back() -> None:
    before = time.monotonic_ns() // 1_000_000
    now = SystemClock().monotonic_ms()
    assert before <= now <= time.monotonic_ns() // 1_000_000
