"""Small tables in memory, written as whole files; many changes share one write.

    change, change, change ─► snapshot (loop) ─► encoded and written (thread) ─► `saved` returns

One write runs at a time; the next write covers changes made during it. Rows are replaced and never
modified, so that a snapshot copies only references.

A change that a full disk refuses may be undone in memory (`Revert`), so that what callers were
refused has no effect. Other tables keep it and write it the next time.
Source: ConfigManager.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.files.table_watch import Then
from pocketmq.format.names import CONFIG_DIRECTORY
from pocketmq.format.table_json import decode_rows, encode_row, encode_rows, encode_table
from pocketmq.model.errors import DiskFull, LimitReached, RequestError, TableUnreadable
from pocketmq.model.step import Clock
from pocketmq.store.job import or_failed
from pocketmq.store.watermark import Watermark

logger = logging.getLogger(__name__)

Config = TypeVar("Config")
State = TypeVar("State")
Rows = dict[str, dict[Any, Any]]
Encode = Callable[[], bytes]
"""Encodes a snapshot, in a thread."""
COUNT_MAX: Final = 2**31 - 1
"""Limit of rows of a table for which no limit is set."""
NO_VERSION: Final = {"counter": 0, "stateVersion": 0, "timestamp": 0}
Work = Callable[[], None]
"""Blocking function, called in a thread."""


def at_once(then: Then) -> None:
    """Calls `then`; the default `when_copied`, for a table that followers do not copy."""
    then(None)


class Revert(Generic[State]):
    """The content of a table's file, to which a table in memory goes back.

    state     returns a copy of the table in memory
    restore   replaces the table in memory by such a copy
    """

    __slots__ = ("_begun", "_restore", "_state", "_stored")

    def __init__(self, state: Callable[[], State], restore: Callable[[State], None]) -> None:
        self._state = state
        self._restore = restore
        self._begun = self._stored = state()

    def begin(self) -> None:
        """Copies the table at the begin of a write."""
        self._begun = self._state()

    def end(self) -> None:
        """Records that the write ended: the file contains the copy."""
        assert self._begun is not self._stored, "no write was begun"
        self._stored = self._begun

    def loaded(self) -> None:
        """Records that the table in memory is that of the file."""
        self._begun = self._stored = self._state()

    def adopt(self, add: Callable[[State], None]) -> None:
        """Changes the copies like the table in memory, by a change that no write may undo."""
        add(self._stored)
        if self._begun is not self._stored:
            add(self._begun)

    def undo(self) -> None:
        """Restores the content of the file."""
        self._restore(self._stored)
        self.loaded()


class Saving:
    """Makes changes durable, one write at a time.

    begin         takes a snapshot of all changes; returns the function that writes it, or None if
                  nothing is left to write
    when_copied   calls its argument once enough followers have what was written
    revert        undoes all unwritten changes if the disk is full; None: they are kept
    """

    __slots__ = (
        "_begin", "_change", "_job", "_pool", "_saved", "_stored", "_when_copied", "_written",
        "revert",
    )  # fmt: skip

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        begin: Callable[[], Work | None],
        when_copied: Callable[[Then], None] = at_once,
    ) -> None:
        self._begin = begin
        self._pool = pool
        self._when_copied = when_copied
        self.revert: Revert[Any] | None = None
        self._change = self._written = self._stored = 0
        self._saved = Watermark()
        self._job: asyncio.Future[None] | None = None

    def touch(self) -> None:
        """Registers a change of the table."""
        self._change += 1

    async def saved(self) -> None:
        """Waits until every change so far is durable, here and on enough followers.

        Errors   DiskFull, StoreFailed; NotReplicated, unless the file is REPEATED (copied_files.py)
        """
        change = self._change
        self.save_soon()
        await self._saved.reached(change)

    def when_saved(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None when every change so far is durable, or with the write's error."""
        self.save_soon()
        if self._saved.value >= self._change:
            then(None)
            return
        future = self._saved.reached(self._change)
        future.add_done_callback(lambda done: then(done.exception()))

    def save_soon(self) -> None:
        """Begins to write the changes unless a write is running.

        The error of a failed write goes to the waiters of `saved`. Then the next call repeats the
        write, unless its changes were undone.
        """
        if self._job is not None or self._written >= self._change:
            return
        change, work = self._change, self._begin()
        if self.revert is not None:
            self.revert.begin()
        if work is None:
            self._copy(change)
            return
        self._job = asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._job.add_done_callback(
            or_failed(lambda job: self._finish(job, change), self._saved.fail)
        )

    def _finish(self, job: "asyncio.Future[None]", change: int) -> None:
        self._job = None
        error = job.exception()
        if error is not None:
            if self.revert is not None and isinstance(error, DiskFull):
                self.revert.undo()
                self._change = max(self._stored, self._written)
            self._saved.fail(error)
            return
        assert change <= self._change
        self._stored = change
        if self.revert is not None:
            self.revert.end()
        self._copy(change)
        if self._saved.waiter_count:
            self.save_soon()

    def _copy(self, change: int) -> None:
        self._written = change
        self._when_copied(partial(self._end, change))

    def _end(self, change: int, error: BaseException | None) -> None:
        if error is None:
            self._saved.advance(change)
            return
        self._written = self._saved.value  # The next call of `saved` repeats the write.
        self._saved.fail(error)
        if self._change > change:  # Later changes failed as well, and must be stored here at least.
            self.save_soon()


