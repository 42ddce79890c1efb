"""Marks that relate the offsets on disk to the journal of leases in the log.

A lease advances its group's offset in memory at once, and on disk once the journal with the lease
is durable. Otherwise, after a power cut, an offset could be above messages that no consumer
received. The member LEASES_MEMBER of the offsets' file, which RocketMQ ignores, contains the marks.
They are queue offsets of the journal's topic:

    begin    all leases below this offset are settled
    known    the offsets on disk include all leases below this one; a start applies later leases
    adopted  whether the journal contains all leases, and RocketMQ's revive topic contains none
    set      for an offset that an operator set: the journal's end at that time; earlier leases do
             not advance the offset
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
    """The marks, and the offsets that wait for the journal."""

    begin: int = 0
    known: int = 0
    journal_end: int = 0
    """Queue offset of the journal's next record, set by the journal's writer."""
    held: dict[Place, int] = field(default_factory=dict)
    """Values on disk of offsets that have advanced in memory; -1 for no row on disk."""
    is_kept: bool = False
    """Whether the table on disk has marks, or gets them with the next write."""
    is_adopted: bool = False
    """Whether the journal contains all leases, and RocketMQ's revive topic contains none."""
    _set: dict[Place, int] = field(default_factory=dict, init=False)
    _fence: _Fence | None = field(default=None, init=False)

    def load(self, member: Mapping[str, Any]) -> None:
        """Decodes the marks of a file; invalid numbers count as 0."""
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
        """Resets marks beyond the journal's end, which belong to another log.

        Effects  the whole journal is read, and its leases advance the offsets below them
        """
        if max(self.begin, self.known) > self.journal_end:
            self.begin = self.known = 0
        self._set = {place: min(at, self.journal_end) for place, at in self._set.items()}

    def member(self) -> dict[str, Any]:
        """Returns the marks for the file."""
        rows: dict[str, dict[str, int]] = {}
        for (name, queue_id), at in self._set.items():
            # Keys are text: RocketMQ fails on unquoted names in unknown members.
            rows.setdefault(name, {})[str(queue_id)] = at
        marks = {"adopted": self.is_adopted, "begin": self.begin, "known": self.known}
        return {**marks, "set": rows}

    def pushes(self, name: str, queue_id: int, journal_offset: int) -> bool:
        """Returns whether a lease at `journal_offset` advances an offset read from disk."""
        return journal_offset >= max(self.known, self._set.get((name, queue_id), 0))

    def hold(self, name: str, queue_id: int, queue_offset: int) -> None:
        """Keeps `queue_offset` as the value to write while the offset advances in memory."""
        self.held.setdefault((name, queue_id), queue_offset)

    def set_aside(self, name: str, queue_id: int) -> None:
        """Records that an operator set an offset: earlier leases do not advance it."""
        self.held.pop((name, queue_id), None)
        if self._fence is not None:
            self._fence.live.pop((name, queue_id), None)
        if self.journal_end > self.known:
            self._set[name, queue_id] = self.journal_end
            self.is_kept = True

    def fence(self, live: dict[Place, int], begin: int, known: int) -> None:
        """Notes offsets to write once the journal is durable up to `known`; see `pass_fence`."""
        assert begin <= known
        self._fence = _Fence(live, begin, known)

    def pass_fence(self) -> bool:
        """Permits the offsets of the last `fence` to be written; returns whether they changed."""
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
        """Drops held offsets whose value on disk equals the value in memory."""
        self.held = {place: at for place, at in self.held.items() if live.get(place) != at}


def _count(value: Any) -> int:
    return int(value) if is_integer(value, 0, OFFSET_MAX) else 0
