"""Numbers the changes of a leader's tables, and tracks which followers have them.

    write of a table (thread) ──► numbered change ──► cursor of each follower ──► record
                                        └──► waiting callers ◄── number on the follower's disk

Only the names of changed files are kept. A record has the content of its file when it is read. So
a slow follower gets only the latest content, and costs no memory. A new follower first gets every
file. New rows of the FIFO journal are sent alone, after the table of orders.
Source: none; slaves of RocketMQ ask for each table every minute.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from pocketmq.model.errors import NotReplicated
from pocketmq.model.step import Clock, Next, Now
from pocketmq.services.replication.table_record import (
    APPEND,
    DROP,
    FILE,
    HEAD_SIZE_MAX,
    RECORD_SIZE_MAX,
    RecordRefused,
    TableRecord,
)
from pocketmq.services.replication.timer_feed import TimerFeed
from pocketmq.store.tables.copied_files import (
    COPIED,
    EARLY,
    JOURNAL,
    ORDERS,
    REPEATED,
    TIMER_CHECK,
    CopiedFiles,
    Then,
)
from pocketmq.store.tables.copied_timer import TimerProof
from pocketmq.store.watermark import Watermark

IDLE_MS: Final = 60_000
"""Interval of steps while no caller waits."""


class Quorum(NamedTuple):
    """When a caller's change is replicated.

    needed       followers that must have it; 0: callers do not wait
    timeout_ms   longest wait
    """

    needed: int
    timeout_ms: int


class _Wait(NamedTuple):
    seq: int
    until_ms: int
    name: str
    then: Then


class TableCursor:
    """The position of one follower in a feed, and what it has on its disk.

    acknowledged   number of the last change up to which it has all; 0 before its first report
    """

    __slots__ = (
        "_feed", "_is_whole", "_pieces", "_ready", "_round", "_rows", "_sent", "_timer", "_todo",
        "acknowledged", "seq",
    )  # fmt: skip

    def __init__(self, feed: "TableFeed", timer: TimerProof | None) -> None:
        self._feed = feed
        self._sent: dict[str, int] = {}
        """Name -> number of the last change when the file was last read."""
        self._round = 0
        self._todo: list[str] = []
        self._ready: list[TableRecord] = []
        self._is_whole = True
        """Whether to send the whole journal, instead of the bytes `_rows`."""
        self._rows = range(0)
        self._timer = TimerFeed(feed.files.timer, timer)
        self._pieces: Iterator[TableRecord] | None = None
        """Records to send before the `timercheck` in `_ready`."""
        self.seq = 0
        """Number of the change up to which every record was returned by `next_record`."""
        self.acknowledged = 0

    @property
    def is_due(self) -> bool:
        """Whether there is a record to send."""
        return bool(self._ready or self._todo) or self._feed.seq > self._round

    def widen(self, rows: range | None) -> None:
        """Adds changed bytes of the journal; None: all of it. The caller holds the feed's lock."""
        if rows is None:
            self._is_whole = True
        elif self._rows:
            begin = min(self._rows.start, rows.start)
            self._rows = range(begin, max(self._rows.stop, rows.stop))
        else:
            self._rows = rows

    async def next_record(self) -> TableRecord | None:
        """Returns the next record to send, with its file's present content; None: nothing changed.

        Before the record, the caller sends the log up to the record's `at`, and not further.
        Errors   ReadFailed, RecordRefused: the file is too large
        """
        if not self._ready:
            if not self._todo:
                if not self.is_due:
                    return None
                self._round = self._feed.seq
                self._todo = [name for name in COPIED if self._is_changed(name)]
            names = (ORDERS, JOURNAL) if self._todo[0] in (ORDERS, JOURNAL) else self._todo[:1]
            self._todo = [name for name in self._todo if name not in names]
            read = await self._feed.files.run(partial(self._read, names))
            end = self._feed.log_end()  # Read after the files, which refer to no later record.
            self._ready = [one._replace(at=0 if one.name in EARLY else end) for one in read]
            if names == [TIMER_CHECK]:
                self._pieces = self._timer.records(read[0].content)
        if self._pieces is not None:
            piece: TableRecord | None
            piece = await self._feed.files.run(partial(next, self._pieces, None))
            if piece is not None:
                return piece._replace(seq=self.seq)
            self._pieces = None
        record = self._ready.pop(0)
        if not self._ready and not self._todo:
            self.seq = self._end_round()
        assert self.acknowledged <= self.seq <= self._round
        return record._replace(seq=self.seq)

    def _end_round(self) -> int:
        """Returns the number up to which all changes were read, including those made meanwhile."""
        with self._feed.lock:
            if not any(map(self._is_changed, COPIED)):
                self._round = self._feed.seq
        return self._round

    def _is_changed(self, name: str) -> bool:
        return self._feed.change_of(name) > self._sent.get(name, 0)

    def _read(self, names: Sequence[str]) -> list[TableRecord]:
        """Reads files in the tables' thread, so that no table is written between two of them."""
        return [self._record(name) for name in names if self._is_changed(name)]

    def _record(self, name: str) -> TableRecord:
        rows = None
        with self._feed.lock:
            self._sent[name] = self._feed.change_of(name)
            if name == JOURNAL:
                rows = None if self._is_whole else self._rows
                self._is_whole, self._rows = False, range(0)
        content = self._feed.files.read(name, rows)
        if content is None:
            return TableRecord(name, 0, DROP)
        if len(content) > RECORD_SIZE_MAX - HEAD_SIZE_MAX:
            raise RecordRefused(f"{name} has {len(content)} bytes, too many for a follower")
        if rows is not None:
            return TableRecord(name, 0, APPEND, position=rows.start, content=content)
        return TableRecord(name, 0, FILE, content=content)


