"""The timer's two files: a wheel of slots, one a second, and a log of waiting messages.

docs/reference/formats/timer.md has every field. A time's slot is number
(time / precision) mod SLOT_COUNT. A delete marker counts -1 in its slot. Magic of a unit: 1, plus
2 for a message that waits longer than the wheel turns, plus 4 for a delete marker. shift_ms is
ours: a unit's time is TIMER_OUT_MS plus shift_ms, as clocks may be set; RocketMQ writes 0 there.

A unit leaves 16 bytes in its file. Where it would not, a blank closes the file: bytes left (i32), 0
(i64), BLANK_MAGIC at the place of a unit's magic. The first i32 of a blank may be 52.

`config/timercheck` has 4,096 bytes: read_ms, log_flushed, queue_offset, queue_limit (store/tables/
timer_check.py), then the version of the counts in `config/timermetrics`.
Source: TimerWheel, Slot, TimerLog, TimerMessageStore, TimerCheckpoint.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.layout import Buffer, Layout

SLOT: Final = Layout(
    ("time", "q", "the second it stands for, ms / precision; valid for no other one"),
    ("first", "q", "where its oldest unit lies in the timer log"),
    ("last", "q", "where its newest unit does"),
    ("count", "i", "messages in it; a delete marker counts -1"),
    ("magic", "i", "0"),
)
SLOT_SIZE: Final = SLOT.size
PRECISION_MS: Final = 1_000
"""Time that a slot covers, unless the files show otherwise (timerPrecisionMs)."""
SLOT_COUNT: Final = 2 * 7 * 24 * 3_600
"""Seconds of seven days, twice, whatever the precision."""
WHEEL_SIZE: Final = SLOT_COUNT * SLOT_SIZE
SLOT_TYPE: Final = np.dtype(
    [("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("count", ">i4"), ("magic", ">i4")]
)
LOG_UNIT: Final = Layout(
    ("size", "i", "52"),
    ("previous", "q", "the unit before it in its slot, -1: none"),
    ("magic", "i", "1, and 2: waits for more than a window, 4: a delete marker"),
    ("write_time", "q", "the second in which it was written, ms"),
    ("delay", "i", "its slot's time less that, ms"),
    ("physical_offset", "q", "of the record in the timer's topic"),
    ("record_size", "i", "bytes of that"),
    ("topic_hash", "i", "Java's, of the topic it goes to"),
    ("shift_ms", "q", "its time is TIMER_OUT_MS and this: clocks were set; RocketMQ: 0, unread"),
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
"""Bytes that stay free behind the last unit of a file: a blank goes there."""
LOG_BLANK: Final = Layout(
    ("left", "i", "bytes of its file from here on"),
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
    ("read_ms", "q", "every slot before this time was delivered"),
    ("log_flushed", "q", "how far the timer log is durable, and the wheel with it"),
    ("queue_offset", "q", "where it goes on reading its topic, queue 0"),
    ("queue_limit", "q", "it goes on no further than here"),
    ("state_version", "q", "of the counts in timermetrics"),
    ("version_timestamp", "q", "of these, ms"),
    ("version_counter", "q", "of these"),
)
Units = NDArray[Any]
"""Of LOG_UNIT_TYPE."""

assert SLOT_TYPE.itemsize == SLOT_SIZE
assert LOG_UNIT_TYPE.itemsize == LOG_UNIT_SIZE


def units_per_file(file_size_bytes: int) -> int:
    """Returns how many units a file of the timer log holds."""
    return max((file_size_bytes - LOG_END_SIZE) // LOG_UNIT_SIZE, 0)


def encode_log_blank(bytes_left: int) -> bytes:
    """Returns the blank that closes a file of the timer log."""
    assert bytes_left >= LOG_END_SIZE
    return LOG_BLANK.struct.pack(bytes_left, 0, BLANK_MAGIC)


def sound_units(content: Buffer, position: int) -> Units:
    """Returns the units from the beginning of some bytes on, up to the first invalid one.

    position   of the first byte in the timer log: links lead to lower ones
    Cost       some 10 ns a unit
    """
    units, is_sound = judged_units(content, position)
    return units if is_sound.all() else units[: int(is_sound.argmin())]


def judged_units(content: Buffer, position: int) -> tuple[Units, NDArray[np.bool_]]:
    """Returns the bytes at the positions of units, and for each whether it is a unit."""
    whole = len(content) - len(content) % LOG_UNIT_SIZE
    units = np.frombuffer(content[:whole], LOG_UNIT_TYPE)
    places = position + np.arange(len(units)) * LOG_UNIT_SIZE
    magic, previous = units["magic"], units["previous"]
    is_sound = (units["size"] == LOG_UNIT_SIZE) & (magic & ~np.int32(6) == MAGIC_DEFAULT)
    is_sound &= (previous >= NO_UNIT) & (previous < places)
    is_sound &= (units["physical_offset"] >= 0) & (units["record_size"] > 0)
    return units, is_sound


def due_times(units: Units) -> NDArray[np.int64]:
    """Returns the times of the slots that units are in, in ms."""
    times: NDArray[np.int64] = units["write_time"].astype(np.int64) + units["delay"]
    return times
