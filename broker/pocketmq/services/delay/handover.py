"""Prepares the timer's files for a RocketMQ broker, when PocketMQ stops.

A RocketMQ broker would put the wheel's checkpoints of settled leases into its revive topic, some of
them after their acks, and redeliver the messages. So only checkpoints of open leases stay in the
wheel. A RocketMQ broker reads the timer's topic from the message after the timer log's last unit
on. So the last unit has to belong to the last message that was read.
Source: TimerMessageStore.recover, reviseQueueOffset; PopReviveService.consumeReviveMessage.
"""

import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.format.timed_records import TimedFacts
from pocketmq.format.timer_layout import (
    LOG_UNIT_TYPE,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    PRECISION_MS,
    Units,
    due_times,
)
from pocketmq.model.reading import ReadRange
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.services.delay.deliver import TimerDelivery
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import value_of

LOOK_MAX: Final = 256
"""Upper limit of checkpoints read at once."""
TIME_MAX: Final = (1 << 63) - 1

logger = logging.getLogger(__name__)


async def end_settled(
    store: MessageStore, putting: TimerDelivery, read_ms: int, until_ms: int = TIME_MAX
) -> int:
    """Removes checkpoints of settled leases from the wheel, durably; returns how many.

    read_ms    all slots before this time are delivered
    until_ms   monotonic time limit: the remaining checkpoints are kept, and a log event is written
    Errors     StorageError, DiskSlow, FsyncFailed
    Cost       about 5 µs for each journal entry in the wheel, and a scan of the timer log
    """
    log = store.timer.log
    if log is None:
        return 0
    ended: list[NDArray[np.int64]] = []
    is_cut = False
    for places, units in log.beyond_damage(log.begin):
        is_met = (due_times(units) >= read_ms) & (units["topic_hash"] == putting.journal_hash)
        numbers = np.flatnonzero(is_met)
        for begin in range(0, len(numbers), LOOK_MAX):
            if store.clock.monotonic_ms() >= until_ms:
                is_cut = True
                break
            some = numbers[begin : begin + LOOK_MAX]
            ended.append(places[some][await _are_settled(store, putting, units[some])])
        if is_cut:
            logger.warning("stop.shortened", extra={"left": "checkpoints of settled leases"})
            break
    found = np.concatenate([*ended, np.empty(0, np.int64)])
    if len(found):
        await store.timer.end(found, read_ms)
    return len(found)


async def _are_settled(
    store: MessageStore, putting: TimerDelivery, units: Units
) -> NDArray[np.bool_]:
    order = np.argsort(units["physical_offset"], kind="stable")
    wanted = list(
        zip(
            units["physical_offset"][order].tolist(),
            units["record_size"][order].tolist(),
            strict=True,
        )
    )
    found = await value_of(store.reading.placed(TIMER_TOPIC, 0, wanted))
    is_settled = np.zeros(len(units), np.bool_)
    for number, record in zip(order.tolist(), found, strict=True):
        is_settled[number] = putting.is_checkpoint(record) and not putting.is_open(record)
    return is_settled


async def mark_read(store: MessageStore, queue_offset: int, read_ms: int) -> None:
    """Makes the timer log end with a unit of the last message that was read.

    queue_offset   offset after that message in the timer's topic
    read_ms        all slots before this time are delivered; an added unit enters the last of them
    Errors         StorageError, DiskSlow, DiskFull, AllocationFailed
    """
    log = store.timer.log
    if log is None or not queue_offset:
        return
    lower, _ = store.reading.queue_range(TIMER_TOPIC, 0)
    if queue_offset <= lower:
        return
    asked = ReadRange(TIMER_TOPIC, 0, queue_offset - 1, 1, 1)
    found = await value_of(store.reading.pull(asked))
    facts = TimedFacts()
    for record in found.records:
        facts.add(record)
    if not len(facts) or log.last_message == facts.physical_offsets[0]:
        return
    units = np.zeros(1, LOG_UNIT_TYPE)
    units["magic"] = MAGIC_DEFAULT | MAGIC_DELETE if facts.markers[0] else MAGIC_DEFAULT
    units["write_time"] = read_ms - PRECISION_MS
    units["physical_offset"] = facts.physical_offsets[0]
    units["record_size"] = facts.sizes[0]
    units["topic_hash"] = facts.topic_hashes[0]
    store.timer.add(units)
