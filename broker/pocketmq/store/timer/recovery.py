"""Recovers the timer's files at a start, and rebuilds damaged parts.

found                                            action
valid wheel and log                              units of the log's last files correct the wheel
no wheel, or a wheel of another length           the wheel is rebuilt from all units of the log
the wheel refers beyond the log's end            the wheel is rebuilt: a power cut lost that end
the log ends before its durable end              it continues after its last message
a missing log, or files of another kind          the log is set aside, the topic is read again, and
                                                 messages due before the read time are skipped

A unit is trusted if all units before it are trusted and its message exists in the commit log.
A message that was due on arrival was delivered at once and has no unit. A power cut may lose such a
delivery and keep the units of later messages. So all messages after the durable end of the timer
log are read again (`Kept`).
Source: TimerMessageStore.recover, recoverAndRevise.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pocketmq.format.timer_layout import (
    LOG_UNIT_SIZE,
    TimerProgress,
    counts_of,
    due_times,
)
from pocketmq.log.timer_log import TimerLog
from pocketmq.log.timer_wheel import Numbers, TimerWheel


class Kept(NamedTuple):
    """Messages to read again although their units exist, as the units may not have been durable.

    places   ascending physical offsets of the pending messages of these units
    upto     all other messages before this queue offset were due on arrival
    """

    places: Numbers = np.empty(0, np.int64)
    upto: int = 0


class FoundTimer(NamedTuple):
    """The state from which a timer continues.

    read_ms       every slot before this time was delivered; 0: no timer ever ran
    queue_offset  offset from which the timer continues to read its topic
    known_upto    messages before this queue offset that were due before read_ms were delivered, and
                  are skipped if they are read again
    rebuilt       why the wheel or the log was rebuilt; "" if neither was rebuilt
    kept          messages to read again although they have units
    """

    read_ms: int
    queue_offset: int
    known_upto: int
    rebuilt: str
    kept: Kept = Kept()


class RecoveredFiles(NamedTuple):
    """Result of recovering wheel and log.

    is_whole   whether the log has all its durable units
    rebuilt    why the wheel was rebuilt; "" if it was not rebuilt
    durable    physical offset of the last durable unit's message; -1 if no unit is durable
    behind     physical offsets of the messages of later units, which may not be durable
    """

    is_whole: bool
    rebuilt: str
    durable: int
    behind: Numbers


class _Scanned(NamedTuple):
    times_ms: Numbers
    places: Numbers
    counts: Numbers


class _Units(NamedTuple):
    end: int
    waiting: _Scanned
    durable: int
    behind: Numbers


def recover_files(
    log: TimerLog,
    wheel: TimerWheel,
    progress: TimerProgress,
    log_end: int,
    remake: Callable[[], None],
    *,
    why_new: str,
) -> RecoveredFiles:
    """Makes wheel and log consistent; both must be open, and the log loaded.

    log_end  end of the commit log: units of messages beyond the end are not trusted
    remake   replaces the wheel by an empty one
    why_new  why the wheel is new and empty; "" if it existed
    Cost     some 30 ns a unit of the last two files, or of all files for a new wheel
    """
    begin = log.begin
    if not why_new:
        flushed = min(progress.log_flushed, log.end)
        begin = max(flushed - flushed % log.files.file_size - log.files.file_size, begin)
    units = _scan(log, begin, progress, log_end)
    log.truncate(units.end)
    if not why_new and wheel.highest_last(progress.read_ms) >= log.end:
        why_new = "it refers beyond the end of the timer log"
        remake()
        begin = log.begin
        units = _scan(log, begin, progress, log_end)
    wheel.revise(*units.waiting, begin)
    is_whole = log.end >= progress.log_flushed
    return RecoveredFiles(is_whole, why_new, units.durable, units.behind)


def _scan(log: TimerLog, begin: int, progress: TimerProgress, log_end: int) -> _Units:
    end, durable = begin, -1
    nothing = np.empty(0, np.int64)
    parts: list[_Scanned] = [_Scanned(nothing, nothing, nothing)]
    behind: list[Numbers] = [nothing]
    for place, piece in log.pieces(begin):
        messages = piece["physical_offset"].astype(np.int64)
        is_there = messages + piece["record_size"] <= log_end
        units = piece if is_there.all() else piece[: int(is_there.argmin())]
        places = place + np.arange(len(units), dtype=np.int64) * LOG_UNIT_SIZE
        times = due_times(units)
        waits = times >= progress.read_ms
        parts.append(_Scanned(times[waits], places[waits], counts_of(units)[waits]))
        durable_count = int(np.searchsorted(places, progress.log_flushed))
        behind.append(messages[durable_count : len(units)])
        if durable_count:
            durable = int(messages[durable_count - 1])
        if len(units):
            end = log.behind(place + len(units) * LOG_UNIT_SIZE)
        if len(units) < len(piece):
            break
    times, places, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Units(end, _Scanned(times, places, counts), durable, np.concatenate(behind))
