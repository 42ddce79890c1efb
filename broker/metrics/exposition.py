"""The counters, gauges and histograms of all components, as Prometheus reads them.

A component owns its numbers (model/stats.py); they are read at each scrape. RocketMQ's own
metrics (`rocketmq_…`) carry the labels its dashboards group by, and `broker` beside `node_id`; ours
(`pocketmq_…`) carry none of these, the scraper adds what tells brokers apart.

RocketMQ's metrics are shown under the names of today, those of older exporters, or both:

profile         rpc latency, for example
native          rocketmq_rpc_latency_milliseconds       since RocketMQ 5.1.4: the unit is appended
native-legacy   rocketmq_rpc_latency                    as 5.1.0 to 5.1.3 showed it, and their docs

Series of a topic or group that has been deleted go away. When there are more series than allowed,
those of the largest metrics are left out, and counted.
Source: BrokerMetricsManager, DefaultStoreMetricsManager.
"""

import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from broker import native
from broker.metrics.text_format import Family, LineMaker, TextFormat, format_for
from broker.model.stats import Counter, Gauge, Histograms, Stat

NATIVE_PREFIX: Final = "rocketmq_"
STORAGE_PREFIXES: Final = (
    "rocketmq_storage_", "rocketmq_timer_dequeue_", "rocketmq_timer_enqueue_", "rocketmq_timing_"
)  # fmt: skip
STORAGE_LABELS: Final[Mapping[str, str]] = {"storage_type": "local", "storage_medium": "disk"}
NATIVE: Final = "native"
NATIVE_LEGACY: Final = "native-legacy"

LEGACY_NAMES: Final[Mapping[str, str]] = {
    name: name.removesuffix("_milliseconds").removesuffix("_bytes").removesuffix("_seconds")
    for name in (
        "rocketmq_rpc_latency_milliseconds",
        "rocketmq_consumer_lag_latency_milliseconds",
        "rocketmq_topic_create_execution_time_milliseconds",
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "rocketmq_storage_message_reserve_time_milliseconds",
        "rocketmq_timer_dequeue_latency_milliseconds",
        "rocketmq_storage_size_bytes",
        "rocketmq_delay_message_latency_seconds",
    )
}
"""Name with its unit -> name without."""
SERIES_MAX: Final = 50_000
"""RocketMQ's limit (metricsOtelCardinalityLimit); a page of so many has some 8 MiB."""


def native_labels(cluster: str, broker: str) -> dict[str, str]:
    """Return the labels that every metric of RocketMQ's carries."""
    return {"cluster": cluster, "node_type": "broker", "node_id": broker, "broker": broker}


def build_info(version: str, store_version: int) -> Gauge:
    """Return the metric that says what runs here: always 1, told by its labels."""
    labels = (version, platform.python_version(), str(store_version))
    return Gauge(
        "pocketmq_build_info",
        "What runs here, by its labels.",
        lambda: {labels: 1.0},
        ("version", "python", "store_version"),
    )


def compiled_modules() -> Gauge:
    """Return the metric that says which modules run compiled."""
    return Gauge(
        "pocketmq_module_compiled",
        "1: the module runs compiled, 0: its source does.",
        lambda: {(name,): float(name in native.running()) for name in native.COMPILED},
        ("module",),
    )


class Exposition:
    """Everything this process shows to Prometheus.

    find_stats   returns all stats there are now: a store has none before it is open
    find_names   returns the names that exist, by the label that carries them
    max_series   samples of one page, those of the Python process not counted
    """

    __slots__ = (
        "_dropped", "_find_names", "_find_stats", "_labels", "_lines", "_max_series", "_names",
        "_profiles", "_registry", "_storage_labels",
    )  # fmt: skip

    def __init__(
        self,
        find_stats: Callable[[], Iterable[Stat]],
        *,
        cluster: str,
        broker: str,
        profiles: Collection[str] = (NATIVE,),
        max_series: int = SERIES_MAX,
        find_names: Callable[[], Mapping[str, Iterable[str]]] = dict,
    ) -> None:
        self._find_stats = find_stats
        self._find_names = find_names
        self._names: dict[str, frozenset[str]] = {}
        self._labels = native_labels(cluster, broker)
        self._storage_labels = {**self._labels, **STORAGE_LABELS}
        self._profiles = frozenset(profiles)
        self._max_series = max_series
        self._dropped = Counter(
            "pocketmq_metrics_dropped_series_total",
            "Samples left out of scrapes because of metrics.max_series.",
        )
        self._lines = LineMaker()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Return (text, content type), in the format the scraper's Accept header prefers.

        Cost     1 µs a series, and 1 ms for the process
        """
        form = format_for(accept)
        stats = [*self._find_stats(), self._dropped]
        self._forget_the_gone(stats)
        families = self._families(stats)
        counts = self._counts_shown(families)
        parts: list[str] = []
        for family, count in zip(families, counts, strict=True):
            parts.append(family.header(form))
            parts += family.blocks if count == len(family.blocks) else family.blocks[:count]
        return "".join(parts).encode() + self._python_page(form), form.content_type

    def _families(self, stats: Iterable[Stat]) -> list[Family]:
        groups: dict[str, list[Stat]] = {}
        for stat in stats:
            groups.setdefault(stat.name, []).append(stat)
        return [
            self._lines.family(shown, group, self._fixed_labels(name))
            for name, group in groups.items()
            for shown in names_shown(name, self._profiles)
        ]

    def _fixed_labels(self, name: str) -> Mapping[str, str]:
        if not name.startswith(NATIVE_PREFIX):
            return {}
        return self._storage_labels if name.startswith(STORAGE_PREFIXES) else self._labels

    def _forget_the_gone(self, stats: Sequence[Stat]) -> None:
        """Drop the series of names that were there at the last scrape and are not any more."""
        for label, found in self._find_names().items():
            names = frozenset(found)
            for gone in self._names.get(label, names) - names:
                _forget(stats, label, gone)
            self._names[label] = names

    def _counts_shown(self, families: Sequence[Family]) -> list[int]:
        """Return how many series of each family are shown; small families keep all of theirs."""
        sizes = [len(family.blocks) * family.block_lines for family in families]
        counts = [len(family.blocks) for family in families]
        left, dropped = self._max_series, 0
        if sum(sizes) <= left:
            return counts
        for number in sorted(range(len(families)), key=sizes.__getitem__):
            lines = families[number].block_lines
            counts[number] = min(counts[number], left // lines)
            left -= counts[number] * lines
            dropped += sizes[number] - counts[number] * lines
        self._dropped.value += dropped
        return counts

    def _python_page(self, form: TextFormat) -> bytes:
        """Return what the Python process shows of itself, and the end of the page."""
        if form.is_open:
            page: bytes = open_metrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
            return page
        return generate_latest(self._registry)


def _forget(stats: Sequence[Stat], label: str, gone: str) -> None:
    for stat in stats:
        if isinstance(stat, Counter | Histograms):
            stat.forget(label, gone)


def names_shown(name: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Return the names a metric is shown under."""
    legacy = LEGACY_NAMES.get(name)
    if legacy is None:
        return (name,)
    return tuple(
        shown for shown, profile in ((name, NATIVE), (legacy, NATIVE_LEGACY)) if profile in profiles
    )
