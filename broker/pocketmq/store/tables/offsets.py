"""Committed offsets of consumer groups: RocketMQ's `config/consumerOffset.json`.

    commit     durable when it returns; many commits share one write of the table
    advance    in memory at once, on disk some seconds later: a crash may revert it
    begin      in memory at once, and a write begins at once
    lease      in memory at once, on disk once the lease journal is durable (lease_marks.py)
Source: ConsumerOffsetManager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.table_json import BOTH_MEMBER, OFFSETS_MEMBER, queue_offsets
from pocketmq.log.table_files import OffsetFiles
from pocketmq.model.step import Clock, Next, Now
from pocketmq.store.tables.durable_table import Rows, RowTable
from pocketmq.store.tables.groups import GroupTable
from pocketmq.store.tables.lease_marks import LEASES_MEMBER, LeaseMarks
from pocketmq.store.tables.offset_resets import OffsetResets

_PULL_OFFSETS: Final = "pullOffsetTable"
"""Member in which RocketMQ stores the offsets of pull consumers, with the same row names."""
_SEPARATOR: Final = "@"
CHECKPOINT_INTERVAL_MS: Final = 5_000
"""Interval of writes of advanced offsets (flushConsumerOffsetInterval)."""


class Clamped(NamedTuple):
    """An offset that exceeded its queue's end, and the end to which it was clamped."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    end: int


