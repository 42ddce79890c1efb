"""Counts messages delivered to consumers, by topic and group.

The label `is_retry` is set for received messages, as for RocketMQ's pops. For pulled messages the
label is empty, which Prometheus treats as absent.
"""

from typing import Final

from pocketmq.model.stats import Counter
from pocketmq.model.topic import is_system_group, is_system_topic

SERIES_MAX: Final = 1_000
"""Number of combinations (topic, group, is_retry) with a series of their own; clients choose group
names, and each series lengthens each scrape. Further combinations have the group name
`__other__`."""
OTHER_GROUP: Final = "__other__"
LABELS: Final = ("topic", "consumer_group", "is_system", "is_retry")


class Delivered:
    """Messages and bytes delivered by a broker."""

    __slots__ = ("_labels", "bytes_out", "messages_out")

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str, str], tuple[str, str, str, str]] = {}
        self.messages_out = Counter(
            "rocketmq_messages_out_total", "Messages handed to consumers.", LABELS
        )
        self.bytes_out = Counter(
            "rocketmq_throughput_out_total", "Stored bytes handed to consumers.", LABELS
        )

    @property
    def stats(self) -> list[Counter]:
        """Counters that metrics export."""
        return [self.messages_out, self.bytes_out]

    def count(
        self, topic: str, group: str, message_count: int, byte_count: int, is_retry: str = ""
    ) -> None:
        """Counts messages; `is_retry` is "true" or "false" for received messages, "" for pulled."""
        labels = self._labels.get((topic, group, is_retry))
        if labels is None:
            labels = self._new_labels(topic, group, is_retry)
        self.messages_out.add(labels, message_count)
        self.bytes_out.add(labels, byte_count)

    def _new_labels(self, topic: str, group: str, is_retry: str) -> tuple[str, str, str, str]:
        is_system = is_system_topic(topic) or is_system_group(group)
        has_room = len(self._labels) < SERIES_MAX
        shown = group if has_room else OTHER_GROUP
        labels = (topic, shown, "true" if is_system else "false", is_retry)
        if has_room:  # A group may have the name OTHER_GROUP.
            self._labels[topic, group, is_retry] = labels
            assert len(self._labels) <= SERIES_MAX
        return labels
