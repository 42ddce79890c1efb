"""Counters, gauges and histograms count and nothing more; clocks agree with the machine."""

import time

import pytest

from pocketmq.model.stats import (
    COUNT_BUCKETS,
    SECONDS_BUCKETS,
    Counter,
    Gauge,
    Histogram,
    Histograms,
)
from pocketmq.model.step import SystemClock


def test_a_counter_starts_at_zero_and_is_moved_by_hand() -> None:
    counter = Counter("puts", "Messages put.")
    counter.value += 3
    assert (counter.value, counter.values, counter.label_names) == (3, {}, ())


def test_a_counter_keeps_one_number_per_combination_of_labels() -> None:
    counter = Counter("puts", "Messages put.", ("topic", "status"))
    counter.add(("a", "ok"))
    counter.add(("a", "ok"), 4)
    counter.add(("b", "ok"), 0)
    assert counter.values == {("a", "ok"): 5, ("b", "ok"): 0}


def test_a_gauge_is_read_when_somebody_looks_and_may_have_several_numbers() -> None:
    queue: list[str] = []
    gauge = Gauge("waiting", "Waiting requests.", lambda: float(len(queue)))
    before = gauge.read()
    queue.append("one")
    assert (before, gauge.read()) == (0.0, 1.0)
    several = Gauge("lag", "Lag.", lambda: {("q0",): 2.0}, ("queue",))
    assert (several.read(), several.label_names) == ({("q0",): 2.0}, ("queue",))


@pytest.mark.parametrize(
    ("amount", "bucket"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (2.1, 2), (99.0, 2)]
)
def test_an_amount_falls_into_the_first_bucket_that_reaches_it(amount: float, bucket: int) -> None:
    histogram = Histogram("sizes", "Batch sizes.", (1.0, 2.0))
    histogram.observe(amount)
    assert histogram.counts == [int(number == bucket) for number in range(3)]


def test_a_histogram_sums_what_it_counted_and_shares_nothing() -> None:
    histogram = Histogram("seconds", "Time.", labels={"method": "send"})
    other = Histogram("b", "B.")
    for amount in (0.25, 0.5, 64.0):
        histogram.observe(amount)
    assert (histogram.sum, sum(histogram.counts), histogram.counts[-1]) == (64.75, 3, 1)
    histogram.labels["x"] = "y"
    assert histogram.labels == {"method": "send", "x": "y"}
    assert (sum(other.counts), other.labels, Histogram("c", "C.").labels) == (0, {}, {})


@pytest.mark.parametrize("buckets", [SECONDS_BUCKETS, COUNT_BUCKETS])
def test_buckets_rise(buckets: tuple[float, ...]) -> None:
    assert list(buckets) == sorted(set(buckets))


def test_an_amount_may_count_several_times_at_once() -> None:
    histogram = Histogram("sizes", "Sizes.", (10.0, 20.0))
    histogram.observe_many(15.0, 3)
    assert histogram.counts == [0, 3, 0]
    assert histogram.sum == 45.0


def test_histograms_are_one_per_combination_of_labels() -> None:
    sizes = Histograms("sizes", "Sizes.", (10.0,), ("topic", "kind"))
    sizes.at(("a", "x")).observe(1.0)
    assert sizes.at(("a", "x")).sum == 1.0
    assert sizes.at(("b", "x")).sum == 0.0
    assert sizes.at(("a", "x")).labels == {"topic": "a", "kind": "x"}
    assert list(sizes.series) == [("a", "x"), ("b", "x")]


def test_series_of_what_is_gone_are_forgotten() -> None:
    counter = Counter("puts", "Messages put.", ("topic", "status"))
    sizes = Histograms("sizes", "Sizes.", (10.0,), ("topic", "kind"))
    for topic in ("a", "b"):
        counter.add((topic, "a"))
        sizes.at((topic, "a"))
    for stat in (counter, sizes):
        stat.forget("topic", "a")
        stat.forget("group", "b")
    assert list(counter.values) == [("b", "a")]
    assert list(sizes.series) == [("b", "a")]


def test_wall_time_is_in_milliseconds_since_1970() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().wall_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_monotonic_time_is_in_milliseconds_and_never_goes_back() -> None:
    before = time.monotonic_ns() // 1_000_000
    now = SystemClock().monotonic_ms()
    assert before <= now <= time.monotonic_ns() // 1_000_000
