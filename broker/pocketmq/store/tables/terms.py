"""The terms of a store's leaders: `pocketmq/terms.json`.

    {"role": "leader", "leader": "10.0.0.2:8081", "terms": [[1, 353964]], "fence": null, "left": 0}

A term is the time of one leader. It has an epoch, which each promotion increments, and the physical
offset at which it began. A store that was never promoted has no terms: its epoch is 0, from offset
0 on. Two stores with the same epoch at an offset had the same leader there, so their logs agree up
to the next term's begin, or to the end of the shorter log. The exception: two followers that were
promoted at the same time, unknown to each other, begin terms of one epoch.

A leader that learns of a higher epoch is fenced: it accepts no messages any more.
Source: EpochFileCache, for the idea; RocketMQ has epochs only with its controller.
"""

import json
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import is_integer, read_object
from pocketmq.format.names import OWN_DIRECTORY, TERMS_FILE
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.replication import FOLLOWER, LEADER

EPOCH_MAX: Final = 2**31 - 1


class Term(NamedTuple):
    """The time of one leader; `begin` is the physical offset of its first record."""

    epoch: int
    begin: int


class Fence(NamedTuple):
    """Why a leader accepts no messages: another one leads since `begin`.

    leader   its address; "": unknown
    """

    epoch: int
    begin: int
    leader: str


class TermTable:
    """The terms of one store. All writes are durable when they return, and block.

    Threads may write at the same time: two connections may fence a leader in the same instant.
    Except in `shut`, a write that raises DiskFull or StoreFailed changes no attribute. After
    FsyncFailed, the file may have the new content.
    """

    __slots__ = ("_file", "_lock", "fence", "history", "leader", "left_bytes", "role")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._lock = Lock()
        self._file = TableFile(disk, directory / OWN_DIRECTORY / TERMS_FILE)
        self.role = ""
        """LEADER or FOLLOWER, as an operator chose; "": the settings decide."""
        self.leader = ""
        """Address of the broker that a follower follows, or that a promoted one followed."""
        self.history: list[Term] = []
        """The terms, ascending by epoch and by begin."""
        self.fence: Fence | None = None
        self.left_bytes = 0
        """Bytes of the log of `leader` that this broker was promoted without, as far as known."""

    def load(self) -> None:
        """Reads the file; a missing one counts as empty.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        found = self._file.read(_decode)
        if found is not None:
            self.role, self.leader, self.history, self.fence, self.left_bytes = found

    def leader_or(self, setting: str) -> str:
        """Returns the address of the leader, or a text if it is unknown; "" if the broker leads.

        setting   the leader unless an operator chose a role, or the broker is fenced
        """
        if self.fence is not None:
            return self.fence.leader or "another broker"
        if self.role:
            return self.leader if self.role == FOLLOWER else ""
        return setting

    @property
    def epoch(self) -> int:
        """The epoch of the last term."""
        return self.history[-1].epoch if self.history else 0

    @property
    def begin(self) -> int:
        """The physical offset at which the last term began."""
        return self.history[-1].begin if self.history else 0

    def lead(self, end: int, former: str = "", left_bytes: int = 0) -> None:
        """Begins a term of this broker; `end` is the physical end of its log.

        It must return before the first record of the term is appended.

        former       address of the leader that it followed; "": `leader`, from the last `follow`
        left_bytes   bytes of that leader's log that this broker lacks, as far as it is known
        Errors       DiskFull, StoreFailed
        """
        with self._lock:
            above = max(self.epoch, self.fence.epoch if self.fence else 0)
            history = [term for term in self.history if term.begin <= end]
            history.append(Term(above + 1, end))
            self._write(LEADER, former or self.leader, history, None, left_bytes)

    def follow(self, leader: str) -> None:
        """Makes this broker a follower of the one at "host:port".

        Errors   DiskFull, StoreFailed
        """
        with self._lock:
            self._write(FOLLOWER, leader, self.history, None)

    def adopt(self, history: list[Term]) -> None:
        """Takes over the terms of the leader, before any of its records is appended.

        Errors   DiskFull, StoreFailed
        """
        with self._lock:
            if history != self.history:
                self._write(self.role, self.leader, history, self.fence)

    def shut(self, fence: Fence) -> None:
        """Fences this leader.

        Errors   DiskFull, StoreFailed: the fence holds only until the process ends
        """
        assert fence.epoch >= self.epoch, "a fence is of an earlier epoch"
        with self._lock:
            self.fence = fence
            self._write(self.role, self.leader, self.history, fence)

    def common_end(self, epoch: int, end: int) -> int:
        """Returns the offset up to which a log of an earlier term may agree with this store's log.

        epoch, end   last epoch and physical end of the other log
        """
        later = [term.begin for term in self.history if term.epoch > epoch]
        return min(end, *later) if later else end

    def _write(
        self, role: str, leader: str, history: list[Term], fence: Fence | None, left_bytes: int = 0
    ) -> None:
        assert history == sorted(history), "terms do not ascend"
        text = {
            "role": role, "leader": leader, "terms": history, "fence": fence, "left": left_bytes
        }  # fmt: skip
        self._file.write(json.dumps(text, sort_keys=True).encode())
        self.role, self.leader, self.history, self.fence = role, leader, history, fence
        self.left_bytes = left_bytes


def terms_of(rows: Any) -> list[Term]:
    """Decodes terms from JSON: pairs of epoch and begin.

    Errors   ValueError
    """
    if not isinstance(rows, list):
        raise ValueError("the terms are no list")
    found = [_term(row) for row in rows]
    if any(a.epoch >= b.epoch or a.begin > b.begin for a, b in pairwise(found)):
        raise ValueError("the terms do not ascend")
    return found


def _term(row: Any) -> Term:
    if not isinstance(row, list) or len(row) < len(Term._fields):
        raise ValueError("a term has an epoch and an offset")
    epoch, begin = row[:2]
    if not is_integer(epoch, 1, EPOCH_MAX):
        raise ValueError(f"{epoch} is no epoch")
    if not is_integer(begin, 0, OFFSET_MAX):
        raise ValueError(f"{begin} is no physical offset")
    return Term(epoch, begin)


def _decode(content: bytes) -> tuple[str, str, list[Term], Fence | None, int]:
    found = read_object(content)
    role, leader, fence = found.get("role"), found.get("leader"), found.get("fence")
    if role not in ("", LEADER, FOLLOWER):
        raise ValueError(f"role {role!r} is not known")
    if not isinstance(leader, str):
        raise ValueError("the leader's address is no text")
    shut = None
    if fence is not None:
        shut = Fence(*_term(fence), str(fence[2]) if len(fence) > 2 else "")
    left_bytes = found.get("left", 0)  # Earlier versions do not write it.
    if not is_integer(left_bytes, 0, OFFSET_MAX):
        raise ValueError(f"{left_bytes} is no number of bytes")
    return role, leader, terms_of(found.get("terms")), shut, left_bytes
