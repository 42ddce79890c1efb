"""Archives new messages of a log or of queues, in commits of about `STEP_SIZE` bytes.

A record is new if its physical offset is greater than that of the last archived record of its
queue. So runs may alternate between a log and its broker's queues. Queue offsets that begin again
at 0, because RocketMQ's topic was deleted and created again, do no harm.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pocketmq.files.disk import Disk
from pocketmq.format.columns.queues import QueueTable
from pocketmq.rebuild.log_files import (
    CLOCK_STEP_MS,
    LogFile,
    end_before,
    find_log_files,
    may_hold,
)
from pocketmq.rebuild.range_pass import Advance, no_advance
from pocketmq.tools.archive.log_ends import durable_end
from pocketmq.tools.lake.catalog import LastRecord, Manifest, QueueMark
from pocketmq.tools.lake.commits import Lake
from pocketmq.tools.lake.drafts import FILE_SIZE, LakeDrafts, Records
from pocketmq.tools.lake.ownership import check_own
from pocketmq.tools.selection import TIME_MAX, LogSearch, Selection

STEP_SIZE: Final = 2 * 1024 * 1024 * 1024
"""Bytes of records after which a run commits; a killed run repeats at most these."""


class Archived(NamedTuple):
    """Result of a run.

    upto       physical offset below which the lake has all messages; -1: unknown
    messages   messages that the run archived, in `files` files of `size` bytes
    gap        bytes of the log that retention removed before they were archived
    """

    upto: int
    messages: int
    files: int
    size: int
    gap: int = 0


class Archiver:
    """Writes new records to a lake; the caller passes each queue's records in order."""

    __slots__ = (
        "_committed",
        "_drafts",
        "_file_size",
        "_first",
        "_lake",
        "_next",
        "_pending",
        "_physical",
        "_step_size",
        "files",
        "last",
        "messages",
        "queues",
        "size",
    )  # fmt: skip

    def __init__(
        self, lake: Lake, *, committed: Callable[[Manifest], None] = lambda manifest: None,
        step_size: int = STEP_SIZE, file_size: int = FILE_SIZE,
    ) -> None:  # fmt: skip
        """Continues at the lake's end.

        committed   called after each commit
        """
        self._lake, self._committed = lake, committed
        self._step_size, self._file_size = step_size, file_size
        self.queues = QueueTable()
        """Queues of the records that are passed."""
        self._next = self._physical = np.full(0, -1, dtype=np.int64)
        self.last = lake.manifest.marks.last
        self.messages = self.files = self.size = self._pending = 0
        self._drafts = self._new_drafts()

    def add(self, page: Records) -> None:
        """Writes the new ones of these records.

        Errors   DiskFull, AllocationFailed
        """
        assert page.queues is self.queues
        self._number_queues()
        is_new = page.heads.physical_offset > self._physical[page.queue]
        if not is_new.all():
            page = page._replace(heads=page.heads.take(is_new), queue=page.queue[is_new])
        if not len(page.heads):
            return
        self._drafts.add_page(page)
        self._mark(page)
        self.messages += len(page.heads)
        self._pending += int(page.heads.size.sum())

    @property
    def is_due(self) -> bool:
        """Whether enough was written for a commit."""
        return self._pending >= self._step_size

    def commit(self, patterns: tuple[str, ...] = (), upto: int | None = None) -> None:
        """Makes the written records part of the lake.

        upto     physical offset below which all messages of the topics were passed; None: unknown
        Errors   OSError; DiskFull, AllocationFailed, FsyncFailed
        """
        drafts, before = self._drafts.close(), self._lake.manifest.marks
        names = self.queues.keys
        new = {
            names[number]: QueueMark(int(self._next[number]), int(self._physical[number]))
            for number in np.flatnonzero(self._physical >= 0).tolist()
        }
        marks = replace(before, queues={**before.queues, **new}, last=self.last)
        if upto is not None:
            marks = marks.walked_upto(patterns, upto)
        if marks != before or drafts:
            self._committed(self._lake.commit(drafts, marks))
        self.files += len(drafts)
        self.size += sum(draft.file.size for draft in drafts)
        self._drafts, self._pending = self._new_drafts(), 0

    def abandon(self) -> None:
        """Drops the records written since the last commit."""
        self._drafts.abandon()

    def archived(self, gap: int = 0) -> Archived:
        """Returns the result so far."""
        upto = self._lake.manifest.marks.upto
        return Archived(upto, self.messages, self.files, self.size, gap)

    def _new_drafts(self) -> LakeDrafts:
        return LakeDrafts(self._lake.spool, self._lake.name, self._file_size)

    def _number_queues(self) -> None:
        marks, begin = self._lake.manifest.marks.queues, len(self._physical)
        found = [marks.get(key, QueueMark(-1, -1)) for key in self.queues.keys[begin:]]
        if found:
            self._next = np.append(self._next, [mark.next_offset for mark in found])
            self._physical = np.append(self._physical, [mark.physical_offset for mark in found])
        assert len(self._physical) == len(self.queues.keys)

    def _mark(self, page: Records) -> None:
        heads = page.heads
        numbers, from_end = np.unique(page.queue[::-1], return_index=True)
        last = len(heads) - 1 - from_end
        self._next[numbers] = heads.queue_offset[last] + 1
        self._physical[numbers] = heads.physical_offset[last]
        at = int(heads.physical_offset.argmax())
        if heads.physical_offset[at] > self.last.physical_offset:
            begin, size = int(heads.begin[at]), int(heads.size[at])
            digest = sha256(page.buffer[begin : begin + size]).hexdigest()
            self.last = LastRecord(int(heads.physical_offset[at]), size, digest)