class DurableTable(Saving):
    """Writes one table to its file after changes.

    snapshot   returns a function that encodes the present table
    """

    __slots__ = ("_file", "_snapshot")

    def __init__(
        self, file: TableFile, pool: ThreadPoolExecutor, snapshot: Callable[[], Encode]
    ) -> None:
        super().__init__(pool, self._writing, file.when_copied)
        self._file = file
        self._snapshot = snapshot

    def _writing(self) -> Work:
        encode = self._snapshot()
        return lambda: self._file.write(encode())


class RowTable:
    """One of RocketMQ's tables: rows in one member, and a version; other members are preserved.

    written      returns the rows to write; None: `rows` is written
    is_counted   whether the rows are counts that can be recomputed: an unreadable table is empty
    file         the table's file; None: the file `file_name` in config/
    """

    __slots__ = (
        "_clock", "_durable", "_encoded", "_file", "_is_counted", "_member", "_others", "_written",
        "is_absent", "rows",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, file_name: str, member: str, clock: Clock,
        pool: ThreadPoolExecutor, written: Callable[[], Rows] | None = None, *,
        is_counted: bool = False, file: TableFile | None = None,
    ) -> None:  # fmt: skip
        self._is_counted = is_counted
        self._file = file or TableFile(disk, directory / CONFIG_DIRECTORY / file_name)
        self._written = written
        self._encoded: dict[str, tuple[dict[Any, Any], str]] = {}
        """Cache of encoded rows, used by the writing thread."""
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._member = member
        self._clock = clock
        self._others: dict[str, Any] = {}
        self.is_absent = False
        """Whether `load` found no file."""
        self.rows: Rows = {}
        """Rows by name; a row is replaced, never modified, and then `touch` is called."""

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable unless `is_counted`; ReadFailed
        """
        try:
            read = self._file.read(lambda text: decode_rows(text, self._member))
            self.is_absent = read is None
            found = read or {}
            if read is not None and not self._file.is_sound:
                # The current version is absent or damaged: later changes are lost.
                logger.warning("table.previous", extra={"path": str(self._file.previous)})
        except TableUnreadable as error:
            if not self._is_counted:
                raise
            logger.warning("table.counted", extra={"path": error.path, "reason": error.why})
            found = {}
        self._others = found
        self.rows = self._others.pop(self._member, None) or {}

    def undo_refused(
        self, state: Callable[[], Any] = lambda: None,
        restore: Callable[[Any], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Makes a write that a full disk refuses undo its changes.

        state, restore   as of `Revert`, for what the owner derives from the rows
        """

        def copy() -> tuple[Rows, dict[str, Any], Any]:
            return dict(self.rows), dict(self._others), state()

        def put_back(found: tuple[Rows, dict[str, Any], Any]) -> None:
            self.rows, self._others = dict(found[0]), dict(found[1])
            restore(found[2])

        self._durable.revert = Revert(copy, put_back)

    def loaded(self) -> None:
        """Records that the rows, and what the owner derives from them, are those of the file."""
        if self._durable.revert is not None:
            self._durable.revert.loaded()

    def adopt(self, add: Callable[[Rows, Any], None]) -> None:
        """Changes the rows by what no refused write may undo.

        add   changes given rows and the owner's state
        """
        if self._durable.revert is not None:
            self._durable.revert.adopt(lambda found: add(found[0], found[2]))

    @property
    def path(self) -> Path:
        """Path of the table's file."""
        return self._file.path

    def other_rows(self, member: str) -> dict[str, Any]:
        """Returns another member of the file; {} if it does not exist or is no object."""
        found = self._others.get(member)
        return found if isinstance(found, dict) else {}

    @property
    def version(self) -> dict[str, Any]:
        """The table's version, which each change of rows increments (DataVersion)."""
        found = self._others.get("dataVersion")
        return dict(found) if isinstance(found, dict) else dict(NO_VERSION)

    def content(self) -> dict[str, Any]:
        """Returns version and rows as they would be written now."""
        rows = self._written() if self._written is not None else self.rows
        return {"dataVersion": self.version, self._member: rows}

    def keep(self, member: str, value: dict[str, Any]) -> None:
        """Sets another member of the file, which RocketMQ may drop."""
        assert member != self._member
        self._others[member] = value

    def touch(self) -> None:
        """Increments the version after a change of rows."""
        version = self.version
        self._others["dataVersion"] = {
            "counter": int(version.get("counter", 0)) + 1,
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": self._clock.wall_ms(),
        }
        self._durable.touch()

    def _snapshot(self) -> Encode:
        assert self._member not in self._others
        rows = dict(self._written() if self._written is not None else self.rows)
        others = {k: dict(v) if isinstance(v, dict) else v for k, v in self._others.items()}
        if self._written is None:
            return lambda: encode_rows(others, self._member, self._texts(rows))
        table = {**others, self._member: rows}
        return lambda: encode_table(dict(sorted(table.items())))

    def _texts(self, rows: Rows) -> dict[str, str]:
        known = self._encoded
        found: dict[str, tuple[dict[Any, Any], str]] = {}
        for name, row in rows.items():
            made = known.get(name)
            if made is None or made[0] is not row:
                made = row, encode_row(row)
            found[name] = made
        self._encoded = found
        return {name: text for name, (_, text) in found.items()}

    async def replace(self, rows: Rows) -> None:
        """Sets all rows; durable when it returns."""
        if rows != self.rows:
            self.rows = rows
            self.touch()
        await self.saved()

    async def put(self, name: str, row: dict[str, Any]) -> None:
        """Sets a row; durable when it returns."""
        self.rows[name] = row
        self.touch()
        await self.saved()

    async def drop(self, name: str) -> None:
        """Removes a row, if it exists; durable when it returns."""
        if self.rows.pop(name, None) is not None:
            self.touch()
        await self.saved()

    async def saved(self) -> None:
        """Waits until every change so far is durable, here and on enough followers.

        Errors   those of `Saving.saved`
        """
        await self._durable.saved()

    def when_saved(self, then: Callable[[BaseException | None], None]) -> None:
        """Calls `then` with None when every change so far is durable, or with the write's error."""
        self._durable.when_saved(then)

    def save_soon(self) -> None:
        """Begins to write the changes unless a write is running."""
        self._durable.save_soon()


