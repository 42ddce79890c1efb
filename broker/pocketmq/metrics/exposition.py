"""The metrics of all components in Prometheus' text format.

RocketMQ's metrics (`rocketmq_…`) have the labels of RocketMQ's dashboards, and the label `broker`.
PocketMQ's metrics (`pocketmq_…`) have no label for the broker. Names by profile:

native          rocketmq_rpc_latency_milliseconds       RocketMQ 5.1.4 and later
native-legacy   rocketmq_rpc_latency                    RocketMQ 5.1.0 to 5.1.3

If a page would exceed the limit of series, series of the largest metrics are omitted.
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
from typing import Final, TypeVar

from pocketmq import native
from pocketmq.metrics.text_format import Family, Gone, LineMaker, TextFormat, family_of, format_for
from pocketmq.model.stats import Counter, Gauge, Histograms, Stat
from pocketmq.native.commit import commit

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
"""Name -> name in the profile native-legacy."""
SERIES_MAX: Final = 50_000
"""RocketMQ's limit (metricsOtelCardinalityLimit); a page of 50,000 series has 8 MiB."""
SERIES_AT_ONCE: Final = 32
TURN_SECONDS: Final = 0.002
"""Time after which rendering yields to the event loop."""
TOLD_S: Final = 600.0
"""Minimum time between two warnings about omitted samples."""

logger = logging.getLogger(__name__)
Piece = TypeVar("Piece")


def native_labels(cluster: str, broker: str) -> dict[str, str]:
    """Returns the labels of all RocketMQ metrics."""
    return {"cluster": cluster, "node_type": "broker", "node_id": broker, "broker": broker}


def build_info(version: str, store_version: int) -> Gauge:
    """Returns the metric of the running version."""
    labels = (version, platform.python_version(), str(store_version), commit())
    return Gauge(
        "pocketmq_build_info",
        "1, with the running version in its labels.",
        lambda: {labels: 1.0},
        ("version", "python", "store_version", "commit"),
    )


def compiled_modules() -> Gauge:
    """Returns the metric of the modules that run compiled."""
    return Gauge(
        "pocketmq_module_compiled",
        "1: the module runs compiled, 0: from source.",
        lambda: {(name,): float(name in native.running()) for name in native.COMPILED},
        ("module",),
    )


def proxy_up() -> Gauge:
    """Returns the metric that a running RocketMQ proxy exports."""
    help = "1 while official clients are served."
    return Gauge(PROXY_UP, help, lambda: {("local",): 1.0}, ("proxy_mode",))


class Exposition:
    """Metrics page of this process.

    find_stats   returns the stats; [] before the store is open
    find_gone    returns names of deleted topics and groups, whose series are removed
    max_series   upper limit of samples in a page; metrics of the Python process are not counted
    """

    __slots__ = (
        "_begun_count", "_clock", "_dropped", "_find_gone", "_find_stats", "_labels", "_lines",
        "_lock", "_made", "_max_series", "_profiles", "_quiet_until_s", "_storage_labels",
        "_waiter_count",
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
        """Content type -> (number, page); empty unless requests wait."""
        self._labels = native_labels(cluster, broker)
        self._storage_labels = {**self._labels, **STORAGE_LABELS}
        self._profiles = frozenset(profiles)
        self._max_series = max_series
        self._dropped = Counter(
            "pocketmq_metrics_dropped_series_total",
            "Samples left out of scrapes because of metrics.max_series.",
        )
        self._lines = LineMaker()

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Returns (page, content type) for an Accept header; blocks the event loop."""
        form = format_for(accept)
        return b"".join(self._pieces(form)), form.content_type

    async def page_in_turns(self, accept: str = "") -> tuple[bytes, str]:
        """Returns the result of `page`, and yields to the event loop while it renders.

        All requests that arrive while a page is rendered get the next page.

        Cost     1 µs for each series, plus 1 ms for process metrics; blocks the event loop for 2 ms
                 at a time, or longer for a slow stat
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
            assert self._waiter_count >= 0, "negative number of waiters"
            if not self._waiter_count:
                self._made.clear()
        return made[1], form.content_type

    async def families_in_turns(self) -> list[Family]:
        """Returns the metrics of a page, except those of the Python process; yields to the loop."""
        found = self._families()
        families = [one async for one in in_turns(found) if one is not None]
        return [
            family._replace(series=family.series[:count])
            for family, count in zip(families, self._counts_shown(families), strict=True)
        ]

    def _pieces(self, form: TextFormat) -> Iterator[bytes]:
        families: list[Family] = []
        for found in self._families():
            if found is not None:
                families.append(found)
            yield b""
        for family, count in zip(families, self._counts_shown(families), strict=True):
            yield family.header(form).encode()
            lines = self._lines.lines(family, count)
            while piece := "".join(islice(lines, SERIES_AT_ONCE)):
                yield piece.encode()
        yield _python_page(form)

    def _families(self) -> Iterator[Family | None]:
        """Yields all metrics, and None where other tasks may run."""
        stats, gone = [*self._find_stats(), self._dropped], self._find_gone()
        groups: dict[str, list[Stat]] = {}
        for stat in stats:
            groups.setdefault(stat.name, []).append(stat)
            if isinstance(stat, Counter | Histograms):
                _forget(stat, gone)
                yield None
        for name, group in groups.items():
            for shown in names_shown(name, self._profiles):
                yield family_of(shown, group, self._fixed_labels(name), gone)

    def _fixed_labels(self, name: str) -> Mapping[str, str]:
        if not name.startswith(NATIVE_PREFIX):
            return {}
        if name == PROXY_UP:
            return {**self._labels, "node_type": "proxy"}
        return self._storage_labels if name.startswith(STORAGE_PREFIXES) else self._labels

    def _counts_shown(self, families: Sequence[Family]) -> list[int]:
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
        now_s = self._clock()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + TOLD_S
            logger.warning(
                "metrics.cut", extra={"left_out": dropped, "max_series": self._max_series}
            )


def _python_page(form: TextFormat) -> bytes:
    from pocketmq.metrics.python_process import python_page  # 10 ms, which a start does not take

    return python_page(is_open=form.is_open)


def _forget(stat: Counter | Histograms, gone: Gone) -> None:
    for label in gone.keys() & set(stat.label_names):
        series = stat.values if isinstance(stat, Counter) else stat.series
        place, names = stat.label_names.index(label), gone[label]
        for name in {labels[place] for labels in series} & set(names):
            stat.forget(label, name)


async def in_turns(pieces: Iterator[Piece]) -> AsyncIterator[Piece]:
    """Yields the items of an iterator; lets the event loop run every TURN_SECONDS."""
    begun = perf_counter()
    for piece in pieces:
        yield piece
        if perf_counter() - begun > TURN_SECONDS:
            await asyncio.sleep(0)
            begun = perf_counter()


def names_shown(name: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Returns the names of a metric in the selected profiles."""
    legacy = LEGACY_NAMES.get(name)
    if legacy is None:
        return (name,)
    return tuple(
        shown for shown, profile in ((name, NATIVE), (legacy, NATIVE_LEGACY)) if profile in profiles
    )
