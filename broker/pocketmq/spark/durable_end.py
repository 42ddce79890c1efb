"""Finds the end up to which another process's store is durable.

    last writer             durable up to
    PocketMQ                its flushed mark, also while it runs; if its messages wait for
                            followers, the confirmed end, which consumers have seen
    RocketMQ, has stopped   the last record
    RocketMQ, runs          the first record with the checkpoint's store time of flushed records

Records after that end may disappear in a power cut. A stream that had read them would report
messages that the broker never had.
"""

from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import Final, NamedTuple

from pocketmq.files.directory_lock import held_by
from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import encode_checkpoint
from pocketmq.format.names import ABORT_FILE, LOCK_FILE, OWN_DIRECTORY
from pocketmq.log.checkpoint import FlushedMark, read_checkpoint
from pocketmq.model.errors import BrokerError
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import LogFile, end_before, find_log_files, records_end

LOOKS: Final = 16
"""Upper limit of attempts at reading files that the store's process replaces meanwhile."""


class DurableLog(NamedTuple):
    """The files of a log, and its durable end.

    upto        physical offset
    before_ms   only records with an earlier store time are durable; None: all below `upto` are
    """

    files: list[LogFile]
    upto: int
    before_ms: int | None

    @property
    def begin(self) -> int:
        """Physical offset of the first byte that retention has left."""
        return self.files[0].base if self.files else self.upto


class KnownEnd(NamedTuple):
    """The end of a stopped log, and the state of its last file then."""

    file: LogFile
    state: tuple[int, int]
    end: int


SETTLED_NS: Final = 1_000_000_000
"""Least age of a modification time with which a file counts as known: a later change of the file
certainly gets another time."""


class DurableLogs:
    """The log of one store, call after call; the end of a stopped log is searched once."""

    __slots__ = ("_known", "_store")

    def __init__(self, store: Path) -> None:
        self._store = store
        self._known: KnownEnd | None = None

    def now(self) -> DurableLog:
        """Returns the log as `durable_log` does.

        Errors   WrongFileSize, StoreGap, StrayFile
        Cost     two small files and a directory; of a RocketMQ store that has stopped, also the
                 last file if it has changed
        """
        return _durable(self._store, self._records_end)

    def _records_end(self, files: list[LogFile]) -> int:
        if not files:
            return 0
        file, begun_ns, known = files[-1], time_ns(), self._known
        stat = Path(file.path).stat()
        state = (stat.st_ino, stat.st_mtime_ns)
        if known is not None and known[:2] == (file, state):
            return known.end
        end = records_end(files)
        assert end <= file.end, (end, file)
        is_settled = begun_ns - stat.st_mtime_ns > SETTLED_NS
        self._known = KnownEnd(file, state, end) if is_settled else None
        return end


def durable_log(store: Path) -> DurableLog:
    """Returns the log of a store, which another process may be writing.

    Errors   WrongFileSize, StoreGap, StrayFile
    Cost     two small files and a directory; of a RocketMQ store that has stopped, the last file
    """
    return _durable(store, records_end)


def _durable(store: Path, end_of: Callable[[list[LogFile]], int]) -> DurableLog:
    for look in range(LOOKS):
        try:
            mark, flushed_ms = _marks(store)
            files = find_log_files(store)
        except FileNotFoundError:  # Retention removed a file since the directory was listed.
            if look == LOOKS - 1:
                raise
        else:
            break
    if mark is not None:
        return DurableLog(files, mark, None)
    if (store / ABORT_FILE).exists():
        return DurableLog(files, OFFSET_MAX, flushed_ms)
    return DurableLog(files, end_of(files), None)


def snapshot_end(store: Path) -> int:
    """Returns the physical offset at which a batch of a store ends.

    Returns  the durable end while a process on this machine has the store open; else the confirmed
             end if messages wait for followers; else OFFSET_MAX
    Cost     of a running RocketMQ, a walk over one or two files
    """
    if not held_by(store / LOCK_FILE):
        mark = _mark_of(store)
        is_known = mark.valid_upto(encode_checkpoint(read_checkpoint(Disk(), store))) is not None
        return mark.confirmed_upto if is_known else OFFSET_MAX
    try:
        log = durable_log(store)
    except BrokerError:  # The later read raises the same error.
        return OFFSET_MAX
    if log.before_ms is None:
        return log.upto
    files = log.files[-2:]
    return end_before(files, files[0].base if files else 0, log.before_ms)


def _marks(store: Path) -> tuple[int | None, int]:
    """Returns (end of the flushed and confirmed records, None: unknown; flushed store time)."""
    for _ in range(LOOKS):
        values = read_checkpoint(Disk(), store)
        mark = _mark_of(store)
        upto = mark.valid_upto(encode_checkpoint(values))
        if upto is not None or values == read_checkpoint(Disk(), store):
            break
    upto = None if upto is None else min(upto, mark.confirmed_upto)
    return upto, values.physic_msg_timestamp


def _mark_of(store: Path) -> FlushedMark:
    mark = FlushedMark(Disk(), store / OWN_DIRECTORY)
    mark.look()
    return mark
