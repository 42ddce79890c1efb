"""The timer's files after a start: what of them is believed, and what is made anew.

what is found                                    what follows
wheel and log as they should be                  units of the log's last files correct the wheel
no wheel, or one of another length               a new one, made of all units of the log
the wheel leads behind the log's end             the same: a power cut took that end
the log ends before what was durable of it       it goes on behind its last message
no log where there was one, or files that no     the log is put aside; the topic is read anew, and
timer wrote                                      what was due before the time read to is passed over

A unit is believed as long as each before it is one, and its message lies in the commit log.
Source: TimerMessageStore.recover, recoverAndRevise.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from broker.format.timer_layout import (
    LOG_UNIT_SIZE,
    MAGIC_DELETE,
    Units,
    due_times,
)
from broker.log.timer_log import TimerLog
from broker.log.timer_wheel import Numbers, TimerWheel
from broker.store.tables.timer_check import TimerProgress


class FoundTimer(NamedTuple):
    """Where a timer goes on.

    read_ms       every slot before this time was delivered; 0: no timer ever ran
    queue_offset  where it goes on reading its topic
    known_upto    of messages before this queue offset those due before read_ms were delivered,
                  where they are read once more
    rebuilt       why the wheel or the log were made anew, "" where they were not
    """

    read_ms: int
    queue_offset: int
    known_upto: int
    rebuilt: str


class _Scanned(NamedTuple):
    times_ms: Numbers
    places: Numbers
    counts: Numbers


def counts_of(units: Units) -> Numbers:
    """Return by how much each unit raises the count of its slot: 1, or -1 for a delete marker."""
    counts: Numbers = np.where(units["magic"] & MAGIC_DELETE, -1, 1).astype(np.int64)
    return counts


def recover_files(
    log: TimerLog,
    wheel: TimerWheel,
    progress: TimerProgress,
    log_end: int,
    remake: Callable[[], None],
    *,
    why_new: str,
) -> tuple[bool, str, int]:
    """Make wheel and log agree; both are open, and the log is loaded.

    log_end  end of the commit log: units of messages behind it are not believed
    remake   replaces the wheel by an empty one
    why_new  why the wheel is new and empty; "": it is the one that was found
    Returns  (whether the log has all that was durable of it, why the wheel was made anew, physical
             offset of the message of its last unit, -1 without one)
    Cost     some 30 ns a unit of the files scanned: two, or all of them for a new wheel
    """
    begin = log.begin
    if not why_new:
        flushed = min(progress.log_flushed, log.end)
        begin = max(flushed - flushed % log.files.file_size - log.files.file_size, begin)
    end, found, last = _scan(log, begin, progress, log_end)
    log.truncate(end)
    if not why_new and wheel.highest_last(progress.read_ms) >= log.end:
        why_new = "it leads behind the end of the timer log"
        remake()
        begin = log.begin
        _, found, last = _scan(log, begin, progress, log_end)
    wheel.revise(*found, begin)
    return log.end >= progress.log_flushed, why_new, last


def _scan(
    log: TimerLog, begin: int, progress: TimerProgress, log_end: int
) -> tuple[int, _Scanned, int]:
    """Return (where units end, those that wait, physical offset of the last one's message)."""
    end, last = begin, -1
    nothing = np.empty(0, np.int64)
    parts: list[_Scanned] = [_Scanned(nothing, nothing, nothing)]
    for place, piece in log.pieces(begin):
        reach = piece["physical_offset"].astype(np.int64) + piece["record_size"]
        is_there = reach <= log_end
        units = piece if is_there.all() else piece[: int(is_there.argmin())]
        places = place + np.arange(len(units), dtype=np.int64) * LOG_UNIT_SIZE
        times = due_times(units)
        waits = times >= progress.read_ms
        parts.append(_Scanned(times[waits], places[waits], counts_of(units)[waits]))
        if len(units):
            last = int(units["physical_offset"][-1])
            end = log.behind(place + len(units) * LOG_UNIT_SIZE)
        if len(units) < len(piece):
            break
    times, places, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return end, _Scanned(times, places, counts), last
