"""The interface of all filters (broker/pocketmq/filter).

A match by tags code does not read the message, and may be wrong; a match by record is exact.
Source: MessageFilter.isMatchedByConsumeQueue, isMatchedByCommitLog.
"""

from typing import Protocol


class Filter(Protocol):
    """Decides which messages of a topic a consumer receives; immutable."""

    @property
    def is_everything(self) -> bool:
        """Whether every message matches."""

    @property
    def reads_records(self) -> bool:
        """Whether tags codes cannot exclude messages, so that records have to be read."""

    def matches_code(self, code: int, /) -> bool:
        """Returns whether a message with this tags code may match."""

    def cost_ns(self, record: bytes, /) -> int:
        """Returns the estimated time in ns that `matches` takes for a record; 0: negligible."""

    def matches(self, record: bytes, /) -> bool:
        """Returns whether a message matches, by the bytes of its valid record."""
