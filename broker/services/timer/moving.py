"""From slot to slot: what waits goes on waiting by the clock of now, when that was set.

    forward   what came before is not due yet in the slot that comes: it moves on when that happens
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


async def move_back(store: MessageStore, read_ms: int, write_ms: int, jump_ms: int) -> None:
    """Let everything that waits do so by a clock that was set back.

    read_ms   every slot before this time was delivered, by the clock before; those from the second
              `write_ms` of now on will be read again
    jump_ms   below 0: what waits moves by so much; 0: it stays where it is
    """
    wheel = store.timer.wheel
    if wheel is None:
        return
    wheel.clear_between(write_ms, read_ms)
    if jump_ms >= 0:
        return
    for time_ms in wheel.used_from(read_ms).tolist():
        units, _ = await chain_of(store, time_ms)
        times_ms = slot_behind(np.full(len(units), time_ms + jump_ms, np.int64))
        move(store, units, np.maximum(times_ms, write_ms))
        wheel.clear(time_ms)
        await asyncio.sleep(0)
