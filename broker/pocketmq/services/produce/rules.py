"""Settings and metrics of sending."""

from typing import Final, NamedTuple, final

from pocketmq.model.errors import BrokerReadOnly, NotAccepting
from pocketmq.model.stats import MESSAGE_SIZE_BUCKETS, Counter, Histogram, Histograms, Stat
from pocketmq.model.topic import DEFAULT_TYPE, PERMISSION_READ, PERMISSION_WRITE

REGION: Final = "DefaultRegion"
AHEAD_BUCKETS: Final[tuple[float, ...]] = (60.0, 600.0, 3_600.0, 43_200.0, 86_400.0, 259_200.0)


class SendRules(NamedTuple):
    """Settings of sending.

    store_host           packed address: 8 or 20 bytes
    accept_from_ms       wall time before which sends are refused; 0: there is no such time
    default_queue_count  number of queues of topics that sends create
    default_type         type of topics that sends create
    check_kinds          whether a topic accepts only messages of its type
    dedupe_window_ms     deduplication window of sends; 0: repeats are stored
    """

    store_host: bytes
    cluster: str
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    accept_from_ms: int = 0
    auto_create_topics: bool = True
    default_queue_count: int = 8
    default_type: str = DEFAULT_TYPE
    max_message_size_bytes: int = 4 * 1024 * 1024
    delay_max_ms: int = 24 * 3_600_000
    refuses_transactions: bool = False
    check_kinds: bool = True
    dedupe_window_ms: int = 0

    def check_moment(self, now_ms: int) -> None:
        """Raises NotAccepting or BrokerReadOnly if no message may be sent now."""
        if self.accept_from_ms and now_ms < self.accept_from_ms:
            raise NotAccepting(accept_from_ms=self.accept_from_ms)
        if not self.permission & PERMISSION_WRITE:
            raise BrokerReadOnly(why=f"its permission is {self.permission}")

    @property
    def block_tail(self) -> str:
        """Encoded properties that the broker appends to every property block."""
        return f"CLUSTER\x01{self.cluster}\x02MSG_REGION\x01{REGION}\x02TRACE_ON\x01true\x02"


FOLD_MAX: Final = 256
"""Number of topics whose counts of the fast path are added to the metrics in one turn: 1 ms."""


@final
class SendCounts:
    """Counts stored messages of one topic and kind by size, until the counts are collected."""

    __slots__ = ("_counts", "_is_changed", "_size_sums", "_stats", "kind", "topic")

    def __init__(self, topic: str, kind: str, stats: "SendStats") -> None:
        self.topic = topic
        self.kind = kind
        self._stats = stats
        self._is_changed = False
        """Whether the metrics lack some of these counts."""
        self._counts = [0] * (len(MESSAGE_SIZE_BUCKETS) + 1)
        self._size_sums = [0] * len(self._counts)

    def add(self, count: int, stored_bytes: int) -> None:
        """Counts the messages of one request as if all had the average size."""
        assert count > 0
        place = 0
        while place < len(_LIMITS) and stored_bytes > _LIMITS[place] * count:
            place += 1
        self._counts[place] += count
        self._size_sums[place] += stored_bytes
        if not self._is_changed:
            self._is_changed = True
            self._stats.changed(self)

    def taken(self) -> list[tuple[int, int]]:
        """Returns (messages, bytes) of each size with messages, and resets the counts."""
        found = [pair for pair in zip(self._counts, self._size_sums, strict=True) if pair[0]]
        self._counts = [0] * len(self._counts)
        self._size_sums = [0] * len(self._counts)
        self._is_changed = False
        return found


class SendStats:
    """Metrics of stored messages, by topic and kind."""

    __slots__ = (
        "_changed", "_message_size", "_messages_in", "_tallies", "_throughput_in", "ahead"
    )  # fmt: skip

    def __init__(self) -> None:
        labels = ("topic", "message_type", "is_system")
        self._messages_in = Counter("rocketmq_messages_in_total", "Messages stored.", labels)
        self._throughput_in = Counter(
            "rocketmq_throughput_in_total", "Bytes of records stored.", labels
        )
        self._message_size = Histograms(
            "rocketmq_message_size", "Stored bytes of messages.", MESSAGE_SIZE_BUCKETS, labels
        )
        self.ahead = Histogram(
            "rocketmq_delay_message_latency_seconds",
            "Delay of timed messages, as requested by producers.",
            AHEAD_BUCKETS,
        )
        self._tallies: dict[tuple[str, str], SendCounts] = {}
        self._changed: list[SendCounts] = []
        """Counts of the fast path that the metrics lack; at most FOLD_MAX."""

    def count(self, topic: str, kind: str, count: int, stored_bytes: int) -> None:
        """Counts the messages of one request as if all had the average size."""
        assert count > 0
        labels = (topic, kind, "false")
        self._messages_in.add(labels, count)
        self._throughput_in.add(labels, stored_bytes)
        self._message_size.at(labels).observe_many(stored_bytes / count, count)

    def tally(self, topic: str, kind: str) -> SendCounts:
        """Returns the counts that the fast path updates; they are added to the metrics later."""
        found = self._tallies.get((topic, kind))
        if found is None:
            found = self._tallies[topic, kind] = SendCounts(topic, kind, self)
        return found

    def changed(self, tally: SendCounts) -> None:
        """Registers counts that the metrics lack; many are added to the metrics at once."""
        self._changed.append(tally)
        if len(self._changed) >= FOLD_MAX:
            self._fold()

    @property
    def messages_in(self) -> Counter:
        """Number of stored messages."""
        self._fold()
        return self._messages_in

    @property
    def throughput_in(self) -> Counter:
        """Bytes of stored records."""
        self._fold()
        return self._throughput_in

    def counters(self) -> tuple[Counter, Counter]:
        """Returns the counters of stored messages and of their bytes."""
        return self.messages_in, self.throughput_in

    @property
    def message_size(self) -> Histograms:
        """Bytes of a stored record."""
        self._fold()
        return self._message_size

    def _fold(self) -> None:
        assert len(self._changed) <= FOLD_MAX, "a reader of metrics would wait long"
        folded, self._changed = self._changed, []
        for tally in folded:
            for count, stored_bytes in tally.taken():
                self.count(tally.topic, tally.kind, count, stored_bytes)

    @property
    def all(self) -> list[Stat]:
        """Returns all metrics of sending."""
        return [self.messages_in, self.throughput_in, self.message_size, self.ahead]


_LIMITS: Final = [int(bound) for bound in MESSAGE_SIZE_BUCKETS]
