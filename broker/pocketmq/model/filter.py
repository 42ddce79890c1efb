"""The interface of all filters, whatever their language (broker/pocketmq/filter).

    by the tags code of a unit   without reading the message; may match messages wrongly
    by the stored record         exact

Source: MessageFilter.isMatchedByConsumeQueue, isMatchedByCommitLog.
"""

from typing import Protocol


class Filter(Protocol):
    """Decides which messages of a topic a consumer wants. Immutable."""

    @property
    def is_everything(self) -> bool:
        """Whether every message matches, so that messages need not be examined."""

    @property
    def reads_records(self) -> bool:
        """Whether only records, and not tags codes, show which messages match."""

    def matches_code(self, code: int, /) -> bool:
        """Returns whether a message with this tags code may match."""

    def cost_ns(self, record: bytes, /) -> int:
        """Returns an upper bound of the time that `matches` takes for a record; 0: negligible."""

    def matches(self, record: bytes, /) -> bool:
        """Returns whether a message matches, given the bytes of one valid stored record."""
