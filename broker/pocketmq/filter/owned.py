"""Of a retry topic that several groups may have by its name, only the messages of one's own."""

from collections.abc import Callable, Mapping
from typing import Final, final

from pocketmq.format.named_properties import properties_size
from pocketmq.format.rewrite import facts_of
from pocketmq.model.filter import Filter
from pocketmq.model.ownership import is_ambiguous
from pocketmq.model.system_topics import is_of_group
from pocketmq.model.topic import retry_topic

DECODED_NS: Final = 50
"""Of each byte of properties that are decoded."""


@final
class Owned:
    """A filter that skips messages of other groups; tags codes do not show the group.

    wanted     the filter for one's own messages
    is_owned   judges a record by its properties
    """

    __slots__ = ("_is_owned", "_wanted")

    is_everything = False
    reads_records = True

    def __init__(self, wanted: Filter, is_owned: Callable[[Mapping[str, str]], bool]) -> None:
        assert not isinstance(wanted, Owned), "who owns a message is asked once"
        self._wanted = wanted
        self._is_owned = is_owned

    def matches_code(self, code: int, /) -> bool:
        """Returns that any message may match."""
        return True

    def cost_ns(self, record: bytes, /) -> int:
        """Returns how long `matches` takes for a record, at most: all properties are decoded."""
        return DECODED_NS * properties_size(record) + self._wanted.cost_ns(record)

    def matches(self, record: bytes, /) -> bool:
        """Returns whether a message is one's own, and wanted."""
        _, properties, _ = facts_of(record)
        return self._is_owned(properties) and self._wanted.matches(record)


def owned_by(group: str, topic: str, wanted: Filter) -> Filter:
    """Returns the filter of a group that reads a topic by its name."""
    if not group or not is_ambiguous(topic):
        return wanted
    is_sent_back = topic == retry_topic(group)
    return Owned(wanted, lambda read: is_of_group(group, read, is_sent_back=is_sent_back))


def owned_where(
    topic: str, wanted: Filter, is_owned: Callable[[Mapping[str, str]], bool]
) -> Filter:
    """Returns a filter that keeps the owned messages if the topic may belong to several groups."""
    return Owned(wanted, is_owned) if is_ambiguous(topic) else wanted
