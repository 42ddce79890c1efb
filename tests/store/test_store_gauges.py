"""Gauges of a store: computed when somebody looks, never below 0."""

import pytest

from broker.store.store_gauges import STATES, store_gauges


class Numbers:
    """A store as metrics see it."""

    def __init__(self) -> None:
        self.state = "running"
        self.appended = 1_000
        self.flushed = 900
        self.dispatched = 700
        self.behind_count = 3


def read(numbers: Numbers, name: str) -> object:
    (gauge,) = [gauge for gauge in store_gauges(numbers) if gauge.name == name]
    return gauge.read()


def test_exactly_one_state_is_1() -> None:
    numbers = Numbers()
    for state in STATES:
        numbers.state = state
        assert read(numbers, "pocketmq_store_state") == {
            (other,): float(other == state) for other in STATES
        }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rocketmq_storage_dispatch_behind_bytes", 300.0),
        ("rocketmq_storage_flush_behind_bytes", 100.0),
        ("pocketmq_reput_behind_bytes", 300.0),
        ("pocketmq_reput_behind_messages", 3.0),
    ],
)
def test_distances_between_the_marks(name: str, value: float) -> None:
    assert read(Numbers(), name) == value


def test_a_distance_is_never_negative() -> None:
    numbers = Numbers()
    numbers.dispatched = numbers.flushed = 2_000
    assert read(numbers, "rocketmq_storage_dispatch_behind_bytes") == 0.0
    assert read(numbers, "rocketmq_storage_flush_behind_bytes") == 0.0


def test_gauges_look_at_the_moment_they_are_read() -> None:
    numbers = Numbers()
    gauges = {gauge.name: gauge for gauge in store_gauges(numbers)}
    numbers.appended = 5_000
    assert gauges["pocketmq_reput_behind_bytes"].read() == 4_300.0
