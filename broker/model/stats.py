"""Counters, gauges and histograms: plain numbers beside the code that moves them.

`metrics/` reads them at scrape time; nothing here knows Prometheus. Moving one costs a few tens
of nanoseconds, so the hot path may.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

SECONDS_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
)  # fmt: skip
COUNT_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

LabelValues = tuple[str, ...]


class Counter:
    """A number that grows, or one per combination of label values."""

    __slots__ = ("help", "label_names", "name", "value", "values")

    def __init__(self, name: str, help: str, label_names: LabelValues = ()) -> None:
        self.name = name
        self.help = help
        self.label_names = label_names
        self.value = 0
        self.values: dict[LabelValues, int] = {}

    def add(self, labels: LabelValues, amount: int = 1) -> None:
        """Raise the series of these label values."""
        self.values[labels] = self.values.get(labels, 0) + amount


class Gauge:
    """A number that is asked for when somebody looks."""

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
    """How often an amount fell into each bucket, and the sum of all amounts."""

    __slots__ = ("buckets", "counts", "help", "labels", "name", "sum")

    def __init__(
        self,
        name: str,
        help: str,
        buckets: tuple[float, ...] = SECONDS_BUCKETS,
        labels: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.help = help
        self.buckets = buckets
        self.labels = labels or {}
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, amount: float) -> None:
        """Count one amount."""
        self.counts[bisect_left(self.buckets, amount)] += 1
        self.sum += amount
