"""Ships the changes of a store, running or stopped, to an archive.

    tables that hold offsets ─► timer log ─► log up to its durable offset ─► other tables ─► moment

The order is that of a backup (tools/copies.py), so every moment can be restored. The store is
neither written to nor locked. Each round ships the new bytes of a log as one part. Upkeep, which
may take longer than a round, replaces several small parts by a large one.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.model.errors import NotAStore
from pocketmq.model.store_shape import StoreShape
from pocketmq.rebuild.log_files import KnownShape, find_log_files
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.archive.append_only import AppendOnly, FileRemoved
from pocketmq.tools.archive.catalog import (
    LOG,
    MOMENTS,
    TIMER,
    Moment,
    hour_of,
)
from pocketmq.tools.archive.log_ends import (
    damage_between,
    durable_end,
    timer_end,
    timer_end_now,
    timer_files,
)
from pocketmq.tools.archive.moments import begin_archive, first_moment, last_time, read_moment
from pocketmq.tools.archive.objects import Objects
from pocketmq.tools.archive.small_files import SmallFiles
from pocketmq.tools.copies import Turn


class Shipped(NamedTuple):
    """Result of a round.

    upto     physical offset up to which the archive has the log
    size     bytes of the log that the round shipped
    is_new   whether the round made a moment; False: nothing has changed
    gap      bytes of the log that retention removed before they were shipped
    damage   offset and reason of the first damage in the shipped bytes; "" without damage
    """

    upto: int
    size: int
    is_new: bool
    gap: int = 0
    damage: str = ""


class Shipper:
    """Ships one store to one archive, round by round."""

    def __init__(
        self, disk: Disk, directory: Path, objects: Objects, sizes: KnownShape, *,
        now_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        """Reads what the archive has.

        Errors   NotAStore: the archive is another store's, or has another format
        """
        self._disk, self._directory, self._objects = disk, directory, objects
        self._now_ms, self._log_file_bytes = now_ms, sizes.commit_log_file_size_bytes
        self._shape = asdict(StoreShape.of(sizes))
        begin_archive(objects)
        self._log, self._timer = AppendOnly(objects, LOG), AppendOnly(objects, TIMER)
        time = last_time(objects)
        self._check_own(None if time is None else read_moment(objects, time))
        self._time_ms = -1 if time is None else time
        """Time of the last moment."""
        self._files = SmallFiles(disk, directory, objects)
        self._last: tuple[object, ...] = ()
        self._checked = max(self._log.upto, 0)
        """Offset up to which the shipped bytes were searched for damage."""

    @property
    def target(self) -> str:
        """The archive's path or URL, without credentials."""
        return self._objects.target

    def _check_own(self, moment: Moment | None) -> None:
        """Raises NotAStore if the archive ends with bytes that are not those of the store.

        Effects  removes bytes that no moment has, if the store was restored from the last moment
        """
        last = self._log.last
        if last is None:
            return
        disk, store = self._disk, self._directory
        files = find_log_files(store, self._log_file_bytes)
        known = last.begin if moment is None else min(last.begin, moment.upto)
        end = durable_end(disk, store, files, known)
        why = self._log.differs(files, end, -1 if moment is None else moment.upto)
        timer = timer_files(disk, store)
        if not why and moment is not None:
            end = timer_end_now(disk, store, timer)
            why = self._timer.differs(timer, end, moment.timer_upto).replace("log", "timer log")
        if why:
            other = "this store was restored from an earlier moment"
            why = f"{why}; it is another store's archive, or {other}"
            raise NotAStore(path=self._objects.target, why=why)

    def round(self, advance: Advance = no_advance) -> Shipped:
        """Ships all new bytes, then does the upkeep.

        Errors   as of `ship` and `upkeep`
        """
        shipped = self.ship(advance)
        return shipped._replace(damage=self.upkeep())

    def upkeep(self) -> str:
        """Replaces small parts by large ones, and searches the shipped bytes for damage.

        Another thread may run `ship` meanwhile. A machine that is lost during upkeep loses nothing
        by it.

        Returns  path, offset and reason of the first damage since the last call; "" without damage
        Errors   OSError: the target fails; StrayFile, WrongFileSize, StoreGap
        """
        self._log.merge()
        self._timer.merge()
        # Last, as an error after it would leave found damage untold.
        end = max(self._log.upto, self._checked)
        files = find_log_files(self._directory, self._log_file_bytes)
        damage = damage_between(files, self._checked, end)
        self._checked = end
        return damage

    def ship(self, advance: Advance = no_advance) -> Shipped:
        """Ships all bytes that are new since the last round.

        Errors   OSError: the target fails; the next round ships the missing bytes
                 StrayFile, WrongFileSize, StoreGap, StoreTooNew
        Cost     if nothing has changed, only reads of a few small files
        """
        # A clock that was set back does not make this moment an earlier one.
        now = max(self._now_ms(), self._time_ms + 1)
        files = [*self._files.of(Turn.FIRST, now), *self._files.of(Turn.EARLY, now)]
        timer = self._ship_timer(self._files.timer_check, advance)
        log = find_log_files(self._directory, self._log_file_bytes)
        before = self._log.upto
        end = durable_end(self._disk, self._directory, log, max(before, 0))
        try:
            gap = self._log.ship(log, end, advance)
        except FileRemoved:  # The next round begins after the removed file.
            return Shipped(max(self._log.upto, 0), 0, is_new=False)
        assert max(self._log.upto, 0) >= end
        files += self._files.of(Turn.LATE, now)
        files += self._files.of_queues(now, end, self._log_file_bytes)
        begin = log[0].base if log else end
        moment = Moment(now, begin, end, *timer, shape=self._shape, files=files)
        content = (begin, end, timer, sorted(files), hour_of(now))
        is_new = content != self._last
        if is_new:
            self._objects.put(moment.name, [moment.encode()])
            self._last, self._time_ms = content, now
        size = max(end - max(before, begin), 0)
        return Shipped(max(self._log.upto, begin), size, is_new, gap)

    def prune(self, keep_ms: int) -> None:
        """Removes whole hours of moments older than `keep_ms`, and the bytes only they need."""
        oldest = hour_of(self._now_ms() - keep_ms)
        hours = self._objects.names(MOMENTS)
        for hour in hours[:-1]:
            if hour < oldest:
                self._objects.delete(f"{MOMENTS}/{hour}")
        kept = [hour for hour in hours if hour >= oldest or hour == hours[-1]]
        first = first_moment(self._objects, kept[0]) if kept else None
        if first is not None:
            self._log.prune(first.begin)
            self._timer.prune(first.timer_begin)

    def _ship_timer(self, check: bytes, advance: Advance) -> tuple[int, int, int]:
        """Ships the timer log up to its durable position; returns its begin, end and file size."""
        files = timer_files(self._disk, self._directory)
        if not check or not files:
            return 0, 0, 0
        upto = timer_end(check, files)
        self._timer.ship(files, upto, advance)
        return files[0].base, max(upto, files[0].base), files[0].size