class TableKind(NamedTuple, Generic[Config]):
    """The names, errors and rows of one kind of table.

    check      raises unless a name is legal
    missing    returns the error for a name that does not exist
    from_row   decodes the row of a name
    field      name of the kind in settings, as in limits.topics_max
    """

    check: Callable[[str], None]
    missing: Callable[[str], RequestError]
    from_row: Callable[[str, dict[str, Any]], Config]
    field: str


class NamedTable(Generic[Config]):
    """A table by name: topics or groups. Rows with illegal names are preserved but ignored."""

    __slots__ = ("_configs", "_kind", "_listeners", "_table", "count_max")

    def __init__(self, table: RowTable, kind: TableKind[Config]) -> None:
        self.count_max = COUNT_MAX
        """Upper limit of rows; a full table refuses new ones, except the broker's own topics."""
        self._table = table
        self._kind = kind
        self._configs: dict[str, Config] = {}
        self._listeners: list[Callable[[str], None]] = []
        table.undo_refused(lambda: dict(self._configs), self._restore)

    @property
    def version(self) -> dict[str, Any]:
        """The table's version (DataVersion)."""
        return self._table.version

    def follow(self, listener: Callable[[str], None]) -> None:
        """Calls `listener`, which must not raise, with each name that is set or removed."""
        self._listeners.append(listener)

    def _notify(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        self._table.load()
        rows = self._table.rows.items()
        self._configs = {n: self._kind.from_row(n, row) for n, row in rows if self._is_name(n)}
        self._table.loaded()

    def reload(self) -> None:
        """Reads the table again, and calls the listeners with the names that differ.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        before = self._configs
        self.load()
        self._notify_changed(before)

    def _restore(self, configs: dict[str, Config]) -> None:
        before, self._configs = self._configs, dict(configs)
        self._notify_changed(before)

    def _notify_changed(self, before: dict[str, Config]) -> None:
        for name in before.keys() | self._configs.keys():
            if before.get(name) != self._configs.get(name):
                self._notify(name)

    def _is_name(self, name: str) -> bool:
        try:
            self._kind.check(name)
        except RequestError:
            return False
        return True

    def _check_count(self) -> None:
        count, limit, field = self.count, self.count_max, self._kind.field
        if count >= limit:
            setting = f"limits.{field}_max"
            raise LimitReached(count=count, limit=limit, field=field, setting=setting)

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self._configs)

    def find(self, name: str) -> Config | None:
        """Returns the entry of a name; None if it does not exist."""
        return self._configs.get(name)

    def existing(self, name: str) -> Config:
        """Returns the entry of a name, which must exist.

        Errors   IllegalTopic, IllegalGroup; TopicNotFound, GroupNotFound
        """
        config = self._configs.get(name)
        if config is None:
            self._kind.check(name)
            raise self._kind.missing(name)
        return config

    def names(self) -> list[str]:
        """Returns all names, sorted."""
        return sorted(self._configs)

    async def remove(self, name: str) -> None:
        """Removes an entry, if it exists; durable when it returns.

        Errors   DiskFull, NotReplicated, StoreFailed
        Source   TopicConfigManager.deleteTopicConfig, deleteSubscriptionGroupConfig
        """
        if self._configs.pop(name, None) is not None:
            assert name not in self._configs
            self._notify(name)
            await self._table.drop(name)
        await self._table.saved()

    async def _put(self, name: str, row: dict[str, Any]) -> Config:
        config = self._configs[name] = self._kind.from_row(name, row)
        self._notify(name)
        await self._table.put(name, row)
        return config
