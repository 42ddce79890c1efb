"""A moment of a broker's life in numbers, and what happened between two moments.

Rates come from counts that only grow: messages ever stored, and the sums of committed offsets. A
topic that is made anew, or a group that is reset, counts from there.
"""

from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from broker.cli.connection import Connection
from broker.cli.group.look import all_lags
from broker.client.values import StoreStatus


class TopicMoment(NamedTuple):
    """A topic's numbers; committed_count and lag_messages are those of all groups together."""

    message_count: int
    stored_count: int
    committed_count: int
    lag_messages: int
    group_count: int


@dataclass(frozen=True)
class Snapshot:
    """All topics and the store; `taken_s` is monotonic time."""

    taken_s: float
    status: StoreStatus
    topics: dict[str, TopicMoment] = field(default_factory=dict)


class TopicRates(NamedTuple):
    """A topic between two snapshots; rates in messages a second."""

    name: str
    in_per_s: float
    out_per_s: float
    lag_messages: int
    message_count: int
    group_count: int


def take_snapshot(broker: Connection) -> Snapshot:
    """Ask a broker for all its topics, groups and its store.

    Errors   ClientError
    """
    status = broker.ask(broker.client.store_status())
    lags: dict[str, list[tuple[int, int]]] = {}
    for lag in all_lags(broker):
        lags.setdefault(lag.topic, []).append((lag.committed_sum, lag.lag_messages))
    topics: dict[str, TopicMoment] = {}
    token = ""
    while True:
        page = broker.ask(broker.client.all_topic_counts(page_token=token))
        for counts in page.topics:
            found = lags.get(counts.name, [])
            topics[counts.name] = TopicMoment(
                counts.message_count,
                counts.stored_count,
                sum(committed for committed, _ in found),
                sum(left for _, left in found),
                len(found),
            )
        token = page.next_page_token
        if not token:
            return Snapshot(monotonic(), status, topics)


def rates(before: Snapshot, after: Snapshot) -> list[TopicRates]:
    """Return what each topic did between two snapshots, the busiest first."""
    seconds = max(after.taken_s - before.taken_s, 1e-3)
    found = []
    for name, now in after.topics.items():
        then = before.topics.get(name, now)
        stored = max(now.stored_count - then.stored_count, 0)
        committed = max(now.committed_count - then.committed_count, 0)
        found.append(
            TopicRates(
                name,
                round(stored / seconds, 1),
                round(committed / seconds, 1),
                now.lag_messages,
                now.message_count,
                now.group_count,
            )
        )
    return sorted(found, key=_rank)


def snapshot_document(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """Return two snapshots as one JSON document."""
    seconds = max(after.taken_s - before.taken_s, 1e-3)
    written = max(after.status.appended_offset - before.status.appended_offset, 0)
    topics = rates(before, after)
    return {
        "interval_s": round(seconds, 3),
        "in_per_s": round(sum(row.in_per_s for row in topics), 1),
        "out_per_s": round(sum(row.out_per_s for row in topics), 1),
        "log_bytes_per_s": round(written / seconds),
        "lag_messages": sum(row.lag_messages for row in topics),
        "store": after.status._asdict(),
        "topics": [row._asdict() for row in topics],
    }


def _rank(row: TopicRates) -> tuple[float, int, str]:
    return -row.in_per_s - row.out_per_s, -row.lag_messages, row.name
