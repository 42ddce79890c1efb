"""Message groups of an ordered queue that wait for a receive.

A heap orders waiting groups by their first message; stale entries are dropped at its top. So the
cost of a receive depends on the number of its messages, not on the number of groups.
Source: none; RocketMQ locks a whole queue.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

PLACES_KEPT: Final = 64
"""The heap is rebuilt when it is longer than this, plus twice the number of waiting groups."""


@final
class MessageGroup:
    """The scanned and unsettled messages of one message group."""

    __slots__ = ("held", "offsets")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        """Queue offsets, ascending."""
        self.held: set[int] = set()
        """Queue offsets of leased messages."""


@final
class IdleGroups:
    """Message groups that wait for a receive, by name."""

    __slots__ = ("_first", "_groups")

    def __init__(self) -> None:
        self._groups: dict[str, MessageGroup] = {}
        self._first: list[tuple[int, str]] = []

    def __contains__(self, key: object) -> bool:
        return key in self._groups

    def __len__(self) -> int:
        """Returns the number of heap entries."""
        return len(self._first)

    def add(self, key: str, group: MessageGroup) -> None:
        """Adds a group, or updates the group's first message."""
        assert group.offsets, "an idle group has no messages"
        self._groups[key] = group
        heappush(self._first, (group.offsets[0], key))
        if len(self._first) > 2 * len(self._groups) + PLACES_KEPT:
            self._first = [(group.offsets[0], key) for key, group in self._groups.items()]
            heapify(self._first)

    def discard(self, key: str) -> None:
        """Removes a group; ignores an unknown group."""
        self._groups.pop(key, None)

    def lowest(self, count_max: int) -> list[int]:
        """Returns the lowest queue offsets of all groups, at most `count_max`.

        Cost     independent of the number of groups
        """
        found: list[int] = []
        seen: list[tuple[int, str]] = []
        more: list[tuple[int, int, list[int]]] = []
        while len(found) < count_max:
            first = self._next_first(seen)
            if more and (first < 0 or more[0][0] < first):
                queue_offset, place, offsets = heappop(more)
            elif first >= 0:
                seen.append(heappop(self._first))
                queue_offset, place, offsets = first, 0, self._groups[seen[-1][1]].offsets
            else:
                break
            found.append(queue_offset)
            if place + 1 < len(offsets):
                heappush(more, (offsets[place + 1], place + 1, offsets))
        for place_seen in seen:
            heappush(self._first, place_seen)
        return found

    def _next_first(self, seen: list[tuple[int, str]]) -> int:
        while self._first:
            queue_offset, key = self._first[0]
            group = self._groups.get(key)
            is_known = bool(seen) and seen[-1] == self._first[0]
            if group is not None and group.offsets[0] == queue_offset and not is_known:
                return queue_offset
            heappop(self._first)
        return -1
