"""The interface of all filters, whatever their language (`broker/pocketmq/filter`).

    by the code of a consume unit   without reading the message; may be wrong about a match
    by the stored record            exact

Source: MessageFilter.isMatchedByConsumeQueue, isMatchedByCommitLog.
"""

from typing import Protocol


class Filter(Protocol):
    """Which messages of a topic a consumer wants. Immutable."""

    @property
    def is_everything(self) -> bool:
        """Whether every message is wanted, which needs no look at them."""

    @property
    def reads_records(self) -> bool:
        """Whether codes decide nothing, so that only records show what matches."""

    def matches_code(self, code: int, /) -> bool:
        """Returns whether a message with this tags code in its consume unit may match."""

    def cost_ns(self, record: bytes, /) -> int:
        """Returns how long `matches` takes for a record, at most; 0 for next to nothing."""

    def matches(self, record: bytes, /) -> bool:
        """Returns whether a message matches: the bytes of one sound record, as they are stored."""
