"""Ends units of the timer before their time: their messages are delivered by no broker.

A real broker that takes the store over rebuilds its wheel from the timer log, so a unit that leaves
its slot's chain would come back. So its time is set to a second that was already delivered, and
the chains of both slots are linked again.
Source: TimerMessageStore.recoverAndRevise, TimerWheel.reviseSlot.
"""

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.mapped_file import MappedFile
from pocketmq.format.timer_layout import NO_UNIT, PRECISION_MS, due_times
from pocketmq.log.timer_log import TimerLog
from pocketmq.log.timer_wheel import Slot, TimerWheel
from pocketmq.store.timer.recovery import counts_of

_PREVIOUS_AT = 4
_WRITE_TIME_AT = 16
Numbers = NDArray[np.int64]


def end_units(log: TimerLog, wheel: TimerWheel, ended: Numbers, read_ms: int) -> set[MappedFile]:
    """Gives units a time before the slot that is read next; returns the files that changed.

    ended    positions of the units in the timer log, rising
    read_ms  every slot before this time was delivered
    Cost     a pass over the timer log, and some 2 µs for each unit of the slots that change
    """
    past_ms = read_ms - PRECISION_MS
    slots_ms = _times_of(log, ended)
    places, times, previous, counts = _of_slots(log, slots_ms, past_ms)
    is_ended = np.isin(places, ended)
    times = np.where(is_ended, past_ms, times)
    order = np.lexsort((places, times))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = times[order][1:] != times[order][:-1]
    linked = np.full(len(places), NO_UNIT, np.int64)
    linked[order[1:]] = np.where(is_first[1:], NO_UNIT, places[order[:-1]])
    changed: set[MappedFile] = set()
    for number in np.flatnonzero(linked != previous).tolist():
        content = int(linked[number]).to_bytes(8, "big", signed=True)
        changed.add(log.overwrite(int(places[number]), _PREVIOUS_AT, content))
    past = past_ms.to_bytes(8, "big") + bytes(4)
    for place in places[is_ended].tolist():
        changed.add(log.overwrite(place, _WRITE_TIME_AT, past))
    _relink_wheel(wheel, times[order], places[order], counts[order])
    for time_ms in np.setdiff1d(slots_ms, times).tolist():
        wheel.replace(Slot(time_ms, NO_UNIT, NO_UNIT, 0))
    return changed


def _times_of(log: TimerLog, ended: Numbers) -> Numbers:
    times: list[Numbers] = []
    for places, units in log.beyond_damage(log.begin):
        times.append(due_times(units)[np.isin(places, ended)])
    return np.unique(np.concatenate([*times, np.empty(0, np.int64)]))


def _of_slots(
    log: TimerLog, times_ms: Numbers, past_ms: int
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Returns (place, time, previous, count) of all units of some slots, as columns."""
    wanted = np.append(times_ms, past_ms)
    columns: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
    for places, units in log.beyond_damage(log.begin):
        times = due_times(units)
        is_met = np.isin(times, wanted)
        found = units[is_met]
        previous = found["previous"].astype(np.int64)
        columns.append((places[is_met], times[is_met], previous, counts_of(found)))
    empty = np.empty(0, np.int64)
    columns.append((empty, empty, empty, empty))
    places, times, previous, counts = (np.concatenate(c) for c in zip(*columns, strict=True))
    return places, times, previous, counts


def _relink_wheel(wheel: TimerWheel, times: Numbers, places: Numbers, counts: Numbers) -> None:
    """Sets the slots of times, which rise; `places` rise within each."""
    values, begins = np.unique(times, return_index=True)
    ends = np.append(begins[1:], len(times))
    for time_ms, begin, end in zip(values.tolist(), begins.tolist(), ends.tolist(), strict=True):
        count = int(counts[begin:end].sum())
        wheel.replace(Slot(time_ms, int(places[begin]), int(places[end - 1]), count))
