"""Counters, gauges and histograms: plain numbers next to the code that changes them.

`metrics/` reads the numbers for each scrape. A change costs less than a microsecond.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

SECONDS_BUCKETS: Final[tuple[float, ...]] = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
)  # fmt: skip
COUNT_BUCKETS: Final[tuple[float, ...]] = (
    1.0,
    2.0,
    4.0,
    8.0,
    16.0,
    32.0,
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
)
MESSAGE_SIZE_BUCKETS: Final[tuple[float, ...]] = (
    1024.0,
    4096.0,
    524_288.0,
    1_048_576.0,
    2_097_152.0,
    4_194_304.0,
)
"""RocketMQ's bounds of message sizes, in bytes."""

LabelValues = tuple[str, ...]


class Counter:
    """A number that only grows, or one such number for each combination of label values."""

    __slots__ = ("help", "label_names", "name", "value", "values")

    def __init__(self, name: str, help: str, label_names: LabelValues = ()) -> None:
        self.name = name
        self.help = help
        self.label_names = label_names
        self.value = 0
        self.values: dict[LabelValues, int] = {}

    def add(self, labels: LabelValues, amount: int = 1) -> None:
        """Increases the series of these label values."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def forget(self, label_name: str, value: str) -> None:
        """Removes all series with this label value, for example of a deleted topic."""
        _forget(self.values, self.label_names, label_name, value)


class Gauge:
    """A number that is computed when metrics are read."""

    __slots__ = ("help", "label_names", "name", "read")

    def __init__(
        self,
        name: str,
        help: str,
        read: Callable[[], float | dict[LabelValues, float]],
        label_names: LabelValues = (),
    ) -> None:
        self.name = name
        self.help = help
        self.read = read
        self.label_names = label_names


class Histogram:
    """Counts of amounts by bucket, and the sum of all amounts."""

    __slots__ = ("_lowest", "buckets", "counts", "help", "labels", "name", "sum")

    def __init__(
        self,
        name: str,
        help: str,
        buckets: tuple[float, ...] = SECONDS_BUCKETS,
        labels: dict[str, str] | None = None,
    ) -> None:
        assert all(a < b for a, b in pairwise(buckets)), "bucket bounds are not ascending"
        self.name = name
        self.help = help
        self.buckets = buckets
        self._lowest = buckets[0]
        self.labels = labels or {}
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, amount: float) -> None:
        """Counts one amount."""
        if amount <= self._lowest:  # The usual case.
            self.counts[0] += 1
        else:
            self.counts[bisect_left(self.buckets, amount)] += 1
        self.sum += amount

    def observe_many(self, amount: float, count: int) -> None:
        """Counts one amount several times."""
        self.counts[bisect_left(self.buckets, amount)] += count
        self.sum += amount * count


class Histograms:
    """One histogram for each combination of label values."""

    __slots__ = ("buckets", "help", "label_names", "name", "series")

    def __init__(
        self, name: str, help: str, buckets: tuple[float, ...], label_names: LabelValues
    ) -> None:
        self.name = name
        self.help = help
        self.buckets = buckets
        self.label_names = label_names
        self.series: dict[LabelValues, Histogram] = {}

    def at(self, labels: LabelValues) -> Histogram:
        """Returns the histogram of these label values; creates it on the first call."""
        found = self.series.get(labels)
        if found is None:
            pairs = dict(zip(self.label_names, labels, strict=True))
            found = self.series[labels] = Histogram(self.name, self.help, self.buckets, pairs)
        return found

    def forget(self, label_name: str, value: str) -> None:
        """Removes all series with this label value."""
        _forget(self.series, self.label_names, label_name, value)


Stat = Counter | Gauge | Histogram | Histograms


def _forget(
    series: dict[LabelValues, Any], label_names: LabelValues, label_name: str, value: str
) -> None:
    if label_name in label_names:
        place = label_names.index(label_name)
        for labels in [labels for labels in series if labels[place] == value]:
            del series[labels]
