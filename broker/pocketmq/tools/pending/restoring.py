"""Rebuilds the timer's files: the wheel from the timer log, missing units from the topic.

    all units valid      the timer log is kept, byte for byte
    else                 a new timer log contains the valid units in their order, then new units for
                         pending records without a unit, in order of queue offset

The write time of a new unit is the timer's read time, as the original write time is unknown. It
only serves to compute the unit's delay. After a kill, the store has the complete old or the
complete new timer log. The next start corrects the wheel from the timer log.
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
"""Roll window in slots (timerRollWindowSlots): messages with longer delays are rolled."""
STAGED_TIMER_LOG: Final = "timerlog.new"


@dataclass(frozen=True, slots=True)
class TimerPlan:
    """The planned contents of the timer's files.

    units        linked units of the new timer log; None: the timer log is kept
    begin, end   range of the timer log that contains units
    file_bytes   size of one file of the timer log
    slots        slots of the wheel
    dropped      number of units without a record
    added        number of units added for records without a unit
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
        """Returns the base position and the content of each file of the timer log."""
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
    """Returns the plan of the timer's files.

    unfit       whether each unit matches no record of the topic
    lost        rows of pending records without a unit
    topic_end   queue offset after the topic's last record
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
    """Replaces a store's timer files with the planned ones; the caller holds the store's lock.

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
    # PocketMQ's own numbers in the file are valid only for the old timer log.
    disk.replace_file(path, encode_numbers(plan.check, rest))


def write_wheel(disk: Disk, directory: Path, out: Path) -> bool:
    """Computes the wheel from a store's timer log and writes it to `out`; skips an equal file.

    Returns  False, without writing, if the timer log is damaged or empty
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
    """Returns the positions of units in a timer log that starts at `begin`."""
    numbers, step = np.arange(count), max(units_per_file(file_bytes), 1)
    return begin + numbers // step * file_bytes + numbers % step * LOG_UNIT_SIZE


def _units_of(rows: Sequence[NDArray[Any]], read_ms: int, precision_ms: int) -> Units:
    """Returns the units, without links, that a timer would write for records at its read time."""
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
