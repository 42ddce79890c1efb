"""What metrics tell of transactions.

A half message counts as such once it was looked at, a second or two after it was sent: most are
decided before, and what becomes of those is counted alone.
Source: BrokerMetricsManager, TransactionMetrics.
"""

from typing import Final

from broker.format.half_message import Half
from broker.model.stats import Counter, Gauge, Histograms, LabelValues, Stat
from broker.model.step import Clock
from broker.services.transaction.halves import HalfState

FINISH_BUCKETS: Final = (5.0, 60.0, 600.0, 3600.0, 43200.0, 86400.0)
"""Seconds, as RocketMQ has them in this metric, whatever its name says."""
UNKNOWN_TOPIC: Final = "unknown"


class HalfCounts:
    """Counts half messages, and what became of them, by topic."""

    __slots__ = (
        "_base", "_clock", "_looked", "_open", "committed", "finish", "rolled_back",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, int] = {}
        self._looked = bytearray()
        """Whether each half message from `_base` on is counted."""
        self._base = 0
        self.committed = Counter(
            "rocketmq_commit_messages_total", "Transactions committed.", ("topic",)
        )
        self.rolled_back = Counter(
            "rocketmq_rollback_messages_total", "Transactions rolled back.", ("topic",)
        )
        self.finish = Histograms(
            "rocketmq_finish_message_latency_milliseconds",
            "Seconds from a transaction's message to its commit or rollback.",
            FINISH_BUCKETS,
            ("topic",),
        )

    def look(self, half: Half) -> None:
        """Count one that is open, once."""
        if self._mark(half.place.queue_offset):
            self._change(half, 1)

    def end(self, half: Half, state: HalfState, moved_to: int = 0) -> None:
        """Count what became of one; one that was put again counts where it lies now."""
        topic = _topic_of(half)
        place = half.place.queue_offset - self._base
        if 0 <= place < len(self._looked) and self._looked[place]:
            self._looked[place] = 0
            if state is not HalfState.MOVED or not self._mark(moved_to):
                self._change(half, -1)
        if state is HalfState.COMMITTED:
            self.committed.add((topic,))
        elif state is HalfState.ROLLED_BACK:
            self.rolled_back.add((topic,))
        if state in (HalfState.COMMITTED, HalfState.ROLLED_BACK):
            seconds = max(self._clock.wall_ms() - half.store_ms, 0) / 1000
            self.finish.at((topic,)).observe(seconds)

    def drop(self, half: Half) -> None:
        """Count one no more that turned out to be done since before the start."""
        place = half.place.queue_offset - self._base
        if 0 <= place < len(self._looked) and self._looked[place]:
            self._looked[place] = 0
            self._change(half, -1)

    def _mark(self, queue_offset: int) -> bool:
        """Return whether one was not counted, which it is now."""
        place = queue_offset - self._base
        assert place >= 0, "what is done is not looked at"
        if place >= len(self._looked):
            self._looked.extend(bytes(place + 1 - len(self._looked)))
        before, self._looked[place] = self._looked[place], 1
        return not before

    def forget_below(self, queue_offset: int) -> None:
        """All below are done."""
        cut = min(queue_offset - self._base, len(self._looked))
        if cut > 0:
            assert 1 not in self._looked[:cut], "what is done is not counted"
            del self._looked[:cut]
        self._base = max(self._base, queue_offset)

    def _change(self, half: Half, by: int) -> None:
        topic = _topic_of(half)
        count = self._open.get(topic, 0) + by
        assert count >= 0, "what ends was counted"
        if count:
            self._open[topic] = count
        else:
            self._open.pop(topic, None)

    @property
    def all(self) -> list[Stat]:
        """What metrics show."""

        def open_ones() -> dict[LabelValues, float]:
            return {(topic,): float(count) for topic, count in self._open.items()}

        half = Gauge(
            "rocketmq_half_messages",
            "Transactions that nobody decided for a second or longer.",
            open_ones,
            ("topic",),
        )
        return [half, self.committed, self.rolled_back, self.finish]


def _topic_of(half: Half) -> str:
    return half.real.topic if half.real is not None else UNKNOWN_TOPIC