class LogToArchive(NamedTuple):
    """The part of a log that a run archives.

    end        physical offset of the log's durable end
    patterns   topics, which may have * and ?; empty: all but system topics
    until_ms   the run ends before the first record with this store time, or a later one
    """

    files: Sequence[LogFile]
    end: int
    patterns: tuple[str, ...] = ()
    until_ms: int | None = None

    @property
    def upto(self) -> int:
        """Physical offset at which the run ends."""
        if self.until_ms is None:
            return self.end
        held = may_hold(self.files, self.until_ms, TIME_MAX - CLOCK_STEP_MS)
        late = [file for file, is_held in zip(self.files, held, strict=True) if is_held]
        return min(end_before(late, late[0].base, self.until_ms) if late else self.end, self.end)


def log_to_archive(
    disk: Disk, directory: Path, log_file_bytes: int | None = None,
    patterns: tuple[str, ...] = (), until_ms: int | None = None,
) -> LogToArchive:  # fmt: skip
    """Returns the log of a store, running or stopped.

    Errors   StrayFile, WrongFileSize, StoreGap
    """
    files = find_log_files(directory, log_file_bytes)
    return LogToArchive(files, durable_end(disk, directory, files, 0), patterns, until_ms)


def archive_log(
    archiver: Archiver, lake: Lake, log: LogToArchive, *, advance: Advance = no_advance
) -> tuple[Archived, LogSearch]:
    """Archives the messages of a log that the lake does not have.

    Returns  the result, and the search with the damage that it skipped
    Errors   NotAStore: the lake is another store's; OSError; DiskFull, AllocationFailed
    Cost     reads each message once
    """
    check_own(lake.target, lake.manifest.marks.last, log.files, log.end)
    begin, upto = lake.manifest.marks.begin(log.patterns), log.upto
    first = log.files[0].base if log.files else log.end
    gap = max(first - begin, 0) if lake.manifest.run else 0
    chosen = Selection(log.patterns, begin=max(begin, first), upto=upto, with_system=False)
    search = LogSearch(log.files, chosen, advance=advance)
    search.queues = archiver.queues
    try:
        for buffer, heads, queue, _ in search:
            archiver.add(Records(buffer, heads, queue, archiver.queues))
            if archiver.is_due:
                archiver.commit(log.patterns, search.end)
        archiver.commit(log.patterns, max(search.end, begin))
    finally:
        archiver.abandon()
    return archiver.archived(gap), search