class ConsumerOffsets:
    """Offsets by (group, topic, queue id)."""

    __slots__ = ("_files", "_groups", "_set_back", "_table", "leases", "resets")

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        clock: Clock,
        pool: ThreadPoolExecutor,
        groups: GroupTable,
    ) -> None:
        self._groups = groups
        files = OffsetFiles(disk, directory)
        self._table = RowTable(
            disk, directory, files.path.name, OFFSETS_MEMBER, clock, pool, self._durable_rows,
            file=files,
        )  # fmt: skip
        self._files = files
        self._set_back: dict[tuple[str, str], None] = {}
        self.leases = LeaseMarks()
        self.resets = OffsetResets(clock)

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._table.load()
        # Other writers may quote the queue ids; RocketMQ reads both.
        self._table.rows = {
            name: queue_offsets(queues) for name, queues in self._table.rows.items()
        }
        if self._files.is_pair:
            self._table.keep(BOTH_MEMBER, {})
        self.leases.load(self._table.other_rows(LEASES_MEMBER))

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns a group's offset in a queue; None before its first commit."""
        return self._table.rows.get(f"{topic}{_SEPARATOR}{group}", {}).get(queue_id)

    def has_some(self, group: str, topic: str) -> bool:
        """Returns whether a group has an offset in any queue of a topic."""
        return bool(self._table.rows.get(f"{topic}{_SEPARATOR}{group}"))

    def all_of(self, group: str) -> dict[str, dict[int, int]]:
        """Returns a group's offsets: topic -> queue id -> queue offset."""
        rows = self._table.rows.items()
        return {_topic_of(name): dict(row) for name, row in rows if _group_of(name) == group}

    def content(self) -> dict[str, Any]:
        """Returns the table as it would be written now, for a copy."""
        pulled = self._table.other_rows(_PULL_OFFSETS)
        return self._table.content() | ({_PULL_OFFSETS: pulled} if pulled else {})

    def positions(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Yields (group, topic, queue id -> queue offset) of every group in every topic.

        It yields the offsets of its first step: rows are replaced and never modified.
        """
        for name, row in self._table.rows.copy().items():
            yield _group_of(name), _topic_of(name), row

    def topics_by_group(self) -> dict[str, list[str]]:
        """Returns the topics in which each group has an offset, sorted by group and topic."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._table.rows):
            found.setdefault(_group_of(name), []).append(_topic_of(name))
        return dict(sorted(found.items()))

    def set_back(self) -> list[tuple[str, str]]:
        """Returns (group, topic) of offsets that were set back or removed since the last call.

        Consumers that wait for messages of such a queue must read the queue again.
        """
        found = list(self._set_back)
        self._set_back.clear()
        return found

    def advance(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Raises a group's offset in a queue, but never lowers it; `step` persists it periodically.

        Shape    the group has a row
        Cost     a copy of the group's offsets in the topic
        """
        name = f"{topic}{_SEPARATOR}{group}"
        if queue_offset > self._table.rows.get(name, {}).get(queue_id, -1):
            self._set(name, {queue_id: queue_offset})

    def begin(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Sets those offsets of a group that are missing, and begins a write of all together.

        Effects  after the write, a crash does not move the group past messages stored later
        """
        name = f"{topic}{_SEPARATOR}{group}"
        row = self._table.rows.get(name, {})
        missing = {queue_id: at for queue_id, at in queue_offsets.items() if queue_id not in row}
        if missing:
            self._set(name, missing)
        self._table.when_saved(lambda _: None)  # `step` repeats a failed write.

    def lease(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Advances a group's offset above leased messages; written only after `pass_fence`.

        Shape    the group has a row
        Cost     about 1 µs
        """
        name = f"{topic}{_SEPARATOR}{group}"
        row = self._table.rows.get(name)
        old = -1 if row is None else row.get(queue_id, -1)
        if queue_offset <= old:
            return
        self.leases.hold(name, queue_id, old)
        if row is None:
            self._table.rows[name] = {queue_id: queue_offset}
        else:
            self._table.rows[name] = {**row, queue_id: queue_offset}
        self._table.touch()

    def fence(self, journal_begin: int, journal_end: int) -> None:
        """Records the leased offsets with the present range of the journal."""
        live = {key: self._live(*key) for key in self.leases.held}
        self.leases.fence(live, journal_begin, journal_end)

    def pass_fence(self) -> None:
        """Permits the last fence's offsets to be written: the journal is durable up to it."""
        if self.leases.pass_fence():
            self.leases.let_go({key: self._live(*key) for key in self.leases.held})
            self._table.touch()

    def hold_nothing(self) -> None:
        """Permits all offsets to be written: the whole log is durable."""
        if self.leases.held:
            self.leases.held.clear()
            self._table.touch()

    def _live(self, name: str, queue_id: int) -> int:
        return int(self._table.rows[name][queue_id])

    def _durable_rows(self) -> Rows:
        """Returns the rows to write, with old values for offsets whose leases may be lost."""
        if self.leases.is_kept:
            self._table.keep(LEASES_MEMBER, self.leases.member())
        rows = dict(self._table.rows)
        for (name, queue_id), offset_held in self.leases.held.items():
            row = dict(rows[name])
            if offset_held < 0:
                del row[queue_id]
            else:
                row[queue_id] = offset_held
            rows[name] = row
        return rows

    async def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Sets a group's offset in a queue; durable when it returns.

        Effects  creates the group at its first commit
        Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
        Source   ConsumerOffsetManager.commitOffset, SubscriptionGroupManager.findSubscriptionGroup
        """
        await self.set_many(group, topic, {queue_id: queue_offset})

    async def set_many(self, group: str, topic: str, queue_offsets: Mapping[int, int]) -> None:
        """Sets a group's offsets in queues of a topic, all in one write; durable when it returns.

        Effects  creates the group unless it exists
        Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
        """
        await self._groups.ensure(group)
        if queue_offsets:
            self._set(f"{topic}{_SEPARATOR}{group}", queue_offsets)
        await self._table.saved()

    async def clamp(self, end_of: Callable[[str, str, int], int]) -> list[Clamped]:
        """Clamps offsets to the ends of their queues, durably; returns the clamped offsets.

        end_of   (group, topic, queue id) -> highest offset of a group in a queue
        Effects  a group that had read messages lost in a crash does not skip new messages
        Errors   DiskFull, StoreFailed
        """
        clamped: list[Clamped] = []
        for name, queues in [*self._table.rows.items()]:
            topic, group = _topic_of(name), _group_of(name)
            found = [
                Clamped(group, topic, i, at, end_of(group, topic, i)) for i, at in queues.items()
            ]
            beyond = [one for one in found if one.queue_offset > one.end]
            if beyond:
                self._set(name, {one.queue_id: one.end for one in beyond})
            clamped += beyond
        if clamped:
            await self._table.saved()
        return clamped

    def clamp_one(self, group: str, topic: str, queue_id: int, end: int) -> Clamped | None:
        """Clamps an offset to `end` and begins a write; returns None if the offset is not above it.

        Cost     for an offset beyond the end, a copy of the group's offsets in the topic
        """
        found = self.find(group, topic, queue_id)
        if found is None or found <= end:
            return None
        self._set(f"{topic}{_SEPARATOR}{group}", {queue_id: end})
        self._table.when_saved(lambda _: None)  # `step` repeats a failed write.
        return Clamped(group, topic, queue_id, found, end)

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Copies a group's offsets in a topic to another group; durable when it returns.

        Effects  if the source has offsets in the topic, they replace all offsets of the target
        Errors   IllegalGroup, LimitReached, DiskFull, NotReplicated, StoreFailed
        Source   ConsumerOffsetManager.cloneOffset
        """
        await self._groups.ensure(target)
        queues = self._table.rows.get(f"{topic}{_SEPARATOR}{source}")
        if queues:
            name = f"{topic}{_SEPARATOR}{target}"
            gone = self._table.rows.get(name, {}).keys() - queues.keys()
            if gone:
                self._forget(name, gone)
            self._set(name, queues)
            self._table.rows[name] = queues
        await self._table.saved()

    async def remove_topic(self, topic: str) -> None:
        """Deletes all groups' offsets in a topic; durable when it returns.

        Errors   DiskFull, StoreFailed
        Source   ConsumerOffsetManager.cleanOffsetByTopic
        """
        await self._remove(lambda name: _topic_of(name) == topic)

    async def remove_group(self, group: str) -> None:
        """Deletes a group's offsets; durable when it returns.

        Errors   DiskFull, StoreFailed
        Source   ConsumerOffsetManager.removeOffset
        """
        await self._remove(lambda name: _group_of(name) == group)

    async def _remove(self, is_meant: Callable[[str], bool]) -> None:
        tables = (self._table.rows, self._table.other_rows(_PULL_OFFSETS))
        found = [(table, name) for table in tables for name in table if is_meant(str(name))]
        for table, name in found:
            row = table.pop(name)
            self._forget(name, row if table is self._table.rows else ())
            self.resets.forget(_group_of(name), _topic_of(name), row)
        if found:
            self._table.touch()
        await self._table.saved()

    def _forget(self, name: str, queue_ids: Iterable[int]) -> None:
        """Records removed offsets: earlier leases must not advance new offsets of these queues."""
        self._set_back[_group_of(name), _topic_of(name)] = None
        for queue_id in queue_ids:
            self.leases.set_aside(name, queue_id)

    def _set(self, name: str, queue_offsets: Mapping[int, int]) -> None:
        row = self._table.rows.get(name, {})
        for queue_id, queue_offset in queue_offsets.items():
            self.leases.set_aside(name, queue_id)
            if queue_offset < row.get(queue_id, 0):
                self._set_back[_group_of(name), _topic_of(name)] = None
        self._table.rows[name] = {**row, **queue_offsets}
        self._table.touch()

    def step(self, now: Now) -> Next:
        """Persists advanced offsets periodically."""
        self._table.save_soon()
        return Next(now.monotonic_ms + CHECKPOINT_INTERVAL_MS)

    async def saved(self) -> None:
        """Waits until all offsets, also those set by `advance`, are durable.

        Errors   DiskFull, StoreFailed
        """
        await self._table.saved()


def _topic_of(name: str) -> str:
    return name.partition(_SEPARATOR)[0]


def _group_of(name: str) -> str:
    return name.partition(_SEPARATOR)[2]
