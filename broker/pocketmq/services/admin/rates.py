"""Messages and bytes of the last minute, hour and day, from the counters of metrics.

A window stores the values of counters at its begin, and only the changes in each sample. A sample
is a copy of the counters, which the next steps compare with the last sample in pieces.
Source: StatsItem, BrokerStatsManager, StoreStatsService.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pocketmq.model.delivered import Delivered
from pocketmq.model.message_kind import MessageKind
from pocketmq.model.stats import Counter, LabelValues
from pocketmq.model.step import Clock, Next, Now

SAMPLE_MS: Final = 10_000
MINUTE: Final = "statsMinute"
WINDOWS: Final = {
    MINUTE: (10_000, 6),
    "statsHour": (600_000, 6),
    "statsDay": (3_600_000, 24),
}
"""Name -> (ms between samples, number of samples in the window)."""
SERIES_PIECE: Final = 2_000
"""Number of series that one step compares: 0.5 ms."""
SERIES: Final = {
    "TOPIC_PUT_NUMS": 0, "TOPIC_PUT_SIZE": 1, "GROUP_GET_NUMS": 2, "GROUP_GET_SIZE": 3,
    "BROKER_PUT_NUMS": 0, "BROKER_GET_NUMS": 2,
}  # fmt: skip
"""statsName -> number of its counter."""
OF_BROKER: Final = ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")
"""The sums of all series of a counter."""
KINDS: Final = tuple(kind.label for kind in MessageKind)
Key = tuple[str, str]
"""(statsName, statsKey)."""
Values = dict[LabelValues, int]
"""Values of one counter."""
Row = tuple[int, LabelValues, int]
"""(number of the counter, labels, value)."""


class Sample(NamedTuple):
    """Values of the counters that have changed since the previous sample."""

    at_ms: int
    changed: list[Values]


class _Taking(NamedTuple):
    """A sample that is compared with the previous one; `rows` yields the rows that are left."""

    sample: Sample
    values: list[Values]
    rows: Iterator[Row]


class Window:
    """Differences of counters since the window's begin."""

    __slots__ = ("_base", "_base_ms", "_count", "_interval_ms", "_last", "_samples", "_taking")

    def __init__(self, interval_ms: int, count: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._count = count
        self._base: list[Values] = _no_values()
        self._last: list[Values] = _no_values()
        self._base_ms = now_ms
        self._samples: deque[Sample] = deque()
        self._taking: _Taking | None = None

    def take(self, now_ms: int, read: Callable[[], Sequence[Counter]], count: int) -> int:
        """Begins a sample if one is due, and compares up to `count` series of a begun one.

        Returns  the number of compared series; fewer than `count`: no sample is in progress
        """
        if self._taking is None:
            newest_ms = self._samples[-1].at_ms if self._samples else self._base_ms
            if now_ms - newest_ms < self._interval_ms:
                return 0
            values = [one.values.copy() for one in read()]
            self._taking = _Taking(Sample(now_ms, _no_values()), values, _rows(values))
        taking, compared = self._taking, 0
        for number, labels, value in islice(taking.rows, count):
            compared += 1
            if self._last[number].get(labels) != value:
                taking.sample.changed[number][labels] = value
        if compared < count:
            self._end(taking)
        assert self._base_ms <= now_ms, "a window begins in the future"
        return compared

    def _end(self, taking: _Taking) -> None:
        """Adds a compared sample; removes samples that are too old."""
        self._taking = None
        self._last = taking.values
        self._samples.append(taking.sample)
        while len(self._samples) > self._count:
            oldest = self._samples.popleft()
            for base, changed in zip(self._base, oldest.changed, strict=True):
                base.update(changed)
            self._base_ms = oldest.at_ms
        for base, last in zip(self._base, self._last, strict=True):
            for labels in base.keys() - last.keys():
                del base[labels]

    @property
    def base(self) -> Sequence[Mapping[LabelValues, int]]:
        """Values at the window's begin."""
        return self._base

    def per_second(self, total: int, now_ms: int) -> float:
        """Returns an increase as average of the window.

        A window shorter than SAMPLE_MS counts as SAMPLE_MS long: the first messages after the
        broker started must not give a high rate.
        """
        return total * 1_000 / max(now_ms - self._base_ms, SAMPLE_MS)


def _no_values() -> list[Values]:
    return [{} for _ in {*SERIES.values()}]


def _rows(values: Sequence[Values]) -> Iterator[Row]:
    for number, one in enumerate(values):
        for labels, value in one.items():
            yield number, labels, value


class Rates:
    """Rates of topics and groups, and of the whole broker.

    read_sent   returns the counters of stored messages and of their bytes
    cluster     key of the whole broker's series
    """

    __slots__ = ("_clock", "_cluster", "_delivered", "_read_sent", "_windows")

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
        now_ms = self._clock.monotonic_ms()
        self._windows = {name: Window(*rule, now_ms) for name, rule in WINDOWS.items()}

    def step(self, now: Now) -> Next:
        """Adds due samples to the windows, up to SERIES_PIECE series in a turn of the loop."""
        left = SERIES_PIECE
        for window in self._windows.values():
            left -= window.take(now.monotonic_ms, self._counters, left)
            if not left:
                return Next(now.monotonic_ms)
        return Next(now.monotonic_ms + SAMPLE_MS)

    def knows(self, key: Key) -> bool:
        """Returns whether a series has a value."""
        name, text = key
        if name not in SERIES or name in OF_BROKER:
            return name in SERIES and text == self._cluster
        values = self._counters()[SERIES[name]].values
        return any(labels in values for labels in _labels_of(key))

    def stored_tps(self, topic: str) -> float:
        """Returns the messages sent to a topic a second, as average of the last minute."""
        return self.since(MINUTE, ("TOPIC_PUT_NUMS", topic))[1]

    def delivered_tps(self, topic: str, group: str) -> float:
        """Returns a group's messages from a topic a second, as average of the last minute."""
        return self.since(MINUTE, ("GROUP_GET_NUMS", f"{topic}@{group}"))[1]

    def totals(self) -> Mapping[str, tuple[int, float]]:
        """Returns by series: (messages since the start, messages a second in the last minute)."""
        counters = self._counters()
        return {
            name: (sum(counters[SERIES[name]].values.values()), self.since(MINUTE, key)[1])
            for name in OF_BROKER
            for key in [(name, self._cluster)]
        }

    def since(self, window: str, key: Key) -> tuple[int, float]:
        """Returns (increase, increase per second) of a series in a window, a key of WINDOWS.

        Cost     3 µs; of the broker's series: linear in the series of all topics or groups
        """
        number, found = SERIES[key[0]], self._windows[window]
        now, base = self._counters()[number].values, found.base[number]
        if key[0] in OF_BROKER:
            gone = base.keys() - now.keys()  # The metrics forget deleted topics.
            total = sum(now.values()) - sum(base.values()) + sum(base[labels] for labels in gone)
        else:
            total = sum(now.get(one, 0) - base.get(one, 0) for one in _labels_of(key))
        total = max(total, 0)
        return total, found.per_second(total, self._clock.monotonic_ms())

    def _counters(self) -> Sequence[Counter]:
        return (*self._read_sent(), self._delivered.messages_out, self._delivered.bytes_out)


def _labels_of(key: Key) -> list[LabelValues]:
    """Returns the labels of all series that belong to a topic, or to a group in a topic."""
    name, text = key
    if SERIES[name] < SERIES["GROUP_GET_NUMS"]:
        return [(text, kind, "false") for kind in KINDS]
    topic, _, group = text.partition("@")
    return [
        (topic, group, is_system, is_retry)
        for is_system in ("true", "false")
        for is_retry in ("", "true", "false")
    ]
