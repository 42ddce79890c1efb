"""Metrics of transactions.

A half message is counted as open when it is first read, one or two seconds after it was sent. Of a
half message that is decided before, only the outcome is counted.

Source: BrokerMetricsManager, TransactionMetrics.
"""

from array import array
from typing import Final

from pocketmq.format.half_message import Half
from pocketmq.model.stats import Counter, Gauge, Histograms, LabelValues, Stat
from pocketmq.model.step import Clock
from pocketmq.services.transaction.halves import HalfState

FINISH_BUCKETS: Final = (5.0, 60.0, 600.0, 3600.0, 43200.0, 86400.0)
"""Buckets in seconds; RocketMQ's metric has the same buckets, despite its name."""
UNKNOWN_TOPIC: Final = "unknown"
TOPICS_MAX: Final = 10_000
"""Upper limit of topics in the metrics; half messages of further topics count as unknown."""


class HalfCounts:
    """Counts half messages and their outcomes, by topic."""

    __slots__ = (
        "_base", "_clock", "_numbers", "_open", "_topics", "committed", "finish", "rolled_back",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics = {UNKNOWN_TOPIC: 1}
        """Topic -> topic number, from 1 on."""
        self._open = [0, 0]
        """Number of open half messages, by topic number."""
        self._numbers = array("H")
        """Topic number of each half message from offset `_base` on; 0: not counted."""
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
        """Counts an open half message, if it is not counted yet."""
        topic = _topic_of(half)
        number = self._topics.get(topic)
        if number is None:
            number = 1
            if len(self._topics) < TOPICS_MAX:
                number = self._topics[topic] = len(self._open)
                self._open.append(0)
        self._mark(half.place.queue_offset, number)

    @property
    def has_open(self) -> bool:
        """Whether a counted half message may be open."""
        return bool(self._numbers)

    def drop(self, queue_offset: int, moved_to: int = 0) -> None:
        """Removes a half message that is no longer open.

        moved_to   queue offset of the copy that is counted instead; 0: there is none
        """
        place = queue_offset - self._base
        if not 0 <= place < len(self._numbers):
            return
        number, self._numbers[place] = self._numbers[place], 0
        if number:
            self._open[number] -= 1
            assert self._open[number] >= 0, "more half messages ended than counted"
            if moved_to:
                self._mark(moved_to, number)

    def _mark(self, queue_offset: int, number: int) -> None:
        place = queue_offset - self._base
        assert place >= 0, "half message is done"
        if place >= len(self._numbers):
            more = place + 1 - len(self._numbers)
            self._numbers.frombytes(bytes(more * self._numbers.itemsize))
        if not self._numbers[place]:
            self._numbers[place] = number
            self._open[number] += 1

    def forget_below(self, queue_offset: int) -> None:
        """Drops the entries of half messages below an offset; all of them must be done."""
        cut = min(queue_offset - self._base, len(self._numbers))
        if cut > 0:
            assert not any(self._numbers[:cut]), "a counted half message is done"
            del self._numbers[:cut]
        self._base = max(self._base, queue_offset)

    def end(self, topic: str, store_ms: int, state: HalfState, count: int = 1) -> None:
        """Counts the outcomes of `count` half messages.

        topic      target topic; "": the half messages name no target topic
        store_ms   store time
        """
        topic = topic or UNKNOWN_TOPIC
        decided = self.committed if state is HalfState.COMMITTED else self.rolled_back
        assert state in (HalfState.COMMITTED, HalfState.ROLLED_BACK)
        decided.add((topic,), count)
        seconds = max(self._clock.wall_ms() - store_ms, 0) / 1000
        self.finish.at((topic,)).observe_many(seconds, count)

    @property
    def all(self) -> list[Stat]:
        """Returns all metrics of transactions."""

        def open_ones() -> dict[LabelValues, float]:
            pairs = [(topic, self._open[number]) for topic, number in self._topics.items()]
            return {(topic,): float(count) for topic, count in pairs if count}

        half = Gauge(
            "rocketmq_half_messages",
            "Transactions that have been undecided for a second or longer.",
            open_ones,
            ("topic",),
        )
        return [half, self.committed, self.rolled_back, self.finish]


def _topic_of(half: Half) -> str:
    return half.real.topic if half.real is not None else UNKNOWN_TOPIC
