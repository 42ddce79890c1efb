"""What the operator decided about sending, and what is counted of it."""

from typing import Final, NamedTuple

from broker.model.stats import MESSAGE_SIZE_BUCKETS, Counter, Histograms, Stat
from broker.model.topic import PERMISSION_READ, PERMISSION_WRITE

REGION: Final = "DefaultRegion"


class SendRules(NamedTuple):
    """What the operator decided about sending; store_host is packed (8 or 20 bytes)."""

    store_host: bytes
    cluster: str
    permission: int = PERMISSION_READ | PERMISSION_WRITE
    accept_from_ms: int = 0
    auto_create_topics: bool = True
    default_queue_count: int = 8
    max_message_size_bytes: int = 4 * 1024 * 1024

    @property
    def block_tail(self) -> str:
        """What the broker adds at the end of every property block."""
        return f"CLUSTER\x01{self.cluster}\x02MSG_REGION\x01{REGION}\x02TRACE_ON\x01true\x02"


class SendStats:
    """How many messages of which topic were stored, and how large they are."""

    __slots__ = ("message_size", "messages_in", "throughput_in")

    def __init__(self) -> None:
        labels = ("topic", "message_type", "is_system")
        self.messages_in = Counter("rocketmq_messages_in_total", "Messages stored.", labels)
        self.throughput_in = Counter(
            "rocketmq_throughput_in_total", "Bytes of records stored.", labels
        )
        self.message_size = Histograms(
            "rocketmq_message_size", "Stored bytes of messages.", MESSAGE_SIZE_BUCKETS, labels
        )

    def count(self, topic: str, kind: str, count: int, stored_bytes: int) -> None:
        """Count the messages of one request, all of about one size."""
        assert count > 0
        labels = (topic, kind, "false")
        self.messages_in.add(labels, count)
        self.throughput_in.add(labels, stored_bytes)
        self.message_size.at(labels).observe_many(stored_bytes / count, count)

    @property
    def all(self) -> list[Stat]:
        """What metrics show."""
        return [self.messages_in, self.throughput_in, self.message_size]
