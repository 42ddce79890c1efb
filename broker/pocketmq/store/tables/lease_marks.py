"""How far the offsets on disk go with the journal of leases, which is in the log.

A message that is leased moves its group's offset in memory. On disk the offset moves once the
journal that contains the lease is durable: a power cut that took the journal must not leave an
offset above messages that no consumer received. Beside the offsets, in the same write:

    begin   everything in the journal below is settled
    known   the offsets are those of all leases below; leases from here on push them further
    adopted the journal alone contains all leases, and no real broker's revive topic
    set     offsets that were set by hand, and the end of the journal then: leases below do not
            push them

    lease ─► held ─► fence (the journal ends here) ─► … durable … ─► pass_fence ─► on disk

Numbers of the journal are queue offsets of its topic. A real broker ignores the member.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pocketmq.format.json_text import is_integer
from pocketmq.format.names import queue_id_from_name
from pocketmq.model.message import OFFSET_MAX

LEASES_MEMBER: Final = "pocketmqLeases"
Place = tuple[str, int]
"""(name of a row, queue id)."""


class _Fence(NamedTuple):
    live: dict[Place, int]
    begin: int
    known: int


@dataclass(slots=True, eq=False)
class LeaseMarks:
    """The marks, and which offsets wait for the journal."""

    begin: int = 0
    known: int = 0
    journal_end: int = 0
    """The queue offset the journal's next record gets; its writer keeps it here."""
    held: dict[Place, int] = field(default_factory=dict)
    """Offset on disk of one that is further in memory; -1: none."""
    is_kept: bool = False
    """Whether the table on disk has marks, or will have."""
    is_adopted: bool = False
    """Whether the journal alone contains all leases, and no real broker's revive topic."""
    _set: dict[Place, int] = field(default_factory=dict, init=False)
    _fence: _Fence | None = field(default=None, init=False)

    def load(self, member: Mapping[str, Any]) -> None:
        """Takes the marks of a file; invalid numbers count as 0."""
        self.is_kept = bool(member)
        self.is_adopted = member.get("adopted") is True
        self.begin = _count(member.get("begin"))
        self.known = _count(member.get("known"))
        rows = member.get("set")
        for name, queues in rows.items() if isinstance(rows, dict) else ():
            for queue_id, at in queues.items() if isinstance(queues, dict) else ():
                found = queue_id_from_name(str(queue_id))
                if found is not None:
                    self._set[str(name), found] = _count(at)

    def clamp(self) -> None:
        """Distrusts marks beyond the journal's end: they are of another log.

        Effects  the whole journal is read, and its leases push offsets that are behind them
        """
        if max(self.begin, self.known) > self.journal_end:
            self.begin = self.known = 0
        self._set = {place: min(at, self.journal_end) for place, at in self._set.items()}

    def member(self) -> dict[str, Any]:
        """Returns the member for the file."""
        rows: dict[str, dict[str, int]] = {}
        for (name, queue_id), at in self._set.items():
            # Text, as RocketMQ stops at a name without quotes in a member it does not know.
            rows.setdefault(name, {})[str(queue_id)] = at
        marks = {"adopted": self.is_adopted, "begin": self.begin, "known": self.known}
        return {**marks, "set": rows}

    def pushes(self, name: str, queue_id: int, journal_offset: int) -> bool:
        """Returns whether a lease in the journal moves an offset that was read from disk."""
        return journal_offset >= max(self.known, self._set.get((name, queue_id), 0))

    def hold(self, name: str, queue_id: int, queue_offset: int) -> None:
        """Keeps an offset's value on disk while it moves in memory."""
        self.held.setdefault((name, queue_id), queue_offset)

    def set_aside(self, name: str, queue_id: int) -> None:
        """Notes that an offset was set by hand: earlier leases do not move it."""
        self.held.pop((name, queue_id), None)
        if self._fence is not None:
            self._fence.live.pop((name, queue_id), None)
        if self.journal_end > self.known:
            self._set[name, queue_id] = self.journal_end
            self.is_kept = True

    def fence(self, live: dict[Place, int], begin: int, known: int) -> None:
        """Notes the held offsets and the end of the journal."""
        assert begin <= known
        self._fence = _Fence(live, begin, known)

    def pass_fence(self) -> bool:
        """Releases the values of the last fence to the disk; returns whether any differs."""
        fence, self._fence = self._fence, None
        if fence is None:
            return False
        for place, queue_offset in fence.live.items():
            if place in self.held:
                self.held[place] = queue_offset
        before = self.begin, self.known, self.is_adopted
        self.begin, self.known = fence.begin, fence.known
        self.is_kept = self.is_adopted = True
        self._set = {place: at for place, at in self._set.items() if at > fence.known}
        return bool(fence.live) or before != (self.begin, self.known, True)

    def let_go(self, live: Mapping[Place, int]) -> None:
        """Holds offsets no more that the disk has as they are in memory."""
        self.held = {place: at for place, at in self.held.items() if live.get(place) != at}


def _count(value: Any) -> int:
    return int(value) if is_integer(value, 0, OFFSET_MAX) else 0
