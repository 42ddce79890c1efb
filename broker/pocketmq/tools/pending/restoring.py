"""Rebuilds the timer's files: the wheel from the timer log, missing units from the topic.

    all units sound      the timer log stays as it is, byte for byte
    else                 sound units in their order, then those of records that are still to come
                         and had none, by queue offset

A unit made here has the read time as its write time: the real one is unknown, and is used only to
compute how long a message waits. After a kill at any point, a start finds a complete old or new
timer log, and corrects the wheel by it.
Source: TimerMessageStore.recoverAndRevise, doEnqueue.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    OWN_DIRECTORY,
    TIMER_LOG_DIRECTORY,
    TIMER_WHEEL_FILE,
    offset_file_name,
)
from pocketmq.format.timer_layout import (
    CHECK,
    LOG_UNIT_SIZE,
    LOG_UNIT_TYPE,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    TimerProgress,
    Units,
    encode_log_blank,
    encode_numbers,
    units_per_file,
)
from pocketmq.tools.pending.timer_files import (
    CHECK_PATH,
    TimerSnapshot,
    link_units,
    precision_of,
    read_timer_files,
)

ROLL_SLOTS: Final = 2 * 24 * 3_600
"""Messages due later than so many slots return to the topic on their way (timerRollWindowSlots)."""
STAGED_TIMER_LOG: Final = "timerlog.new"


@dataclass(frozen=True, slots=True)
class TimerPlan:
    """Timer files as they are to be.

    units     of the timer log from `begin` on, linked; None: the timer log stays
    dropped   units that led nowhere; added: of records that had none
    """

    units: Units | None
    begin: int
    end: int
    file_bytes: int
    slots: NDArray[Any]
    check: TimerProgress
    dropped: int
    added: int

    def log_files(self) -> list[tuple[int, bytes]]:
        """Returns the files of the timer log: the begin and the content of each."""
        units = np.zeros(0) if self.units is None else self.units.astype(LOG_UNIT_TYPE)
        step, made = units_per_file(self.file_bytes), []
        assert step > 0
        for number, at in enumerate(range(0, len(units), step)):
            content = units[at : at + step].tobytes()
            if at + step < len(units):
                content += encode_log_blank(self.file_bytes - len(content))
            made.append((self.begin + number * self.file_bytes, content))
        return [(base, content.ljust(self.file_bytes, b"\0")) for base, content in made]


def plan_timers(
    files: TimerSnapshot, unfit: NDArray[np.bool_], lost: Sequence[NDArray[Any]], topic_end: int
) -> TimerPlan:
    """Returns the timer's files as they ought to be.

    unfit      of each unit, whether it leads to no record of the topic
    lost       rows of records that are still to come and have no unit
    topic_end  queue offset behind the topic's last record
    """
    precision_ms = precision_of(files)
    check = files.check or TimerProgress(queue_offset=topic_end, queue_limit=topic_end)
    fresh = _units_of(lost, check.read_ms, precision_ms)
    units = np.concatenate((files.units[~unfit], fresh))
    is_kept = not unfit.any() and not len(fresh) and not _is_log_flawed(files)
    places = files.places if is_kept else _places(len(units), files.begin, files.file_bytes)
    links = link_units(units, places, precision_ms)
    end = files.end if is_kept else int(places[-1]) + LOG_UNIT_SIZE if len(places) else files.begin
    if not is_kept:
        units = units.copy()
        units["previous"] = links.previous
    offset = min(max(check.queue_offset, 0), topic_end)
    return TimerPlan(
        units=None if is_kept else units,
        begin=files.begin,
        end=end,
        file_bytes=files.file_bytes,
        slots=links.slots,
        check=check._replace(log_flushed=end, queue_offset=offset, queue_limit=offset),
        dropped=int(unfit.sum()),
        added=len(fresh),
    )


def install_timers(disk: Disk, directory: Path, plan: TimerPlan) -> None:
    """Puts the planned files in the place of a store's own, whose lock this process holds.

    Errors   DiskFull, AllocationFailed, FsyncFailed
    """
    if plan.units is not None:
        staged = directory / OWN_DIRECTORY / STAGED_TIMER_LOG
        shutil.rmtree(staged, ignore_errors=True)
        disk.make_directory(staged)
        for base, content in plan.log_files():
            disk.write_file(staged / offset_file_name(base), content)
        disk.sync_directory(staged)
        disk.replace_file(
            directory / CHECK_PATH, encode_numbers(plan.check._replace(log_flushed=0))
        )
        disk.make_directory(directory / TIMER_LOG_DIRECTORY)
        disk.exchange(staged, directory / TIMER_LOG_DIRECTORY)
        disk.sync_directory(directory)
        shutil.rmtree(staged)
    disk.replace_file(directory / TIMER_WHEEL_FILE, plan.slots.tobytes())
    path = directory / CHECK_PATH
    is_kept = plan.units is None and disk.exists(path)
    rest = disk.read_file(path)[CHECK.size :] if is_kept else b""
    # Our own numbers are of the timer log as it was.
    disk.replace_file(path, encode_numbers(plan.check, rest))


def write_wheel(disk: Disk, directory: Path, out: Path) -> bool:
    """Writes the wheel that a store's timer log makes below `out`, unless that is damaged or empty.

    Returns  whether it is there; one that is the same already is left alone
    Errors   DiskFull, AllocationFailed, FsyncFailed
    """
    files = read_timer_files(disk, directory)
    if not len(files.units) or _is_log_flawed(files):
        return False
    content = link_units(files.units, files.places, precision_of(files)).slots.tobytes()
    path = out / TIMER_WHEEL_FILE
    if not disk.exists(path) or disk.read_file(path) != content:
        disk.replace_file(path, content)
    return True


def _is_log_flawed(files: TimerSnapshot) -> bool:
    """Returns whether links or files of the timer log are wrong."""
    links = link_units(files.units, files.places, precision_of(files))
    previous = files.units["previous"].astype(np.int64)
    is_wrong = previous != links.previous
    is_wrong &= ~((links.previous < 0) & (previous < files.begin))
    of_log = (flaw.path.startswith(f"{TIMER_LOG_DIRECTORY}/") for flaw in files.flaws)
    return bool(is_wrong.any()) or any(of_log)


def _places(count: int, begin: int, file_bytes: int) -> NDArray[np.int64]:
    """Returns the positions of units in a timer log that begins there."""
    numbers, step = np.arange(count), max(units_per_file(file_bytes), 1)
    return begin + numbers // step * file_bytes + numbers % step * LOG_UNIT_SIZE


def _units_of(rows: Sequence[NDArray[Any]], read_ms: int, precision_ms: int) -> Units:
    """Returns units for records, not linked yet, as a timer writes them at its read time."""
    units = np.zeros(sum(map(len, rows)), LOG_UNIT_TYPE)
    if not len(units):
        return units
    lost = np.concatenate(rows)
    written = read_ms // precision_ms * precision_ms
    window = ROLL_SLOTS * precision_ms
    waits = lost["due_ms"] - written
    rolls = waits >= window
    step = np.where(waits - window < window // 3, window // 2, window)
    units["size"] = LOG_UNIT_SIZE
    units["magic"] = MAGIC_DEFAULT | np.where(rolls, MAGIC_ROLL, 0)
    units["magic"] |= np.where(lost["is_marker"], MAGIC_DELETE, 0).astype(np.int32)
    units["write_time"] = written
    units["delay"] = np.where(rolls, step, waits)
    units["physical_offset"] = lost["physical_offset"]
    units["record_size"] = lost["size"]
    units["topic_hash"] = lost["topic_hash"]
    units["shift_ms"] = lost["due_ms"] - lost["out_ms"]
    return units
