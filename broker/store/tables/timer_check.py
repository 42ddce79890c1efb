"""How far the timer is: RocketMQ's `config/timercheck`, 4,096 bytes.

   0   8  read_ms           every slot before this time was delivered
   8   8  log_flushed       how far the timer log is durable, and the wheel with it
  16   8  queue_offset      where it goes on reading its topic, queue 0
  24   8  queue_limit       it goes on no further than here
  32  24  the version of the counts of what waits: state, timestamp, counter
4056   8  "pocketmq": what follows is our own, which a real broker does not touch
4064   8  read_ms           once more: after another broker ours means nothing
4072   8  delivered_before  what was delivered by then lies below this physical offset
4080   8  over_place        units of the timer log below this place
4088   8  over_ms           that are due before this time were delivered, or moved

Source: TimerCheckpoint.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.files.table_file import TableFile
from broker.format.names import CONFIG_DIRECTORY, TIMER_CHECK_FILE
from broker.format.timer_layout import CHECK, CHECK_SIZE
from broker.store.tables.durable_table import DurableTable, Encode

_OWN: Final = Struct(">8sqqqq")
_OWN_MARK: Final = b"pocketmq"


class TimerProgress(NamedTuple):
    """What the file says; times in ms, places in bytes of the timer log."""

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    queue_limit: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0
    delivered_before: int = 0
    over_place: int = 0
    over_ms: int = 0


class TimerCheck:
    """The file of one store."""

    __slots__ = ("_durable", "_file", "progress")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self.progress = TimerProgress()

    def load(self) -> None:
        """Read the file; one that is not there, or too short, says nothing.

        Errors   TableUnreadable
        """
        self.progress = self._file.read(_decode) or TimerProgress()
        assert min(self.progress) >= 0

    async def put(self, progress: TimerProgress) -> None:
        """Set what the file says, all of which is durable itself; durable when it returns.

        Errors   DiskFull, FsyncFailed
        """
        assert min(progress) >= 0
        self.progress = progress
        self._durable.touch()
        await self._durable.saved()

    def _snapshot(self) -> Encode:
        progress = self.progress
        return lambda: _encode(progress)


def _encode(progress: TimerProgress) -> bytes:
    numbers, own = progress[:7], progress[7:]
    content = CHECK.struct.pack(*numbers).ljust(CHECK_SIZE - _OWN.size, b"\0")
    return content + _OWN.pack(_OWN_MARK, progress.read_ms, *own)


def _decode(content: bytes) -> TimerProgress:
    if len(content) < CHECK.size:
        return TimerProgress()
    numbers = [max(number, 0) for number in CHECK.struct.unpack_from(content)]
    if len(content) == CHECK_SIZE:
        mark, read_ms, *own = _OWN.unpack_from(content, CHECK_SIZE - _OWN.size)
        if mark == _OWN_MARK and read_ms == numbers[0] and min(own) >= 0:
            return TimerProgress(*numbers, *own)
    return TimerProgress(*numbers)
