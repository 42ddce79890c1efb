"""Counts of pending messages by target topic: RocketMQ's `config/timermetrics`.

Pending messages are counted when the broker starts. The file is read by a RocketMQ broker that
takes over the store. Units of the timer log contain only hashes of topic names.
Source: TimerMetrics.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from pocketmq.format.java_hash import java_hash
from pocketmq.format.timer_layout import Units, counts_of
from pocketmq.model.stats import Counter, LabelValues

NAMES_MAX: Final = 65_536
"""Upper limit of topic names in memory."""


class WaitingCounts:
    """Counts pending messages."""

    __slots__ = ("_counts", "_names", "enqueued")

    def __init__(self, topics: Iterable[str]) -> None:
        self._counts: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self.enqueued = Counter(
            "rocketmq_timer_enqueue_total", "Messages that entered the timer.", ("topic",)
        )
        for topic in topics:
            self.know(java_hash(topic), topic)

    def know(self, topic_hash: int, topic: str) -> None:
        """Stores the topic name of a hash."""
        if len(self._names) >= NAMES_MAX:
            self._names.clear()
        self._names[topic_hash] = topic
        assert self._names[topic_hash] == topic

    def knows(self, topic_hash: int) -> bool:
        """Returns whether the topic name of a hash is known."""
        return topic_hash in self._names

    def name(self, topic_hash: int) -> str:
        """Returns the topic name of a hash, "" if it is not known."""
        return self._names.get(topic_hash, "")

    def arrive(self, units: Units) -> None:
        """Counts new units."""
        for topic, count in self._changed(units, 1).items():
            self.enqueued.add((topic,), count)

    def add(self, units: Units) -> None:
        """Counts units that were in the wheel when the broker started."""
        self._changed(units, 1)

    def take(self, units: Units) -> None:
        """Subtracts units that are no longer pending."""
        self._changed(units, -1)

    def _changed(self, units: Units, sign: int) -> dict[str, int]:
        if not len(units):
            return {}
        hashes, places = np.unique(units["topic_hash"].astype(np.int64), return_inverse=True)
        sums = np.bincount(places, weights=counts_of(units)).astype(np.int64)
        found: dict[str, int] = {}
        for topic_hash, count in zip(hashes.tolist(), sums.tolist(), strict=True):
            self._counts[topic_hash] = self._counts.get(topic_hash, 0) + sign * count
            name = self.name(topic_hash)
            found[name] = found.get(name, 0) + count
        return found

    def by_topic(self) -> dict[LabelValues, float]:
        """Returns the number of pending messages by topic, "" for unknown topics."""
        found: dict[LabelValues, float] = {}
        for topic_hash, count in self._counts.items():
            if count > 0:
                labels = (self.name(topic_hash),)
                found[labels] = found.get(labels, 0) + count
        return found

    def rows(self, now_ms: int) -> dict[str, dict[str, Any]]:
        """Returns the rows of the file."""
        return {
            topic: {"count": int(count), "timeStamp": now_ms}
            for (topic,), count in sorted(self.by_topic().items())
            if topic
        }
