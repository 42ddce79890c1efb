"""The counters, gauges and histograms of all components, as Prometheus reads them.

A component owns its numbers (model/stats.py); they are read when somebody scrapes. RocketMQ's own
metrics (`rocketmq_…`) carry the labels its dashboards group by, and `broker` beside `node_id`; ours
(`pocketmq_…`) carry none of these, the scraper adds what tells brokers apart.
Source: BrokerMetricsManager, DefaultStoreMetricsManager.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import disable_created_metrics
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from broker.model.stats import Counter, Gauge, Histogram, LabelValues

Stat = Counter | Gauge | Histogram

NATIVE_PREFIX: Final = "rocketmq_"
STORAGE_PREFIX: Final = "rocketmq_storage_"
STORAGE_LABELS: Final[Mapping[str, str]] = {"storage_type": "local", "storage_medium": "disk"}


def native_labels(cluster: str, broker: str) -> dict[str, str]:
    """Return the labels that every metric of RocketMQ's carries."""
    return {"cluster": cluster, "node_type": "broker", "node_id": broker, "broker": broker}


class StatsCollector(Collector):
    """Reads stats at scrape time; several histograms of one name are series of one metric."""

    def __init__(self, find_stats: Callable[[], Iterable[Stat]], native: Mapping[str, str]) -> None:
        self._find_stats = find_stats
        self._native = dict(native)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with all its series as they are now."""
        families: dict[str, list[Stat]] = {}
        for stat in self._find_stats():
            families.setdefault(stat.name, []).append(stat)
        for name, stats in families.items():
            yield self._family(name, stats)

    def _family(self, name: str, stats: Sequence[Stat]) -> Metric:
        fixed = self._fixed_labels(name)
        first = stats[0]
        if isinstance(first, Histogram):
            return _histogram_family(fixed, [s for s in stats if isinstance(s, Histogram)])
        label_names = (*fixed, *first.label_names)
        family: CounterMetricFamily | GaugeMetricFamily
        if isinstance(first, Counter):
            family = CounterMetricFamily(name, first.help, labels=label_names)
        else:
            family = GaugeMetricFamily(name, first.help, labels=label_names)
        for stat in stats:
            for values, number in _series(stat):
                family.add_metric((*fixed.values(), *values), number)
        return family

    def _fixed_labels(self, name: str) -> dict[str, str]:
        if not name.startswith(NATIVE_PREFIX):
            return {}
        storage = STORAGE_LABELS if name.startswith(STORAGE_PREFIX) else {}
        return {**self._native, **storage}


def _series(stat: Stat) -> list[tuple[LabelValues, float]]:
    if isinstance(stat, Gauge):
        read = stat.read()
        return list(read.items()) if isinstance(read, dict) else [((), read)]
    assert isinstance(stat, Counter)
    return list(stat.values.items()) if stat.label_names else [((), stat.value)]


def _histogram_family(fixed: Mapping[str, str], stats: Sequence[Histogram]) -> Metric:
    first = stats[0]
    family = HistogramMetricFamily(first.name, first.help, labels=(*fixed, *first.labels))
    for stat in stats:
        # As Java prints them, so that matchers written for a real broker go on matching.
        bounds = [*(repr(float(bound)) for bound in stat.buckets), "+Inf"]
        buckets = list(zip(bounds, accumulate(stat.counts), strict=True))
        family.add_metric((*fixed.values(), *stat.labels.values()), buckets, stat.sum)
    return family


def build_info(version: str, store_version: int) -> Gauge:
    """Return the metric that says what runs here: always 1, told by its labels."""
    labels = (version, platform.python_version(), str(store_version))
    return Gauge(
        "pocketmq_build_info",
        "What runs here, by its labels.",
        lambda: {labels: 1.0},
        ("version", "python", "store_version"),
    )


class Exposition:
    """Everything this process shows to Prometheus.

    find_stats   returns all stats there are now: a store has none before it is open
    """

    __slots__ = ("_registry",)

    def __init__(
        self, find_stats: Callable[[], Iterable[Stat]], *, cluster: str, broker: str
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._registry.register(StatsCollector(find_stats, native_labels(cluster, broker)))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Return (text, content type), in the format the scraper's Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
