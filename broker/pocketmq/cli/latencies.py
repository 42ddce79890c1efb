"""Latencies of many calls in buckets of ascending limits: percentiles and a histogram.

Each power of two is divided into 16 buckets, so that a percentile is at most 1/16 too high. Some
hundreds of buckets suffice for microseconds to hours.
"""

from collections import Counter
from typing import Final, NamedTuple

PARTS: Final = 16
"""Buckets between a value and its double."""
PARTS_BITS: Final = 4


class Bar(NamedTuple):
    """One line of a histogram: calls between two latencies in µs."""

    from_us: int
    to_us: int
    calls: int


def bucket_of(value: int) -> int:
    """Returns the number of a value's bucket; values below 2 * PARTS have a bucket of their own."""
    assert value >= 0, "a negative latency"
    shift = max(value.bit_length() - PARTS_BITS - 1, 0)
    return (shift << PARTS_BITS) + (value >> shift)


def end_of(bucket: int) -> int:
    """Returns the largest value of a bucket."""
    shift = max((bucket >> PARTS_BITS) - 1, 0)
    return (((bucket - (shift << PARTS_BITS)) + 1) << shift) - 1


class Latencies:
    """Counts of latencies in µs."""

    __slots__ = ("_buckets", "count", "max_us", "sum_us")

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = self.sum_us = self.max_us = 0

    def add(self, latency_us: int, count: int = 1) -> None:
        """Adds calls of one latency."""
        self._buckets[bucket_of(latency_us)] += count
        self.count += count
        self.sum_us += latency_us * count
        self.max_us = max(self.max_us, latency_us)

    def percentile(self, percent: float) -> int:
        """Returns the latency in µs that this share of calls does not exceed; 0 without calls."""
        assert 0 < percent <= 100, "a percentile beyond 100"
        wanted, seen = self.count * percent / 100, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(end_of(bucket), self.max_us)
        return 0

    @property
    def mean_us(self) -> int:
        """The mean latency in µs; 0 without calls."""
        return round(self.sum_us / self.count) if self.count else 0

    def histogram(self) -> list[Bar]:
        """Returns the counts by powers of two in µs, from the first to the last with calls."""
        powers: Counter[int] = Counter()
        for bucket, count in self._buckets.items():
            powers[end_of(bucket).bit_length()] += count
        if not powers:
            return []
        return [
            Bar(1 << power >> 1, (1 << power) - 1, powers[power])
            for power in range(min(powers), max(powers) + 1)
        ]
