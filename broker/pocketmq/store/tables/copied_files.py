"""The small files of a store that its followers copy, and how they are read and replaced.

    EARLY      may be ahead of the follower's log
    IN_ORDER   refer to records. A follower writes them once it has these records: an offset beyond
               its log would hide other messages
    REPEATED   of these, files whose loss only repeats messages

docs/reference/formats/followers.md lists all files of a store, with the reasons why a follower
needs them or does not.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.files.table_watch import TableWatch
from pocketmq.files.table_watch import Then as Then
from pocketmq.format.names import (
    ACCESS_FILE,
    ARCHIVED_FILE,
    CONFIG_DIRECTORY,
    CONSUMER_OFFSETS_FILE,
    DELAY_OFFSETS_FILE,
    FLOORS_FILE,
    GROUPS_FILE,
    LEFT_OVER_FILE,
    LMQ_CONSUMER_OFFSETS_FILE,
    ORDER_INFO_FILE,
    ORDER_JOURNAL_FILE,
    OWN_DIRECTORY,
    REMOVED_QUEUES_FILE,
    SUBSCRIPTIONS_FILE,
    TIMER_CHECK_FILE,
    TIMER_LOG_DIRECTORY,
    TOPICS_FILE,
    offset_file_name,
    offset_from_file_name,
)
from pocketmq.format.table_json import decode_file
from pocketmq.format.timer_layout import decode_progress
from pocketmq.store.tables.copied_timer import CopiedTimer, TimerProof
from pocketmq.store.tables.name_settings import NAME_SETTINGS_FILE
from pocketmq.store.tables.request_modes import REQUEST_MODES_FILE

TABLE_SUFFIX: Final = ".json"
TIMER_COUNTS_FILE: Final = "timermetrics"

ACCESS: Final = f"{OWN_DIRECTORY}/{ACCESS_FILE}"
DELAY_OFFSETS: Final = f"{CONFIG_DIRECTORY}/{DELAY_OFFSETS_FILE}"
FLOORS: Final = f"{OWN_DIRECTORY}/{FLOORS_FILE}"
GROUPS: Final = f"{CONFIG_DIRECTORY}/{GROUPS_FILE}"
JOURNAL: Final = f"{OWN_DIRECTORY}/{ORDER_JOURNAL_FILE}"
LMQ_OFFSETS: Final = f"{CONFIG_DIRECTORY}/{LMQ_CONSUMER_OFFSETS_FILE}"
MODES: Final = f"{CONFIG_DIRECTORY}/{REQUEST_MODES_FILE}"
NAME_SETTINGS: Final = f"{CONFIG_DIRECTORY}/{NAME_SETTINGS_FILE}"
OFFSETS: Final = f"{CONFIG_DIRECTORY}/{CONSUMER_OFFSETS_FILE}"
ORDERS: Final = f"{CONFIG_DIRECTORY}/{ORDER_INFO_FILE}"
REMOVED: Final = f"{OWN_DIRECTORY}/{REMOVED_QUEUES_FILE}"
TIMER_CHECK: Final = f"{CONFIG_DIRECTORY}/{TIMER_CHECK_FILE}"
TIMER_COUNTS: Final = f"{CONFIG_DIRECTORY}/{TIMER_COUNTS_FILE}"
TOPICS: Final = f"{CONFIG_DIRECTORY}/{TOPICS_FILE}"
EARLY: Final = (
    *(REMOVED, TOPICS, GROUPS, MODES, NAME_SETTINGS, ACCESS),
    f"{OWN_DIRECTORY}/{LEFT_OVER_FILE}",
    f"{OWN_DIRECTORY}/{ARCHIVED_FILE}",
    f"{CONFIG_DIRECTORY}/{SUBSCRIPTIONS_FILE}",
)
REPEATED: Final = (
    *(OFFSETS, LMQ_OFFSETS, ORDERS, JOURNAL),
    DELAY_OFFSETS,
    TIMER_CHECK,
    TIMER_COUNTS,
)
IN_ORDER: Final = (*REPEATED, FLOORS)
COPIED: Final = (*EARLY, *IN_ORDER)
"""Names of the files, relative to the store, in the order of a first copy."""

TIMER_LOG: Final = TIMER_LOG_DIRECTORY
"""Name of the timer log as a whole; a name of one of its files is `timer_file`."""

Result = TypeVar("Result")


def timer_file(begin: int) -> str:
    """Returns the name of the timer log's file that begins at a position."""
    return f"{TIMER_LOG}/{offset_file_name(begin)}"


