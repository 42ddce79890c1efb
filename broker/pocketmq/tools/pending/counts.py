"""Counts pending messages: delayed messages by hour, half messages by producer group."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pocketmq.tools.pending.halves import OpenHalf
from pocketmq.tools.pending.timers import PendingMessage

HOUR_MS = 3_600_000
Document = dict[str, Any]


@dataclass(slots=True)
class _Span:
    """Message count, and earliest and latest time, ms."""

    messages: int
    first_ms: int
    last_ms: int

    def add(self, time_ms: int) -> None:
        self.messages += 1
        self.first_ms, self.last_ms = min(self.first_ms, time_ms), max(self.last_ms, time_ms)
        assert self.first_ms <= self.last_ms


def due_counts(waiting: Iterable[PendingMessage]) -> list[Document]:
    """Returns the number of messages due in each hour, by kind and topic; earliest hours first."""
    spans: dict[tuple[int, str, str], _Span] = {}
    for row in waiting:
        due_ms = row.due_timestamp_ms
        key = (due_ms // HOUR_MS, row.kind, row.topic)
        spans.setdefault(key, _Span(0, due_ms, due_ms)).add(due_ms)
    return [
        {
            "kind": kind,
            "topic": topic,
            "messages": span.messages,
            "first_due_timestamp_ms": span.first_ms,
            "last_due_timestamp_ms": span.last_ms,
        }
        for (_, kind, topic), span in sorted(spans.items())
    ]


def half_counts(halves: Iterable[OpenHalf]) -> list[Document]:
    """Returns count, first and last store time of half messages, by producer group and topic."""
    spans: dict[tuple[str, str], _Span] = {}
    for half in halves:
        stored_ms = half.store_timestamp_ms
        key = (half.producer_group, half.topic)
        spans.setdefault(key, _Span(0, stored_ms, stored_ms)).add(stored_ms)
    return [
        {
            "producer_group": group,
            "topic": topic,
            "messages": span.messages,
            "first_store_timestamp_ms": span.first_ms,
            "last_store_timestamp_ms": span.last_ms,
        }
        for (group, topic), span in sorted(spans.items())
    ]
