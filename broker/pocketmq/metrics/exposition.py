"""The metrics of all components in Prometheus' text format.

A component owns its numbers (model/stats.py); each scrape reads them. RocketMQ's own metrics
(`rocketmq_…`) have the labels of its dashboards, and `broker` beside `node_id`. Ours (`pocketmq_…`)
have none of these: the scraper adds the label of the broker. Names by profile:

native          rocketmq_rpc_latency_milliseconds       since RocketMQ 5.1.4: the unit is appended
native-legacy   rocketmq_rpc_latency                    in 5.1.0 to 5.1.3 and in their docs

Series of deleted topics and groups disappear. Above the limit of series, those of the largest
metrics are left out and counted. Rendering a page yields to the event loop many times.
Source: BrokerMetricsManager, DefaultStoreMetricsManager.
"""

import asyncio
import logging
import platform
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from time import monotonic, perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from pocketmq import native
from pocketmq.metrics.text_format import Family, Gone, LineMaker, TextFormat, family_of, format_for
from pocketmq.model.stats import Counter, Gauge, Histograms, Stat

NATIVE_PREFIX: Final = "rocketmq_"
STORAGE_PREFIXES: Final = (
    "rocketmq_storage_", "rocketmq_timer_dequeue_", "rocketmq_timer_enqueue_", "rocketmq_timing_"
)  # fmt: skip
STORAGE_LABELS: Final[Mapping[str, str]] = {"storage_type": "local", "storage_medium": "disk"}
PROXY_UP: Final = "rocketmq_proxy_up"
NATIVE: Final = "native"
NATIVE_LEGACY: Final = "native-legacy"

LEGACY_NAMES: Final[Mapping[str, str]] = {
    name: name.removesuffix("_milliseconds").removesuffix("_bytes").removesuffix("_seconds")
    for name in (
        "rocketmq_rpc_latency_milliseconds",
        "rocketmq_consumer_lag_latency_milliseconds",
        "rocketmq_topic_create_execution_time_milliseconds",
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "rocketmq_pop_revive_lag_milliseconds",
        "rocketmq_pop_revive_latency_milliseconds",
        "rocketmq_storage_message_reserve_time_milliseconds",
        "rocketmq_timer_dequeue_latency_milliseconds",
        "rocketmq_storage_size_bytes",
        "rocketmq_delay_message_latency_seconds",
    )
}
"""Name with its unit -> name without."""
SERIES_MAX: Final = 50_000
"""RocketMQ's limit (metricsOtelCardinalityLimit); a page of so many has some 8 MiB."""
SERIES_AT_ONCE: Final = 32
TURN_SECONDS: Final = 0.002
"""Work on a page between two turns of the event loop."""
TOLD_S: Final = 600.0
"""Samples that are left out are logged once in so long."""

logger = logging.getLogger(__name__)


def native_labels(cluster: str, broker: str) -> dict[str, str]:
    """Returns the labels that every metric of RocketMQ's carries."""
    return {"cluster": cluster, "node_type": "broker", "node_id": broker, "broker": broker}


def build_info(version: str, store_version: int) -> Gauge:
    """Returns the metric that describes the running broker: always 1, with labels."""
    labels = (version, platform.python_version(), str(store_version))
    return Gauge(
        "pocketmq_build_info",
        "1, with the running version in its labels.",
        lambda: {labels: 1.0},
        ("version", "python", "store_version"),
    )


def compiled_modules() -> Gauge:
    """Returns the metric of how many modules run compiled."""
    return Gauge(
        "pocketmq_module_compiled",
        "1: the module runs compiled, 0: from source.",
        lambda: {(name,): float(name in native.running()) for name in native.COMPILED},
        ("module",),
    )


def proxy_up() -> Gauge:
    """Returns the metric by which RocketMQ's proxies report that they run: here, in the broker."""
    help = "1 while official clients are served."
    return Gauge(PROXY_UP, help, lambda: {("local",): 1.0}, ("proxy_mode",))