def timer_begin(name: str) -> int | None:
    """Returns the position at which a file of the timer log begins; None for another name."""
    directory, _, file = name.partition("/")
    return offset_from_file_name(file) if directory == TIMER_LOG else None


class CopiedFiles:
    """The copied files of one store; `run` works on the thread that writes the tables.

    So no table changes while others are read.
    """

    __slots__ = ("_directory", "_disk", "_names", "_pool", "_sound", "timer")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._disk = disk
        self._directory = directory
        self._names = {directory / name: name for name in COPIED}
        self._sound: set[str] = set()
        """Names of tables whose file was parsed once: this process wrote all later versions."""
        self._pool = pool
        self.timer = CopiedTimer(disk, directory)

    @property
    def watch(self) -> TableWatch:
        """The callbacks of the disk's tables."""
        return self._disk.tables

    def name_of(self, path: Path) -> str:
        """Returns the name of the file at a path; "" if it is not copied."""
        return self._names.get(path, "")

    async def run(self, work: Callable[[], Result]) -> Result:
        """Returns the result of work in the tables' thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    # -- blocking: called by `run` -------------------------------------------------------------
    def read(self, name: str, rows: range | None = None) -> bytes | None:
        """Returns the content of a file; None if it does not exist.

        If a write of a table was interrupted, its previous version is returned, as at a start.
        rows     for the journal, positions of the bytes to return; None: the whole file
        Errors   ReadFailed, TableUnreadable
        """
        path = self._directory / name
        if name == JOURNAL:
            with suppress(FileNotFoundError):
                if rows is None:
                    return self._disk.read_file(path)
                return self._disk.read_file(path, rows.start, len(rows))
            return None

        def sound(content: bytes) -> bytes:
            if path.suffix == TABLE_SUFFIX and name not in self._sound:
                decode_file(path.name, content)
            return content

        file = TableFile(self._disk, path, is_private=name == ACCESS)
        content = file.read(sound)
        if file.is_sound:
            self._sound.add(name)
        return content

    def timer_proof(self) -> TimerProof | None:
        """Returns the proof of this store's timer log for a leader; None without a valid log."""
        check = decode_progress(self.read(TIMER_CHECK) or b"")
        return self.timer.proof(check.log_flushed) if check is not None else None

    def write(self, name: str, content: bytes) -> None:
        """Replaces a file durably.

        Errors   ValueError: a start could not read it, and nothing was written; DiskFull,
                 StoreFailed: the file has its old or its new content
        """
        path = self._directory / name
        if path.suffix == TABLE_SUFFIX:
            decode_file(path.name, content)
        if name == JOURNAL:
            self._disk.make_directory(path.parent)
            self._disk.replace_file(path, content)
            return
        if name == TIMER_CHECK:
            self.timer.finish()
        TableFile(self._disk, path, is_private=name == ACCESS).write(content)

    def append(self, name: str, position: int, content: bytes, size_bytes: int) -> None:
        """Writes rows of the journal, or bytes of the timer log, durably.

        size_bytes   size of a file of the timer log
        Errors       ValueError: the file does not have these bytes; DiskFull, WriteFailed,
                     FsyncFailed
        """
        begin = timer_begin(name)
        if begin is not None:
            self.timer.append(begin, position, content, size_bytes)
            return
        path = self._directory / name
        if not self._disk.exists(path) or self._disk.file_size(path) < position + len(content):
            raise ValueError(f"it does not have {position + len(content)} bytes")
        descriptor = self._disk.open(path)
        try:
            self._disk.write_at(descriptor, position, content)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def drop(self, name: str) -> None:
        """Removes a file, and its previous version, durably; either may be missing.

        If the name is TIMER_LOG, a new copy of the timer log begins, and nothing is removed. The
        removal of a file of the timer log is not synced.
        Errors   WriteFailed, FsyncFailed
        """
        if name == TIMER_LOG:
            self.timer.begin()
            return
        begin = timer_begin(name)
        if begin is not None:
            self.timer.drop(begin)
            return
        file = TableFile(self._disk, self._directory / name)
        for path in (file.previous, file.path):  # If only `previous` were left, it would be read.
            if self._disk.exists(path):
                self._disk.unlink(path)
                self._disk.sync_directory(path.parent)
