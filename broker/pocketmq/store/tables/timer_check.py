"""Progress of the timer: RocketMQ's `config/timercheck`, 4,096 bytes.

   0   8  read_ms           every slot before this time was delivered
   8   8  log_flushed       end of the durable timer log, and of the wheel's state
  16   8  queue_offset      where reading of its topic resumes, queue 0
  24   8  queue_limit       end of reading
  32  24  version of the counts of waiting messages: state, timestamp, counter
2048   8  "pocketmT": mark of PocketMQ's fields, which RocketMQ does not change
2056   8  read_ms           a copy: if it differs, RocketMQ wrote, and these fields are void
2064   8  delivered_before  messages delivered by then are stored below this physical offset
2072   8  wheel_ms          time of the wheel's clock at the write
2080   8  shift_count       number of rows that follow, at least 1: jumps of the wall clock
2088  16  per row: first_place, ahead_ms; see `ClockShift`
4088   8  resume_below_ms   slots before this may have been delivered above delivered_before
Source: TimerCheckpoint.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.names import CONFIG_DIRECTORY, TIMER_CHECK_FILE
from pocketmq.format.timer_layout import CHECK, CHECK_SIZE
from pocketmq.store.tables.durable_table import DurableTable, Encode

_OWN: Final = Struct(">8sqqqq")
_OWN_PLACE: Final = 2_048
_OWN_MARK: Final = b"pocketmT"
_SHIFT: Final = Struct(">qq")
_RESUME: Final = Struct(">q")
_RESUME_PLACE: Final = CHECK_SIZE - _RESUME.size
SHIFTS_MAX: Final = (_RESUME_PLACE - _OWN_PLACE - _OWN.size) // _SHIFT.size
"""Most shifts, for which the file has room."""


class ClockShift(NamedTuple):
    """The lead of the wheel's clock over the wall clock, from a queue offset of its topic on.

    first_place  queue offset of the first message after the wall clock changed
    ahead_ms     lead over the wall clock from then on
    """

    first_place: int = 0
    ahead_ms: int = 0


class TimerProgress(NamedTuple):
    """Contents of the file; times in ms, `log_flushed` in bytes of the timer log."""

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    queue_limit: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0
    delivered_before: int = 0
    wheel_ms: int = 0
    resume_below_ms: int = 0
    shifts: tuple[ClockShift, ...] = (ClockShift(),)

    def check(self) -> None:
        """Asserts that no value is out of range."""
        assert min(self[:-1]) >= 0
        assert 0 < len(self.shifts) <= SHIFTS_MAX
        assert all(one.first_place >= 0 for one in self.shifts)


class TimerCheck:
    """The file of one store."""

    __slots__ = ("_durable", "_file", "progress")

    def __init__(self, disk: Disk, directory: Path, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / TIMER_CHECK_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self.progress = TimerProgress()

    def load(self) -> None:
        """Reads the file; a missing or short one counts as zeros.

        Errors   TableUnreadable
        """
        self.progress = self._file.read(_decode) or TimerProgress()
        self.progress.check()

    async def put(self, progress: TimerProgress) -> None:
        """Writes a progress that covers only durable data; durable when it returns.

        Errors   DiskFull, FsyncFailed
        """
        progress.check()
        assert progress.shifts
        self.progress = progress
        self._durable.touch()
        await self._durable.saved()

    async def clamp(self, queue_end: int, log_end: int) -> int:
        """Clamps the offset in the timer's topic to the topic's end; returns 1 if it was beyond.

        queue_end   queue offset of the topic's next message
        log_end     physical offset behind the last record
        Effects     new messages at these offsets are read, also after a crash
        Errors      DiskFull, FsyncFailed
        """
        now = self.progress
        found = now._replace(
            queue_offset=min(now.queue_offset, queue_end),
            queue_limit=min(now.queue_limit, queue_end),
            delivered_before=min(now.delivered_before, log_end),
        )
        if found != now:
            await self.put(found)
        return int(found.queue_offset != now.queue_offset)

    def _snapshot(self) -> Encode:
        progress = self.progress
        return lambda: _encode(progress)


def _encode(progress: TimerProgress) -> bytes:
    numbers, shifts = progress[:7], progress.shifts
    own = _OWN.pack(_OWN_MARK, progress.read_ms, *progress[7:9], len(shifts))
    content = CHECK.struct.pack(*numbers).ljust(_OWN_PLACE, b"\0") + own
    content += b"".join(_SHIFT.pack(*one) for one in shifts)
    return content.ljust(_RESUME_PLACE, b"\0") + _RESUME.pack(progress.resume_below_ms)


def _decode(content: bytes) -> TimerProgress:
    if len(content) < CHECK.size:
        return TimerProgress()
    numbers = [max(number, 0) for number in CHECK.struct.unpack_from(content)]
    if len(content) == CHECK_SIZE:
        mark, read_ms, *own, count = _OWN.unpack_from(content, _OWN_PLACE)
        if mark == _OWN_MARK and read_ms == numbers[0] and 0 < count <= SHIFTS_MAX:
            begin = _OWN_PLACE + _OWN.size
            rows = _SHIFT.iter_unpack(content[begin : begin + count * _SHIFT.size])
            shifts = tuple(ClockShift(*row) for row in rows)
            own += _RESUME.unpack_from(content, _RESUME_PLACE)
            is_sound = min(own) >= 0 and all(one.first_place >= 0 for one in shifts)
            if is_sound:
                return TimerProgress(*numbers, *own)._replace(shifts=shifts)
    return TimerProgress(*numbers)
