"""Messages and bytes of the last minute, hour and day, from the counters of metrics.

A window stores the values of counters at its begin, and only the changes in each sample.
Source: StatsItem, BrokerStatsManager, StoreStatsService.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pocketmq.model.delivered import Delivered
from pocketmq.model.stats import Counter
from pocketmq.model.step import Clock, Next, Now

SAMPLE_MS: Final = 10_000
MINUTE: Final = "statsMinute"
WINDOWS: Final = {
    MINUTE: (10_000, 6),
    "statsHour": (600_000, 6),
    "statsDay": (3_600_000, 24),
}
"""Name -> (ms between samples, number of samples in the window)."""
FRESH_MS: Final = 1_000
"""Time for which sums are cached: an exporter requests hundreds of rates at once."""
Key = tuple[str, str]
"""(statsName, statsKey)."""
Sums = dict[Key, int]


class Sample(NamedTuple):
    """Values of the counters that have changed since the previous sample."""

    at_ms: int
    changed: Sums


class Window:
    """Differences of counters since the window's begin."""

    __slots__ = ("_base", "_base_ms", "_count", "_interval_ms", "_last", "_samples")

    def __init__(self, interval_ms: int, count: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._count = count
        self._base: Sums = {}
        self._last: Sums = {}
        self._base_ms = now_ms
        self._samples: deque[Sample] = deque()

    def take(self, now_ms: int, read: Callable[[], Sums]) -> None:
        """Adds a sample if one is due; removes samples that are too old."""
        newest_ms = self._samples[-1].at_ms if self._samples else self._base_ms
        if now_ms - newest_ms < self._interval_ms:
            return
        sums = read()
        changed = {key: value for key, value in sums.items() if self._last.get(key) != value}
        self._last = sums
        self._samples.append(Sample(now_ms, changed))
        while len(self._samples) > self._count:
            oldest = self._samples.popleft()
            self._base.update(oldest.changed)
            self._base_ms = oldest.at_ms
        assert self._base_ms <= now_ms, "a window begins in the future"

    def since(self, key: Key, value: int, now_ms: int) -> tuple[int, float]:
        """Returns (increase, increase per second) of a counter since the window's begin.

        A window shorter than SAMPLE_MS counts as SAMPLE_MS long: the first messages after the
        broker started must not give a high rate.
        """
        total = max(value - self._base.get(key, 0), 0)
        return total, total * 1_000 / max(now_ms - self._base_ms, SAMPLE_MS)


class Rates:
    """Rates of topics and groups, and of the whole broker.

    read_sent   returns the counters of stored messages and of their bytes
    cluster     key of the whole broker's series
    """

    __slots__ = ("_clock", "_cluster", "_delivered", "_read_sent", "_sums", "_sums_ms", "_windows")

    def __init__(
        self,
        read_sent: Callable[[], tuple[Counter, Counter]],
        delivered: Delivered,
        clock: Clock,
        cluster: str,
    ) -> None:
        self._read_sent = read_sent
        self._delivered = delivered
        self._clock = clock
        self._cluster = cluster
        self._sums: Sums = {}
        self._sums_ms = -FRESH_MS
        now_ms = self._clock.monotonic_ms()
        self._windows = {name: Window(*rule, now_ms) for name, rule in WINDOWS.items()}

    def step(self, now: Now) -> Next:
        """Adds due samples to the windows."""
        for window in self._windows.values():
            window.take(now.monotonic_ms, self._read)
        return Next(now.monotonic_ms + SAMPLE_MS)

    def knows(self, key: Key) -> bool:
        """Returns whether a series has a value."""
        return key in self._fresh()

    def stored_tps(self, topic: str) -> float:
        """Returns the messages sent to a topic a second, as average of the last minute."""
        return self.since(MINUTE, ("TOPIC_PUT_NUMS", topic))[1]

    def delivered_tps(self, topic: str, group: str) -> float:
        """Returns a group's messages from a topic a second, as average of the last minute."""
        return self.since(MINUTE, ("GROUP_GET_NUMS", f"{topic}@{group}"))[1]

    def totals(self) -> Mapping[str, tuple[int, float]]:
        """Returns by series: (messages since the start, messages a second in the last minute)."""
        sums = self._fresh()
        keys = {name: (name, self._cluster) for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")}
        return {name: (sums[key], self.since(MINUTE, key)[1]) for name, key in keys.items()}

    def since(self, window: str, key: Key) -> tuple[int, float]:
        """Returns (increase, increase per second) of a series in a window, a key of WINDOWS."""
        value = self._fresh().get(key, 0)
        return self._windows[window].since(key, value, self._clock.monotonic_ms())

    def _fresh(self) -> Sums:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._sums_ms >= FRESH_MS:
            self._sums, self._sums_ms = self._read(), now_ms
        assert now_ms >= self._sums_ms, "the monotonic clock went back"
        return self._sums

    def _read(self) -> Sums:
        """Returns the values of all series; cost: 0.3 µs for each series."""
        delivered = self._delivered
        messages_in, bytes_in = self._read_sent()
        found: Sums = {}
        for name, counter in (
            ("TOPIC_PUT_NUMS", messages_in), ("TOPIC_PUT_SIZE", bytes_in)
        ):  # fmt: skip
            for labels, value in counter.values.items():
                key = (name, labels[0])
                found[key] = found.get(key, 0) + value
        for name, counter in (
            ("GROUP_GET_NUMS", delivered.messages_out), ("GROUP_GET_SIZE", delivered.bytes_out)
        ):  # fmt: skip
            for labels, value in counter.values.items():
                key = (name, f"{labels[0]}@{labels[1]}")
                found[key] = found.get(key, 0) + value
        for name, source in (
            ("BROKER_PUT_NUMS", messages_in), ("BROKER_GET_NUMS", delivered.messages_out)
        ):  # fmt: skip
            found[name, self._cluster] = sum(source.values.values())
        return found
