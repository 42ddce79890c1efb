"""Percentiles are at most a sixteenth too high, for any latencies."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.cli.latencies import Latencies, bucket_of, end_of


@given(st.integers(0, 1 << 50))
def test_a_bucket_ends_at_most_a_sixteenth_above_its_values(value: int) -> None:
    end = end_of(bucket_of(value))
    assert value <= end <= value + value // 16
    assert bucket_of(end) == bucket_of(value)
    assert bucket_of(end + 1) == bucket_of(value) + 1


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.integers(1, 1000))
def test_a_percentile_is_that_of_the_sorted_values(values: list[int], permille: int) -> None:
    found = Latencies()
    for value in values:
        found.add(value)
    exact = sorted(values)[ceil(len(values) * permille / 1000) - 1]
    assert exact <= found.percentile(permille / 10) <= exact + exact // 16
    assert found.percentile(100) == found.max_us == max(values)
    assert found.mean_us == round(sum(values) / len(values))
    assert sum(one.calls for one in found.histogram()) == len(values)


def test_without_calls_all_figures_are_0() -> None:
    found = Latencies()
    assert (found.percentile(99), found.mean_us, found.max_us, found.histogram()) == (0, 0, 0, [])


def test_a_histogram_has_a_bar_for_each_power_of_two_between_the_first_and_the_last() -> None:
    found = Latencies()
    found.add(5, count=3)
    found.add(40)
    bars = [tuple(one) for one in found.histogram()]
    assert bars == [(4, 7, 3), (8, 15, 0), (16, 31, 0), (32, 63, 1)]
