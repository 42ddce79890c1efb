"""Layouts of the timer: a wheel of slots, one a second, and a log of delayed messages.

docs/reference/formats/timer.md has every field. The slot of a time has the number
(time / precision) mod SLOT_COUNT. A delete marker counts -1 in its slot. Magic of a unit: 1, plus
2 for a message whose delay exceeds the wheel's window, plus 4 for a delete marker. shift_ms is
PocketMQ's: a unit's time is TIMER_OUT_MS plus shift_ms, as clocks may be set; RocketMQ writes 0.

A unit leaves 16 bytes of its file free. A blank ends the file: bytes left (i32), 0 (i64), and
BLANK_MAGIC. The bytes left may be 52, like the size of a unit: only the magic marks a blank.

`config/timercheck` has 4,096 bytes: `CHECK`, and from byte 2,048 on PocketMQ's fields, which
RocketMQ does not change.
Source: TimerWheel, Slot, TimerLog, TimerMessageStore, TimerCheckpoint.
"""

from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.layout import Buffer, Layout

SLOT: Final = Layout(
    ("time", "q", "its second, ms / precision; the slot is empty for any other"),
    ("first", "q", "position of its oldest unit in the timer log"),
    ("last", "q", "position of its newest unit in the timer log"),
    ("count", "i", "messages in it; a delete marker counts -1"),
    ("magic", "i", "0"),
)
SLOT_SIZE: Final = SLOT.size
PRECISION_MS: Final = 1_000
"""Duration of a slot, unless the files show another duration (timerPrecisionMs)."""
SLOT_COUNT: Final = 2 * 7 * 24 * 3_600
"""Slots of the wheel: the seconds of two weeks, whatever the precision."""
WHEEL_SIZE: Final = SLOT_COUNT * SLOT_SIZE
SLOT_TYPE: Final = np.dtype(
    [("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("count", ">i4"), ("magic", ">i4")]
)
LOG_UNIT: Final = Layout(
    ("size", "i", "52"),
    ("previous", "q", "position of the previous unit of its slot, -1: none"),
    ("magic", "i", "1, plus 2: its delay exceeds a window, plus 4: a delete marker"),
    ("write_time", "q", "the second in which it was written, ms"),
    ("delay", "i", "time of its slot minus write_time, ms"),
    ("physical_offset", "q", "of the record in the timer topic"),
    ("record_size", "i", "size of the record, bytes"),
    ("topic_hash", "i", "Java hash of the real topic"),
    ("shift_ms", "q", "its time is TIMER_OUT_MS plus this: clocks were set; RocketMQ: 0, ignored"),
)
LOG_UNIT_SIZE: Final = LOG_UNIT.size
LOG_UNIT_TYPE: Final = np.dtype(
    [
        ("size", ">i4"), ("previous", ">i8"), ("magic", ">i4"), ("write_time", ">i8"),
        ("delay", ">i4"), ("physical_offset", ">i8"), ("record_size", ">i4"),
        ("topic_hash", ">i4"), ("shift_ms", ">i8"),
    ]
)  # fmt: skip
LOG_END_SIZE: Final = 16
"""Bytes that stay free after the last unit of a file, for a blank."""
LOG_BLANK: Final = Layout(
    ("left", "i", "bytes of its file from the blank on"),
    ("zero", "q", "0"),
    ("magic", "I", "BLANK_MAGIC"),
)
BLANK_MAGIC: Final = 0xCBD43194
MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
NO_UNIT: Final = -1
CHECK_SIZE: Final = 4_096
CHECK: Final = Layout(
    ("read_ms", "q", "all slots before this time were delivered"),
    ("log_flushed", "q", "position up to which the timer log, and the wheel with it, are durable"),
    ("queue_offset", "q", "next queue offset to read of the timer topic, queue 0"),
    ("queue_limit", "q", "queue offset up to which it may read"),
    ("state_version", "q", "version of the counts in timermetrics: state version"),
    ("version_timestamp", "q", "version of the counts: timestamp, ms"),
    ("version_counter", "q", "version of the counts: counter"),
)
Units = NDArray[Any]
"""Array of LOG_UNIT_TYPE."""

assert SLOT_TYPE.itemsize == SLOT_SIZE
assert LOG_UNIT_TYPE.itemsize == LOG_UNIT_SIZE


def units_per_file(file_size_bytes: int) -> int:
    """Returns the number of units that fit into a file of the timer log."""
    return max((file_size_bytes - LOG_END_SIZE) // LOG_UNIT_SIZE, 0)


def encode_log_blank(bytes_left: int) -> bytes:
    """Returns the blank that ends a file of the timer log."""
    assert bytes_left >= LOG_END_SIZE
    return LOG_BLANK.struct.pack(bytes_left, 0, BLANK_MAGIC)


def sound_units(content: Buffer, position: int) -> Units:
    """Returns the leading valid units of some bytes.

    position   position of the first byte in the timer log: valid links refer to lower positions
    Cost       some 10 ns a unit
    """
    units, is_sound = judged_units(content, position)
    return units if is_sound.all() else units[: int(is_sound.argmin())]


def judged_units(content: Buffer, position: int) -> tuple[Units, NDArray[np.bool_]]:
    """Returns the units of some bytes, and a mask of the valid ones."""
    whole = len(content) - len(content) % LOG_UNIT_SIZE
    units = np.frombuffer(content[:whole], LOG_UNIT_TYPE)
    places = position + np.arange(len(units)) * LOG_UNIT_SIZE
    magic, previous = units["magic"], units["previous"]
    is_sound = (units["size"] == LOG_UNIT_SIZE) & (magic & ~np.int32(6) == MAGIC_DEFAULT)
    is_sound &= (previous >= NO_UNIT) & (previous < places)
    is_sound &= (units["physical_offset"] >= 0) & (units["record_size"] > 0)
    return units, is_sound


def due_times(units: Units) -> NDArray[np.int64]:
    """Returns the times of units' slots, in ms."""
    times: NDArray[np.int64] = units["write_time"].astype(np.int64) + units["delay"]
    return times


def counts_of(units: Units) -> NDArray[np.int64]:
    """Returns the effect of each unit on its slot's count: 1, or -1 for a delete marker."""
    counts: NDArray[np.int64] = np.where(units["magic"] & MAGIC_DELETE, -1, 1).astype(np.int64)
    return counts


# -- slots and their chains ------------------------------------------------------------------------
def previous_units(
    slots: NDArray[Any], numbers: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the `previous` of units to be added to a wheel; changes nothing.

    slots     slots of the wheel
    numbers   times of the units, divided by the precision
    places    positions of the units in the timer log, ascending
    """
    previous = np.full(len(places), NO_UNIT, np.int64)
    if not len(places):
        return previous
    order, begins, is_first = _runs(numbers, len(slots))
    linked = np.full(len(places), NO_UNIT, np.int64)
    linked[1:] = places[order][:-1]
    found = slots[numbers[order][begins] % len(slots)]
    is_same = is_first & (found["time"] == numbers[order][begins]) & (found["time"] > 0)
    linked[begins] = np.where(is_same, found["last"], NO_UNIT)
    previous[order] = linked
    return previous


def link_slots(
    slots: NDArray[Any], numbers: NDArray[np.int64], places: NDArray[np.int64],
    counts: NDArray[np.int64], begin: int = NO_UNIT,
) -> None:  # fmt: skip
    """Links slots of a wheel to units, which are in the order of the timer log.

    A slot with another time is replaced. A slot with the same time may already link some of the
    units: it then links to the newest, and adds only the other units to its count.
    numbers, places   as in `previous_units`
    counts            effect of each unit on its slot's count, 1 or -1
    begin             slots whose first unit is at or after this position are rebuilt; or NO_UNIT
    """
    if not len(places):
        return
    order, begins, is_first = _runs(numbers, len(slots))
    ordered, ordered_places = numbers[order], places[order]
    ends = np.append(begins[1:], len(ordered)) - 1
    at = ordered[begins] % len(slots)
    found = slots[at]
    firsts, lasts = ordered_places[begins], ordered_places[ends]
    is_same = is_first & (found["time"] == ordered[begins]) & (found["time"] > 0)
    is_same &= found["last"] >= 0
    is_same &= (found["first"] < begin) | (begin == NO_UNIT)
    known = np.where(is_same, found["last"], NO_UNIT).astype(np.int64)
    is_new = ordered_places > np.repeat(known, ends - begins + 1)
    added = np.add.reduceat(np.where(is_new, counts[order], 0), begins)
    found["count"] = np.where(is_same, found["count"], 0) + added
    found["first"] = np.where(is_same, found["first"], firsts)
    found["last"] = np.maximum(lasts, known)
    found["time"] = ordered[begins]
    found["magic"] = 0
    slots[at] = found  # If two times share a slot, the later one wins.


def _runs(
    numbers: NDArray[np.int64], slot_count: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the order of units by slot, the begin of each time, and which times begin a slot."""
    of_slot = numbers % slot_count
    order = np.argsort(of_slot, kind="stable")
    slot, time = of_slot[order], numbers[order]
    is_other = np.append(True, slot[1:] != slot[:-1])
    begins = np.flatnonzero(is_other | np.append(True, time[1:] != time[:-1]))
    return order, begins, is_other[begins]


# -- the progress of a timer -----------------------------------------------------------------------
# 2048   8  "pocketmT": mark of PocketMQ's fields, which RocketMQ does not change
# 2056   8  read_ms           a copy: if it differs, RocketMQ wrote later: these fields are void
# 2064   8  delivered_before  messages delivered by then are stored below this physical offset
# 2072   8  wheel_ms          time of the wheel's clock at the write
# 2080   8  shift_count       number of rows that follow, at least 1: jumps of the wall clock
# 2088  16  per row: first_place, ahead_ms; see `ClockShift`
# 4088   8  resume_below_ms   slots before this may have been delivered above delivered_before
_OWN: Final = Struct(">8sqqqq")
_OWN_PLACE: Final = 2_048
_OWN_MARK: Final = b"pocketmT"
_SHIFT: Final = Struct(">qq")
_RESUME: Final = Struct(">q")
_RESUME_PLACE: Final = CHECK_SIZE - _RESUME.size
SHIFTS_MAX: Final = (_RESUME_PLACE - _OWN_PLACE - _OWN.size) // _SHIFT.size
"""Upper limit of clock shifts for which the file has room."""


class ClockShift(NamedTuple):
    """The lead of the wheel's clock over the wall clock, valid from one message on.

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

    def usable(self) -> "TimerProgress":
        """Returns the progress with negative numbers replaced by zeros."""
        numbers: list[Any] = [max(number, 0) for number in self[:10]]
        return TimerProgress(*numbers)._replace(shifts=self.shifts)


def encode_numbers(progress: TimerProgress, rest: bytes = b"") -> bytes:
    """Returns the file with only RocketMQ's numbers, followed by `rest`."""
    return (CHECK.struct.pack(*progress[:7]) + rest)[:CHECK_SIZE].ljust(CHECK_SIZE, b"\0")


def encode_progress(progress: TimerProgress) -> bytes:
    """Returns the file with RocketMQ's and PocketMQ's numbers."""
    shifts = progress.shifts
    own = _OWN.pack(_OWN_MARK, progress.read_ms, *progress[7:9], len(shifts))
    content = CHECK.struct.pack(*progress[:7]).ljust(_OWN_PLACE, b"\0") + own
    content += b"".join(_SHIFT.pack(*one) for one in shifts)
    return content.ljust(_RESUME_PLACE, b"\0") + _RESUME.pack(progress.resume_below_ms)


def decode_progress(content: bytes) -> TimerProgress | None:
    """Parses the file, without checks of RocketMQ's numbers; returns None if it is too short.

    PocketMQ's numbers are used only if all are valid and RocketMQ did not write the file later.
    """
    if len(content) < CHECK.size:
        return None
    progress = TimerProgress(*CHECK.struct.unpack_from(content))
    if len(content) != CHECK_SIZE:
        return progress
    mark, read_ms, *own, count = _OWN.unpack_from(content, _OWN_PLACE)
    if mark != _OWN_MARK or read_ms != progress.read_ms or not 0 < count <= SHIFTS_MAX:
        return progress
    begin = _OWN_PLACE + _OWN.size
    rows = _SHIFT.iter_unpack(content[begin : begin + count * _SHIFT.size])
    shifts = tuple(ClockShift(*row) for row in rows)
    own += _RESUME.unpack_from(content, _RESUME_PLACE)
    if min(own) < 0 or any(one.first_place < 0 for one in shifts):
        return progress
    return TimerProgress(*progress[:7], *own)._replace(shifts=shifts)
