"""Removes expired files of log, consume queues and index.

    log      oldest file ─► removed from the list ─► next base in the flushed mark, synced ─►
             unlinked, directory synced (thread) ─► unmapped
    queues   oldest files, except the last, whose units all refer below the log; minimum corrected
    index    oldest files, except the last, whose records are all below the log

The log is trimmed first, so that no queue lacks units of records that the log still has. A reader
that holds a removed file can finish. services/retention.py decides which files expire.
Source: CleanCommitLogService, CleanConsumeQueueService, IndexService.deleteExpiredFile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.names import files_from, queue_directory
from pocketmq.format.record import (
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
from pocketmq.log.index_file import IndexFile
from pocketmq.model.errors import StoreFailed
from pocketmq.store.job import Job
from pocketmq.store.marks import Marks
from pocketmq.store.recovery.components import StoreComponents

TURN_SECONDS: Final = 0.003
WALK_BYTES: Final = 1024 * 1024
UNKNOWN_TIME: Final = 2**63 - 1
"""Store time of a file with unreadable records, which never expires by age."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class OldestLogFile(NamedTuple):
    """The oldest file of a log: the physical offset of its first byte, and its length."""

    base: int
    size_bytes: int


class Expiry:
    """Removes the oldest files of an open store.

    Each removal completes even if its caller is cancelled: a file that left the list must be
    unlinked, or the next start would find it.

    save_base   makes the base of the oldest file in the list durable: a start takes older files
                that are missing for lost ones
    """

    __slots__ = ("_disk", "_jobs", "_last_times", "_marks", "_parts", "_pool", "_save_base")

    def __init__(
        self, parts: StoreComponents, marks: Marks, save_base: Callable[[], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._save_base = save_base
        self._disk = parts.disk
        self._marks = marks
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="expire")
        self._jobs: list[Job[Any]] = []
        self._last_times: dict[int, int] = {}

    def _begin(self, work: Coroutine[Any, Any, Result]) -> Job[Result]:
        job = Job(work)
        self._jobs = [*(job for job in self._jobs if not job.is_done), job]
        return job

    @property
    def floor(self) -> int:
        """Physical offset from which recovery after a power cut rebuilds the views from the log."""
        durable = self._parts.checkpoint.values.logics_physical_offset
        return min(self._marks.dispatched.value, self._marks.flushed.value, durable)

    def oldest(self) -> OldestLogFile | None:
        """Returns the oldest file; None if it is the last one, or ends above `floor`."""
        files = self._parts.log.files.files
        if len(files) < 2 or files[0].base + files[0].size > self.floor:
            return None
        return OldestLogFile(files[0].base, files[0].size)

    @property
    def log_size_bytes(self) -> int:
        """Length of all commit-log files."""
        log = self._parts.log
        return len(log.files.files) * log.file_size_bytes

    def last_time(self, oldest: OldestLogFile, upto_ms: int = UNKNOWN_TIME) -> Job[int]:
        """Returns the store time of the last record in the oldest file, ms; 0 without records.

        upto_ms  latest plausible time. If the store time is later, the clock was ahead: the first
                 plausible time of the next files is returned
        Cost     one walk over each file in a thread, once
        """
        return self._begin(self._last_time(oldest, upto_ms))

    async def _last_time(self, oldest: OldestLogFile, upto_ms: int) -> int:
        files = self._parts.log.files.files
        assert files[0].base == oldest.base
        known = {base: ms for base, ms in self._last_times.items() if base >= oldest.base}
        self._last_times = known
        for file in [*files[:-1]]:
            if file.base not in known:
                known[file.base] = await self._walked(file)
            if known[file.base] <= upto_ms or known[file.base] == UNKNOWN_TIME:
                return known[file.base]
        return known[oldest.base]

    async def _walked(self, file: MappedFile) -> int:
        held = file.hold()
        try:
            return await self._in_thread(_last_time, held)
        finally:
            held.let_go()

    def drop(self, oldest: OldestLogFile) -> Job[None]:
        """Removes the oldest file of the log; durable when the job is done.

        Errors   WriteFailed: the file stays in the log and on disk
                 StoreFailed, such as FsyncFailed
        """
        return self._begin(self._drop(oldest))

    async def _drop(self, oldest: OldestLogFile) -> None:
        files = self._parts.log.files
        assert files.files[0].base == oldest.base
        assert oldest.base + oldest.size_bytes <= self.floor
        file = files.drop_first()
        try:
            await self._save_base()
            await self._in_thread(self._forget, [file.path])
        except BaseException:
            files.files.insert(0, file)
            raise
        file.close()
        logger.info("commit_log.expired", extra={"path": str(file.path), "bytes": file.size})

    def trim_views(self) -> Job[None]:
        """Removes units and index files of expired records, a few queues at a time."""
        return self._begin(self._trim_views())

    async def _trim_views(self) -> None:
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

    def drop_queues(self, topic: str) -> Job[None]:
        """Removes the consume queues of a topic, files and directories."""
        return self._begin(self._drop_queues(topic))

    async def _drop_queues(self, topic: str) -> None:
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
        """Removes files, directories, and parent directories that are then empty; blocks.

        ends   last files of queues after which a crash may have left further files
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

    async def _in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def _forget(self, paths: list[Path]) -> None:
        for path in paths:
            self._disk.unlink(path)
        for directory in sorted({path.parent for path in paths}):
            self._disk.sync_directory(directory)

    async def close(self) -> None:
        """Waits for work in progress, and ends the thread."""
        for job in self._jobs:
            await job.reached()
        self._pool.shutdown()


def _last_time(file: MappedFile) -> int:
    """Returns the store time of the last record of a held file, ms; blocks.

    Returns  UNKNOWN_TIME if an invalid record precedes the file's end
    Cost     0.2 µs a record, and reading the file once
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