class Exposition:
    """Everything this process shows to Prometheus.

    find_stats   returns all stats there are now: a store has none before it is open
    find_gone    returns names that were removed and are no more: their series go
    max_series   samples of one page, those of the Python process not counted
    """

    __slots__ = (
        "_begun_count", "_clock", "_dropped", "_find_gone", "_find_stats", "_labels", "_lines",
        "_lock", "_made", "_max_series", "_profiles", "_quiet_until_s", "_registry",
        "_storage_labels", "_waiter_count",
    )  # fmt: skip

    def __init__(
        self,
        find_stats: Callable[[], Iterable[Stat]],
        *,
        cluster: str,
        broker: str,
        profiles: Collection[str] = (NATIVE,),
        max_series: int = SERIES_MAX,
        find_gone: Callable[[], Gone] = dict,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find_stats = find_stats
        self._find_gone = find_gone
        self._clock = clock
        self._quiet_until_s = 0.0
        self._lock = asyncio.Lock()
        self._begun_count = self._waiter_count = 0
        self._made: dict[str, tuple[int, bytes]] = {}
        """The last pages by content type, and the number of each, while others wait for one."""
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
        """Returns (text, content type) at once, in the format the Accept header prefers."""
        form = format_for(accept)
        return b"".join(self._pieces(form)), form.content_type

    async def page_in_turns(self, accept: str = "") -> tuple[bytes, str]:
        """Returns the same, in many turns of the loop; requests meanwhile share the next page.

        Cost     1 µs a series, and 1 ms for the process; 2 ms of one turn, but for the slowest stat
        """
        form = format_for(accept)
        asked = self._begun_count
        self._waiter_count += 1
        try:
            async with self._lock:
                made = self._made.get(form.content_type)
                if made is None or made[0] <= asked:
                    self._begun_count = number = self._begun_count + 1
                    made = number, b"".join([one async for one in in_turns(self._pieces(form))])
                    self._made[form.content_type] = made
        finally:
            self._waiter_count -= 1
            assert self._waiter_count >= 0, "who waited came"
            if not self._waiter_count:
                self._made.clear()
        return made[1], form.content_type

    def _pieces(self, form: TextFormat) -> Iterator[bytes]:
        """Yields the page in pieces, each some work."""
        stats, gone = [*self._find_stats(), self._dropped], self._find_gone()
        groups: dict[str, list[Stat]] = {}
        for stat in stats:
            groups.setdefault(stat.name, []).append(stat)
            if isinstance(stat, Counter | Histograms):
                _forget(stat, gone)
                yield b""
        families: list[Family] = []
        for name, group in groups.items():
            for shown in names_shown(name, self._profiles):
                families.append(family_of(shown, group, self._fixed_labels(name), gone))
                yield b""
        for family, count in zip(families, self._counts_shown(families), strict=True):
            yield family.header(form).encode()
            lines = self._lines.lines(family, count)
            while piece := "".join(islice(lines, SERIES_AT_ONCE)):
                yield piece.encode()
        yield self._python_page(form)

    def _fixed_labels(self, name: str) -> Mapping[str, str]:
        if not name.startswith(NATIVE_PREFIX):
            return {}
        if name == PROXY_UP:
            return {**self._labels, "node_type": "proxy"}
        return self._storage_labels if name.startswith(STORAGE_PREFIXES) else self._labels

    def _counts_shown(self, families: Sequence[Family]) -> list[int]:
        """Returns how many series of each family are shown; small families keep all of theirs."""
        sizes = [len(family.series) * family.block_lines for family in families]
        counts = [len(family.series) for family in families]
        left, dropped = self._max_series, 0
        if sum(sizes) <= left:
            return counts
        for number in sorted(range(len(families)), key=sizes.__getitem__):
            lines = families[number].block_lines
            counts[number] = min(counts[number], left // lines)
            left -= counts[number] * lines
            dropped += sizes[number] - counts[number] * lines
        self._dropped.value += dropped
        self._tell(dropped)
        return counts

    def _tell(self, dropped: int) -> None:
        """Logs that samples are left out, now and then."""
        now_s = self._clock()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + TOLD_S
            logger.warning(
                "metrics.cut", extra={"left_out": dropped, "max_series": self._max_series}
            )

    def _python_page(self, form: TextFormat) -> bytes:
        """Returns the metrics of the Python process, and the end of the page."""
        if form.is_open:
            page: bytes = open_metrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
            return page
        return generate_latest(self._registry)


def _forget(stat: Counter | Histograms, gone: Gone) -> None:
    """Drops the series of names that are no more."""
    for label in gone.keys() & set(stat.label_names):
        series = stat.values if isinstance(stat, Counter) else stat.series
        place, names = stat.label_names.index(label), gone[label]
        for name in {labels[place] for labels in series} & set(names):
            stat.forget(label, name)


async def in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the items of an iterator, and lets other tasks run between two of them."""
    begun = perf_counter()
    for piece in pieces:
        yield piece
        if perf_counter() - begun > TURN_SECONDS:
            await asyncio.sleep(0)
            begun = perf_counter()


def names_shown(name: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Returns the names a metric is shown under."""
    legacy = LEGACY_NAMES.get(name)
    if legacy is None:
        return (name,)
    return tuple(
        shown for shown, profile in ((name, NATIVE), (legacy, NATIVE_LEGACY)) if profile in profiles
    )
