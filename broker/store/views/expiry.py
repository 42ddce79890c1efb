"""Letting old messages go: which files there are, how old they are, and removing them.

    log      oldest file out of the row ─► name gone, directory synced (in a thread) ─► unmapped
    queues   leading files whose units all lead below the log, never the last; minimum corrected
    index    leading files whose records all lie below the log, never the last

Order: the log first, so that no queue misses what the log still has. A reader who holds a removed
file ends in peace; whoever asks for what is gone is told where the queue begins now. Nothing is
decided here (services/retention.py).
Source: CleanCommitLogService, CleanConsumeQueueService, IndexService.deleteExpiredFile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.files.mapped_file import MappedFile
from broker.format.names import files_from, queue_directory
from broker.format.record import (
    BLANK_SIZE,
    HEADS,
    HOSTS_V6_MASK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
)
from broker.log.index_file import IndexFile
from broker.model.errors import StoreFailed
from broker.model.offsets import OFFSET_MAX
from broker.store.marks import Marks
from broker.store.starting.structures import Structures

TURN_SECONDS: Final = 0.003
"""Queues are looked at for this long before others get their turn."""
WALK_BYTES: Final = 1024 * 1024
UNKNOWN_TIME: Final = OFFSET_MAX
"""Store time of what cannot be read: never old enough."""

logger = logging.getLogger(__name__)


class LogFile(NamedTuple):
    """The oldest file of a log: the physical offset of its first byte, and its length."""

    base: int
    size_bytes: int


class Expiry:
    """Removes the oldest files of an open store; its methods are called one at a time."""

    __slots__ = ("_disk", "_last_times", "_marks", "_parts", "_pool")

    def __init__(self, parts: Structures, disk: Disk, marks: Marks) -> None:
        self._parts = parts
        self._disk = disk
        self._marks = marks
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="expire")
        self._last_times: dict[int, int] = {}

    def oldest(self) -> LogFile | None:
        """Return the oldest file that may go: not the last one, and durable in every view."""
        log = self._parts.log
        files = log.files.files
        if len(files) < 2:
            return None
        end = files[0].base + files[0].size
        # What a power cut takes of the views is built again from the log: it must still be there.
        durable = self._parts.checkpoint.values.logics_physical_offset
        is_done = end <= min(self._marks.dispatched.value, self._marks.flushed.value, durable)
        return LogFile(files[0].base, files[0].size) if is_done else None

    @property
    def log_size_bytes(self) -> int:
        """Length of all commit-log files."""
        log = self._parts.log
        return len(log.files.files) * log.file_size_bytes

    async def last_time(self, oldest: LogFile) -> int:
        """Return the store time of the last record in the oldest file, ms; 0 without a record.

        Cost     one walk over the file in a thread, once
        """
        known = self._last_times.get(oldest.base)
        if known is not None:
            return known
        file = self._parts.log.files.files[0]
        assert file.base == oldest.base
        file.hold()
        job = asyncio.get_running_loop().run_in_executor(self._pool, _last_time, file)
        job.add_done_callback(lambda _: file.let_go())
        self._last_times = {oldest.base: await asyncio.shield(job)}
        return self._last_times[oldest.base]

    async def drop(self, oldest: LogFile) -> None:
        """Remove the oldest file of the log; durable when it returns.

        Errors   WriteFailed: it stays, in the log and on disk
        """
        files = self._parts.log.files
        assert files.files[0].base == oldest.base
        file = files.drop_first()

        def settle(job: "asyncio.Future[None]") -> None:
            if job.exception() is None:
                file.close()
            else:
                files.files.insert(0, file)

        await self._in_thread(self._forget, [file.path], settle=settle)
        logger.info("commit_log.expired", extra={"path": str(file.path), "bytes": file.size})

    async def trim_views(self) -> None:
        """Let queues and index follow the log, a few queues at a time."""
        lower = self._parts.log.min_offset
        begun = perf_counter()
        gone: list[MappedFile] = []
        for key in [*self._parts.queues.queues]:
            queue = self._parts.queues.queues.get(key)
            if queue is not None:
                gone += queue.trim(lower)
            if perf_counter() - begun > TURN_SECONDS:
                await self._remove(gone)
                gone = []
                await asyncio.sleep(0)
                begun = perf_counter()
        await self._remove([*gone, *self._parts.index.trim(lower)])

    async def drop_queues(self, topic: str) -> None:
        """Remove the consume queues of a topic, files and directories."""
        queues = self._parts.queues
        keys = {key for key in queues.queues if key[0] == topic}
        directories = [queue_directory(queues.directory, *key) for key in sorted(keys)]
        ends = [q.files.files[-1] for q in queues.doubtful if q.topic == topic]
        files = queues.take(keys)
        for file in files:
            file.close()
        paths = [file.path for file in files]
        await self._in_thread(self._forget_queues, paths, directories, ends)

    def _forget_queues(
        self, paths: list[Path], directories: list[Path], ends: list[MappedFile]
    ) -> None:
        """Remove files, directories, and those above that are empty then; blocks.

        ends     last files of queues behind which a crash may have left others
        Effects  strange files keep their directories
        """
        for last in ends:
            behind = files_from(self._disk.names(last.path.parent), last.base + 1)
            paths += [last.path.with_name(name) for name in behind]
        self._forget(paths)
        for directory in [*directories, *sorted({path.parent for path in directories})]:
            with suppress(OSError, StoreFailed):
                self._disk.remove_directory(directory)

    async def _remove(self, files: Sequence[MappedFile | IndexFile]) -> None:
        if not files:
            return
        for file in files:
            file.close()
        paths = [file.path for file in files]
        await self._in_thread(self._forget, paths)

    async def _in_thread(
        self,
        work: Callable[..., None],
        *arguments: object,
        settle: Callable[["asyncio.Future[None]"], None] = lambda _: None,
    ) -> None:
        """Return when work is done and settled; a caller who gives up ends neither.

        What was taken out of the tables has to go from the disk too: the next start would find it.
        """
        job = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        job.add_done_callback(settle)
        await asyncio.shield(job)

    def _forget(self, paths: list[Path]) -> None:
        """Take names away for good; blocks."""
        for path in paths:
            self._disk.unlink(path)
        for directory in sorted({path.parent for path in paths}):
            self._disk.sync_directory(directory)

    def shutdown(self) -> None:
        """End the thread."""
        self._pool.shutdown()


def _last_time(file: MappedFile) -> int:
    """Return the store time of the last record of a held file, ms; blocks.

    UNKNOWN_TIME where records end before the file does: nothing says how old the rest is.
    Cost   about 0.2 µs a record, and reading the file once
    """
    position, begin, last = 0, 0, -1
    piece = b""
    while position + BLANK_SIZE <= file.size:
        if position + BLANK_SIZE > begin + len(piece):
            begin, piece = position, file.read(position, WALK_BYTES)
        size, magic = SIZE_AND_MAGIC.unpack_from(piece, position - begin)
        if magic == MAGIC_BLANK and size == file.size - position:
            break
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_SIZE_MIN <= size <= file.size - position:
            logger.warning("commit_log.age_unknown", extra={"path": str(file.path)})
            return UNKNOWN_TIME
        last = position
        position += size
    if last < 0:
        return 0
    head = file.read(last, HEADS[HOSTS_V6_MASK].size)
    (system_flag,) = SYSTEM_FLAG.unpack_from(head, SYSTEM_FLAG_POSITION)
    return int(HEADS[system_flag & HOSTS_V6_MASK].unpack_from(head)[10])
