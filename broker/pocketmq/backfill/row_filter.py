"""Selects the rows of a table.

A filter skips whole files, and skips rows before their columns are built.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.columns.messages import MessageColumns
from pocketmq.model.decimal import signed_number_of
from pocketmq.model.message import QueueKey
from pocketmq.model.topic import is_group_topic, is_system_topic

NUMBER_MIN: Final = -(2**63)
NUMBER_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions on rows: allowed topics, and bounds by column.

    topics   None: any topic
    bounds   (least, largest number) by column
    pattern  regular expression for whole names of topics; topics of the broker and of groups do not
             match; "": any topic
    floors   least queue offset, by queue
    keys     keys or unique keys, of which a message has one; None: any message
    """

    topics: frozenset[str] | None = None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    pattern: str = ""
    floors: Mapping[QueueKey, int] = field(default_factory=dict)
    keys: frozenset[str] | None = None

    def bound(self, name: str) -> tuple[int, int]:
        """Returns the least and the largest number of a column."""
        return self.bounds.get(name, (NUMBER_MIN, NUMBER_MAX))

    def within(self, name: str, least: int = NUMBER_MIN, largest: int = NUMBER_MAX) -> "RowFilter":
        """Returns the filter with an additional condition: a column is in [least, largest]."""
        low, high = self.bound(name)
        return replace(self, bounds={**self.bounds, name: (max(low, least), min(high, largest))})

    def of_topics(self, topics: Iterable[str]) -> "RowFilter":
        """Returns the filter with an additional condition: the topic is one of `topics`."""
        known = frozenset(topics)
        return replace(self, topics=known if self.topics is None else known & self.topics)

    def has_topic(self, topic: str) -> bool:
        """Returns whether the filter may select rows of a topic."""
        if self.topics is not None and topic not in self.topics:
            return False
        if not self.pattern:
            return True
        is_users = not (is_system_topic(topic) or is_group_topic(topic))
        return is_users and re.fullmatch(self.pattern, topic) is not None

    @property
    def takes_every_queue(self) -> bool:
        """Whether neither topics, nor a pattern, nor floors select rows."""
        return self.topics is None and not self.pattern and not self.floors

    def of_queues(
        self, keys: Sequence[QueueKey], queue: NDArray[np.int64], queue_offset: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Returns a mask of the rows that topics, pattern and floors select; None: all rows.

        keys    the queues
        queue   index in `keys` of each row's queue
        """
        if self.takes_every_queue:
            return None
        wanted = np.array([self.has_topic(topic) for topic, _ in keys], dtype=np.bool_)
        kept: NDArray[np.bool_] = wanted[queue]
        if self.floors:
            floors = np.array([self.floors.get(key, 0) for key in keys], dtype=np.int64)
            kept &= queue_offset >= floors[queue]
        return None if kept.all() else kept

    def with_keys(self, columns: MessageColumns) -> NDArray[np.bool_]:
        """Returns a mask of the messages that have one of the keys."""
        wanted = {key.encode() for key in self.keys or ()}
        lists = columns.keys()
        found = np.array([text in wanted for text in lists.texts.each()], dtype=np.int64)
        sums = np.concatenate(([0], np.cumsum(found)))
        kept: NDArray[np.bool_] = sums[lists.bounds[1:]] > sums[lists.bounds[:-1]]
        kept |= np.array([text in wanted for text in columns.unique_keys().each()], dtype=np.bool_)
        return kept

    def overlaps(self, name: str, least: int, largest: int) -> bool:
        """Returns whether the filter may select rows whose column is in [least, largest]."""
        low, high = self.bound(name)
        return low <= largest and least <= high

    def rows(
        self, names: Collection[str], read: Callable[[str], NDArray[Any]]
    ) -> NDArray[np.bool_] | None:
        """Returns a mask of the rows that the bounds of `names` select; None: all rows."""
        kept: NDArray[np.bool_] | None = None
        for name, (low, high) in self.bounds.items():
            if name in names:
                values = read(name)
                found = (values >= low) & (values <= high)
                kept = found if kept is None else kept & found
        return None if kept is None or kept.all() else kept


def time_from_text(text: str) -> int:
    """Parses a time: ms since 1970, or ISO 8601 with a zone; returns ms since 1970.

    Errors   ValueError
    """
    time_ms = signed_number_of(text)
    if time_ms is not None:
        return time_ms
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone; write 2026-11-21T02:30:00Z or milliseconds")
    return (moment - _EPOCH) // _MILLISECOND