class TableFeed:
    """The changes of one open store's tables.

    log_end   returns the physical offset after the last record
    quorum    returns when a change is replicated
    """

    __slots__ = (
        "_changed", "_clock", "_copied", "_cursors", "_loop", "_quorum", "_waits", "arrived",
        "files", "lock", "log_end", "seq",
    )  # fmt: skip

    def __init__(
        self,
        files: CopiedFiles,
        clock: Clock,
        log_end: Callable[[], int],
        quorum: Callable[[], Quorum],
    ) -> None:
        self.files = files
        self._clock = clock
        self.log_end = log_end
        self._quorum = quorum
        self._loop = asyncio.get_running_loop()
        self.lock = Lock()
        """Guards the fields that the threads which write tables change."""
        self.seq = 1
        """Number of the last change."""
        self._changed: dict[str, int] = dict.fromkeys(COPIED, 1)
        """Name -> number of its last change; 1: no change since the start."""
        self._cursors: list[TableCursor] = []
        self._copied = 0
        """Number of the last change up to which enough followers have all."""
        self._waits: deque[_Wait] = deque()
        self.arrived = Watermark()
        """Number of changes and waits, for tasks and steps that wait for one."""

    def begin(self) -> None:
        """Watches the tables from now on."""
        assert not self._cursors, "a follower came before the begin"
        self.files.watch.begin(self._told, self._when_copied)

    def close(self) -> None:
        """Ends all waits; later ones end at once, as no follower is connected."""
        self._cursors.clear()
        while self._waits:
            self._give_up(self._waits.popleft())

    def change_of(self, name: str) -> int:
        """Returns the number of a file's last change."""
        return self._changed[name]

    # -- followers -----------------------------------------------------------------------------
    def connect(self, timer: TimerProof | None = None) -> TableCursor:
        """Adds a follower, which first gets every file; `disconnect` must follow.

        timer   proof of the follower's copy of the timer log
        """
        cursor = TableCursor(self, timer)
        with self.lock:
            self._cursors.append(cursor)
        return cursor

    def disconnect(self, cursor: TableCursor) -> None:
        """Removes a follower; may be called again."""
        with self.lock:
            self._cursors = [one for one in self._cursors if one is not cursor]

    @property
    def follower_count(self) -> int:
        """Number of connected followers."""
        return len(self._cursors)

    @property
    def is_behind(self) -> bool:
        """Whether followers are connected, and none of them has every change."""
        return bool(self._cursors) and max(one.acknowledged for one in self._cursors) < self.seq

    def acknowledge(self, cursor: TableCursor, seq: int) -> None:
        """Records a follower's report: the last record on its disk has the number `seq`.

        Errors   RecordRefused: it was sent no such record
        """
        if not 0 <= seq <= cursor.seq:
            raise RecordRefused(f"it has tables up to change {seq}, was sent {cursor.seq}")
        cursor.acknowledged = max(cursor.acknowledged, seq)
        needed = self._quorum().needed
        have = sorted((one.acknowledged for one in self._cursors), reverse=True)
        if 0 < needed <= len(have):
            self._copied = max(self._copied, have[needed - 1])
        while self._waits and self._waits[0].seq <= self._copied:
            self._waits.popleft().then(None)

    # -- changes -------------------------------------------------------------------------------
    def _told(self, path: Path, changed: range | None) -> None:
        name = self.files.name_of(path)
        if not name:
            return
        with self.lock:
            self.seq += 1
            self._changed[name] = self.seq
            if name == JOURNAL:
                for cursor in self._cursors:
                    cursor.widen(changed)
        self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self.arrived.advance(self.arrived.value + 1)

    # -- callers that wait for followers -------------------------------------------------------
    def _when_copied(self, path: Path, then: Then) -> None:
        quorum = self._quorum()
        name = self.files.name_of(path) if quorum.needed else ""
        if not name or self._copied >= self.seq:
            then(None)
            return
        wait = _Wait(self.seq, self._clock.monotonic_ms() + quorum.timeout_ms, name, then)
        if len(self._cursors) < quorum.needed:
            self._give_up(wait)
            return
        self._waits.append(wait)
        self._ring()

    def _give_up(self, wait: _Wait) -> None:
        """Ends a wait; without error for files whose loss only repeats messages."""
        if wait.name in REPEATED:
            wait.then(None)
            return
        have = sum(one.acknowledged >= wait.seq for one in self._cursors)
        wait.then(NotReplicated(path=wait.name, count=have, limit=self._quorum().needed))

    def step(self, now: Now) -> Next:
        """Ends waits that exceeded their time limit."""
        while self._waits and self._waits[0].until_ms <= now.monotonic_ms:
            self._give_up(self._waits.popleft())
        at_ms = self._waits[0].until_ms if self._waits else now.monotonic_ms + IDLE_MS
        return Next(at_ms, self.arrived, self.arrived.value + 1)
