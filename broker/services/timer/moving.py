"""From slot to slot: what waits goes on waiting by the clock of now, when that was set.

    forward   what came before is not due yet in the slot that comes: it moves on when that happens
              by half a lap of the wheel or more: everything that waits moves to later slots
    back      the seconds behind now come once more: what was delivered in them goes from the wheel,
              and everything that waits moves to earlier slots

Moved messages are new units at the end of the log. A start that finds two units of one message
believes the later one.
"""

import asyncio
import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.format.timer_layout import LOG_UNIT_TYPE, NO_UNIT, Units
from broker.model.due_time import DueTime
from broker.services.timer.arriving import slot_behind
from broker.store.message_store import MessageStore

CHAIN_MAX: Final = 4_096
"""Units of a chain that are followed before others get their turn."""
Times = NDArray[np.int64]

logger = logging.getLogger(__name__)


async def chain_of(store: MessageStore, time_ms: int) -> tuple[Units, Times]:
    """Return the units of a slot, oldest first, and where each lies."""
    log, wheel = store.timer.log, store.timer.wheel
    assert log is not None
    assert wheel is not None
    slot = wheel.slot(time_ms)
    place = NO_UNIT if slot is None else slot.last
    parts: list[Units] = []
    places: list[int] = []
    while place != NO_UNIT:
        some_places, some = log.chain(place, CHAIN_MAX)
        if not some_places:
            logger.warning("timer.damaged", extra={"slot_ms": time_ms})
            break
        parts.append(some)
        places += some_places
        place = int(some["previous"][-1])
        if place != NO_UNIT:
            await asyncio.sleep(0)
    units = np.concatenate(parts, dtype=LOG_UNIT_TYPE) if parts else np.empty(0, LOG_UNIT_TYPE)
    return units[::-1], np.array(places[::-1], np.int64)


def move(store: MessageStore, units: Units, times_ms: Times) -> None:
    """Let messages that wait do so in the slots of other times.

    Errors   DiskFull: some of them wait there, the others do not
    """
    units = units.copy()
    write_ms = units["write_time"].astype(np.int64)
    # The delay is an i32: what moved by more says that it was written then.
    base_ms = np.where(np.abs(times_ms - write_ms) < 2**31, write_ms, times_ms)
    units["write_time"] = base_ms
    units["delay"] = times_ms - base_ms
    while len(units):
        count = store.timer.add(units, is_move=True)
        units = units[count:]


class Jumps:
    """By how much the clock was set, and what waits does not know yet.

    back_ms    0 or below
    ahead_ms   of jumps by half a lap of the wheel or more: beyond that what waits and what comes
               would meet in one slot
    """

    __slots__ = ("ahead_ms", "back_ms")

    def __init__(self) -> None:
        self.back_ms = 0
        self.ahead_ms = 0

    def note(self, store: MessageStore, jump_ms: int, *, are_all: bool = True) -> int:
        """Note a jump, only one of half a lap or more unless `are_all`; returns it, else 0."""
        wheel = store.timer.wheel
        is_far = wheel is not None and abs(jump_ms) >= wheel.span_ms // 2
        if jump_ms >= 0:
            self.ahead_ms += jump_ms if is_far else 0
        elif is_far or are_all:
            self.back_ms += jump_ms
        assert self.back_ms <= 0 <= self.ahead_ms
        return jump_ms if is_far or are_all else 0


def ahead_of(due_time: DueTime, places: Times) -> Times:
    """Return by how much the clock is ahead of those by which units came, by their places."""
    begins, ahead_ms = np.array(due_time.begins(), np.int64).T
    numbers = np.searchsorted(begins, places, "right") - 1
    found: Times = ahead_ms[np.maximum(numbers, 0)]
    return found


async def move_all(
    store: MessageStore, read_ms: int, lowest_ms: int, jump_ms: int, due_time: DueTime
) -> None:
    """Let everything that waits do so by the clock of now; once more changes nothing.

    read_ms    slots from this time on, by the clock before
    lowest_ms  the earliest slot that they may move to
    jump_ms    moves them besides: the clock was set while nobody looked
    Shape      something waited once
    """
    wheel = store.timer.wheel
    assert wheel is not None
    times = wheel.used_from(read_ms)
    lap_ms = wheel.span_ms
    # Slots of one place in different laps: a slot moves before another one comes to its place.
    last_ms = (due_time.begins()[-2:][0][1] + jump_ms) % lap_ms
    for time_ms in (times[::-1] if last_ms <= lap_ms // 2 else times).tolist():
        units, places = await chain_of(store, time_ms)
        times_ms = slot_behind(time_ms + ahead_of(due_time, places) + jump_ms)
        times_ms = np.maximum(times_ms, lowest_ms)
        slot = wheel.slot(time_ms)
        if slot is not None and (times_ms != time_ms).any():
            wheel.clear(time_ms)
            try:
                move(store, units, times_ms)
            except BaseException:
                wheel.put_back(slot)
                raise
        await asyncio.sleep(0)
