"""Reads the timer's files: timer log, wheel and checkpoint.

The units of the timer log determine the wheel. A slot of the wheel contains the positions of the
first and last unit of its second, and the count of messages in that second. Each unit points to the
previous one of its second. After two weeks a slot is reused for another second.
Source: TimerLog, TimerWheel, TimerMessageStore.recover.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.names import (
    CONFIG_DIRECTORY,
    TIMER_CHECK_FILE,
    TIMER_LOG_DIRECTORY,
    TIMER_WHEEL_FILE,
    is_junk,
    offset_file_name,
    offset_from_file_name,
)
from pocketmq.format.timer_layout import (
    BLANK_MAGIC,
    LOG_BLANK,
    LOG_END_SIZE,
    LOG_UNIT_SIZE,
    LOG_UNIT_TYPE,
    PRECISION_MS,
    SLOT_COUNT,
    SLOT_TYPE,
    TimerProgress,
    Units,
    counts_of,
    decode_progress,
    due_times,
    link_slots,
    previous_units,
    sound_units,
)

CHECK_PATH: Final = f"{CONFIG_DIRECTORY}/{TIMER_CHECK_FILE}"
LOG_FILE_BYTES: Final = 100 * 1024 * 1024
"""Default file size of a timer log (mappedFileSizeTimerLog); existing files show their size."""


class Flaw(NamedTuple):
    """Damage within one file; `kind` is that of its `Finding`."""

    kind: str
    path: str
    position: int
    expected: str
    found: str


@dataclass(slots=True)
class TimerSnapshot:
    """Contents of the timer's files; a missing timer log has no units.

    units        units of the timer log
    places       position of each unit in the timer log
    begin, end   range of the timer log that contains units
    file_bytes   size of one file of the timer log
    slots        slots of the wheel; None if the wheel's file is missing or has another length
    check        the timer's checkpoint; None if the checkpoint's file is missing or too short
    flaws        damage of the files
    """

    units: Units
    places: NDArray[np.int64]
    begin: int = 0
    end: int = 0
    file_bytes: int = LOG_FILE_BYTES
    slots: NDArray[Any] | None = None
    check: TimerProgress | None = None
    flaws: list[Flaw] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert len(self.units) == len(self.places)

    @property
    def is_used(self) -> bool:
        """Whether a timer ever wrote to this store."""
        return bool(len(self.units) or self.end or self.flaws)

    @property
    def read_ms(self) -> int:
        """Time up to which the timer delivered all messages, ms; 0 if unknown."""
        return self.check.read_ms if self.check is not None else 0


def read_timer_files(disk: Disk, directory: Path) -> TimerSnapshot:
    """Reads the timer's files of a store.

    Cost     reads the whole timer log, and the wheel of 39 MB
    """
    files = _read_log(disk, directory / TIMER_LOG_DIRECTORY)
    wheel, check = directory / TIMER_WHEEL_FILE, directory / CHECK_PATH
    if disk.exists(wheel):
        size = disk.file_size(wheel)
        if size == SLOT_COUNT * SLOT_TYPE.itemsize:
            files.slots = np.fromfile(wheel, SLOT_TYPE)
        else:
            expected = f"{SLOT_COUNT * SLOT_TYPE.itemsize} bytes"
            files.flaws.append(Flaw("file_size", TIMER_WHEEL_FILE, 0, expected, f"{size} bytes"))
    if disk.exists(check):
        content = disk.read_file(check)
        files.check = decode_progress(content)
        if files.check is None:
            flaw = Flaw("timer_check", CHECK_PATH, 0, "4096 bytes", f"{len(content)} bytes")
            files.flaws.append(flaw)
    return files


def _read_log(disk: Disk, directory: Path) -> TimerSnapshot:
    names = [name for name in disk.names(directory) if not is_junk(name)]
    sizes = {name: disk.file_size(directory / name) for name in names}
    if names and not sizes[names[-1]]:
        names = names[:-1]  # Created, but still empty.
    files = TimerSnapshot(np.zeros(0, LOG_UNIT_TYPE), np.zeros(0, np.int64))
    units, places = [files.units], [files.places]
    for number, name in enumerate(names):
        path, base = f"{TIMER_LOG_DIRECTORY}/{name}", offset_from_file_name(name)
        if base is None:
            files.flaws.append(Flaw("stray_file", path, 0, "a file of the timer log", "none"))
            continue
        if len(units) == 1:
            files.begin = files.end = base
            files.file_bytes = sizes[name]
        if base != files.end or sizes[name] != files.file_bytes:
            expected = f"{TIMER_LOG_DIRECTORY}/{offset_file_name(files.end)}, {files.file_bytes}"
            found = f"a file of {sizes[name]} bytes"
            files.flaws.append(Flaw("timer_log", path, 0, f"{expected} bytes", found))
            break
        content = disk.read_file(directory / name)
        found_units = sound_units(content, base)
        units.append(found_units)
        places.append(base + np.arange(len(found_units)) * LOG_UNIT_SIZE)
        end = len(found_units) * LOG_UNIT_SIZE
        if not _is_end(content, end, is_last=number == len(names) - 1):
            shown = content[end : end + LOG_UNIT_SIZE].hex()
            files.flaws.append(Flaw("timer_log", path, end, "a unit, or the file's end", shown))
            files.end = base + end
            break
        is_full = len(content) - end < LOG_UNIT_SIZE + LOG_END_SIZE
        files.end = base + (len(content) if is_full and number < len(names) - 1 else end)
    files.units, files.places = np.concatenate(units), np.concatenate(places)
    return files


def _is_end(content: bytes, position: int, *, is_last: bool) -> bool:
    """Returns whether the units of a file may end at a position.

    After it there must be a BLANK up to the file's end, or, in the last file, zeros.
    """
    left = len(content) - position
    is_written = bool(np.frombuffer(content, np.uint8, offset=position).any()) if left else False
    if left >= LOG_BLANK.size and is_written:
        size, zero, magic = LOG_BLANK.struct.unpack_from(content, position)
        return (size, zero, magic) == (left, 0, BLANK_MAGIC)
    return is_last and not is_written


# -- links and wheel -------------------------------------------------------------------------------
class Links(NamedTuple):
    """The links and the wheel that units determine.

    previous   for each unit the position that it must point to, or NO_UNIT
    slots      the wheel's slots after all units
    """

    previous: NDArray[np.int64]
    slots: NDArray[Any]


def precision_of(files: TimerSnapshot) -> int:
    """Returns the duration of a slot in ms (timerPrecisionMs), derived from slots and units."""
    if files.slots is None or not len(files.units):
        return PRECISION_MS
    used = files.slots[files.slots["time"] > 0]
    at = np.searchsorted(files.places, used["last"].astype(np.int64))
    at = np.minimum(at, len(files.places) - 1)
    fits = files.places[at] == used["last"]
    if not fits.any():
        return PRECISION_MS
    steps = due_times(files.units[at[fits]]) // used["time"][fits]
    values, counts = np.unique(steps, return_counts=True)
    return max(int(values[counts.argmax()]), 1)


def link_units(units: Units, places: NDArray[np.int64], precision_ms: int = PRECISION_MS) -> Links:
    """Returns the links and the wheel that a timer would write for these units.

    places   positions of the units in the timer log, ascending
    Cost     some 0.3 µs a unit, plus allocating the wheel
    """
    slots, numbers = np.zeros(SLOT_COUNT, SLOT_TYPE), due_times(units) // precision_ms
    previous = previous_units(slots, numbers, places)
    link_slots(slots, numbers, places, counts_of(units))
    return Links(previous, slots)
