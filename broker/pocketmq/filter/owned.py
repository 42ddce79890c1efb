"""Filter for retry topics that several groups may share: only one group's messages match."""

from collections.abc import Callable, Mapping
from typing import Final, final

from pocketmq.format.named_properties import properties_size
from pocketmq.format.rewrite import facts_of
from pocketmq.model.filter import Filter
from pocketmq.model.ownership import is_ambiguous
from pocketmq.model.system_topics import is_of_group
from pocketmq.model.topic import retry_topic

DECODED_NS: Final = 50
"""Cost of decoding one byte of properties, in ns."""


@final
class Owned:
    """A filter that skips the messages of other groups in a shared retry topic.

    Only the properties of a record show to which group it belongs.

    wanted     filter for the group's own messages
    is_owned   decides by a record's properties whether it belongs to the group
    """

    __slots__ = ("_is_owned", "_wanted")

    is_everything = False
    reads_records = True

    def __init__(self, wanted: Filter, is_owned: Callable[[Mapping[str, str]], bool]) -> None:
        assert not isinstance(wanted, Owned), "the filter is wrapped already"
        self._wanted = wanted
        self._is_owned = is_owned

    def matches_code(self, code: int, /) -> bool:
        """Returns True, as tags codes do not show the group."""
        return True

    def cost_ns(self, record: bytes, /) -> int:
        """Returns the estimated cost of `matches` in ns; `matches` decodes all properties."""
        return DECODED_NS * properties_size(record) + self._wanted.cost_ns(record)

    def matches(self, record: bytes, /) -> bool:
        """Returns whether a message belongs to the group and matches the group's filter."""
        _, properties, _ = facts_of(record)
        return self._is_owned(properties) and self._wanted.matches(record)


def owned_by(group: str, topic: str, wanted: Filter) -> Filter:
    """Returns a group's filter, limited to the group's messages if others may share the topic."""
    if not group or not is_ambiguous(topic):
        return wanted
    is_sent_back = topic == retry_topic(group)
    return Owned(wanted, lambda read: is_of_group(group, read, is_sent_back=is_sent_back))


def owned_where(
    topic: str, wanted: Filter, is_owned: Callable[[Mapping[str, str]], bool]
) -> Filter:
    """Returns a filter, limited to owned messages if several groups may share the topic."""
    return Owned(wanted, is_owned) if is_ambiguous(topic) else wanted
