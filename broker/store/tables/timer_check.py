"""How far a real broker's timer came: RocketMQ's `config/timercheck`, 4,096 bytes.

   0   8  read_ms           every slot before this time was delivered
   8   8  log_flushed       how far the timer's own log is durable
  16   8  queue_offset      where it goes on reading its topic, queue 0
  24   8  queue_limit       it goes on no further than here

Where a real broker has a timer log, its own numbers hold. In a store it never had, this says where
the journal of leases begins that is not settled: what is before is over, and it need not deliver
all of that once more.
Source: TimerCheckpoint, TimerMessageStore.load.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Final

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY
from broker.model.step import Next, Now
from broker.store.tables.durable_table import DurableTable, Encode
from broker.store.tables.lease_marks import LeaseMarks

TIMER_CHECK_FILE: Final = "timercheck"
TIMER_LOG_DIRECTORY: Final = "timerlog"
SAVE_INTERVAL_MS: Final = 10_000
_SIZE: Final = 4_096
_NUMBERS: Final = Struct(">qqqq")


class TimerCheck:
    """Says where a real broker is to begin with the journal.

    marks   how far it is settled
    """

    __slots__ = ("_directory", "_disk", "_durable", "_file", "_marks", "_said", "is_ours")

    def __init__(
        self, disk: Disk, directory: Path, pool: ThreadPoolExecutor, marks: LeaseMarks
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._marks = marks
        self._said = 0
        self.is_ours = False
        """Whether no other broker ever wrote to the timer's topic."""

    def read_ms(self) -> int:
        """Return up to which time everything left the timer, in ms; 0 where no timer ever ran."""
        found = self._disk.exists(self._file.path)
        content = self._disk.read_file(self._file.path, 0, _NUMBERS.size) if found else b""
        if len(content) < _NUMBERS.size:
            return 0
        read_ms, *_ = _NUMBERS.unpack(content)
        return max(int(read_ms), 0)

    def step(self, now: Now) -> Next:
        """Write down by and by how far the journal is settled."""
        if self._is_behind():
            self._durable.save_soon()
        return Next(now.monotonic_ms + SAVE_INTERVAL_MS)

    async def saved(self) -> None:
        """Return when what is settled is written down.

        Errors   DiskFull
        """
        self._is_behind()
        await self._durable.saved()

    def _is_behind(self) -> bool:
        """Return whether there is something to write, which counts as changed then."""
        if not self.is_ours or self._marks.begin <= self._said:
            return False
        if self._disk.exists(self._directory / TIMER_LOG_DIRECTORY):
            return False
        self._durable.touch()
        return True

    def _snapshot(self) -> Encode:
        begin = self._said = self._marks.begin
        assert begin >= 0
        return lambda: _NUMBERS.pack(0, 0, begin, begin).ljust(_SIZE, b"\0")
