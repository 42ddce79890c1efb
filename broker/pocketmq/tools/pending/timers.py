"""Finds pending timer messages among the records of the timer topic.

    record                                                   state
    its queue offset is at or after the timer's read offset  not read by the timer yet
    its unit is in a future slot                             pending in the wheel
    other                                                    delivered or dropped

A delete marker is a record of the timer topic that names a unique key. It recalls the message with
this key in the marker's slot. Checkpoints and acks of leases (pop) are ordinary timer records.
Source: TimerMessageStore.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.named_properties import (
    property_block,
    property_key,
    property_number,
    property_text,
)
from pocketmq.format.timed_records import (
    TimedFacts,
    is_journal_record,
    is_taken_back,
    taken_back,
)
from pocketmq.format.timer_layout import PRECISION_MS, due_times
from pocketmq.model.message import INT32_MAX, REAL_QUEUE, REAL_TOPIC, UNIQUE_KEY
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.dump import queue_units, records_of
from pocketmq.tools.pending.timer_files import TimerSnapshot, read_timer_files

ROWS_AT_ONCE: Final = 4_096
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
ROW_TYPE: Final = np.dtype(
    [
        ("queue_offset", "<i8"), ("physical_offset", "<i8"), ("size", "<i4"), ("out_ms", "<i8"),
        ("due_ms", "<i8"), ("topic_hash", "<i4"), ("is_marker", "?"), ("is_journal", "?"),
    ]
)  # fmt: skip


_TOPIC, _QUEUE, _KEY = map(property_key, (REAL_TOPIC, REAL_QUEUE, UNIQUE_KEY))


def timer_facts(
    disk: Disk, root: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[TimedFacts]:
    """Yields the valid records of the timer topic in order, in batches.

    root     directory whose consumequeue/ is read
    Errors   WrongFileSize, StoreGap: the queue must be rebuilt first
    Cost     6 µs a record
    """
    facts = TimedFacts()
    for _, record in records_of(files, queue_units(disk, root, sizes, TIMER_TOPIC, 0)):
        if record is not None:
            facts.add(record)
        if len(facts) == ROWS_AT_ONCE or facts.size_sum > BYTES_AT_ONCE:
            yield facts
            facts = TimedFacts()
    if len(facts):
        yield facts


def timer_rows(
    disk: Disk, root: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[NDArray[Any]]:
    """Yields the records of the timer topic as rows of ROW_TYPE, in batches.

    The field `due_ms` is 0 for a record without a due time.
    """
    for facts in timer_facts(disk, root, sizes, files):
        rows = np.zeros(len(facts), ROW_TYPE)
        rows["queue_offset"], rows["physical_offset"] = facts.queue_offsets, facts.physical_offsets
        rows["size"], rows["topic_hash"] = facts.sizes, facts.topic_hashes
        rows["out_ms"], rows["due_ms"] = facts.out_ms, facts.due_ms
        rows["is_marker"] = facts.markers
        rows["is_journal"] = [is_journal_record(facts.record(n)) for n in range(len(facts))]
        yield rows


# -- pending messages ------------------------------------------------------------------------------
TIMER, LEVEL, LEASE = "timer", "delay level", "lease"


class PendingMessage(NamedTuple):
    """A pending message.

    kind              TIMER, LEVEL, or LEASE (a checkpoint or an ack of a lease)
    topic, queue_id   the queue to which the message is delivered
    """

    due_timestamp_ms: int
    kind: str
    topic: str
    queue_id: int
    message_id: str
    queue_offset: int
    physical_offset: int


def pending_timers(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[PendingMessage]:
    """Yields the pending messages of a store's timer in put order.

    files    the log's files
    Errors   WrongFileSize, StoreGap
    """
    timers = read_timer_files(disk, directory)
    gone: dict[int, set[bytes]] = {}
    for slot, facts, number in _in_timer(disk, directory, sizes, files, timers):
        if facts.markers[number]:
            gone.setdefault(slot, set()).add(taken_back(facts.record(number)))
    for slot, facts, number in _in_timer(disk, directory, sizes, files, timers):
        place = facts.queue_offsets[number], facts.physical_offsets[number]
        found = shown_record(facts.record(number), TIMER, facts.due_ms[number], place)
        ids = frozenset(gone.get(slot, ()))
        is_gone = is_taken_back(found.topic.encode(), found.message_id.encode(), ids)
        if not facts.markers[number] and not is_gone:
            yield found


def shown_record(record: bytes, kind: str, due_ms: int, place: tuple[int, int]) -> PendingMessage:
    """Returns a record as a pending message.

    place   queue offset and physical offset of the record
    """
    block = property_block(record)
    topic = property_text(block, _TOPIC) or ""
    if kind == TIMER and topic.startswith(REVIVE_TOPIC_PREFIX):
        kind = LEASE
    queue_id = max(property_number(block, _QUEUE, INT32_MAX), 0)
    return PendingMessage(due_ms, kind, topic, queue_id, property_text(block, _KEY) or "", *place)


def _in_timer(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], timers: TimerSnapshot
) -> Iterator[tuple[int, TimedFacts, int]]:
    """Yields (slot, batch, position in the batch) of each pending record of the timer topic."""
    ahead = timers.check.queue_offset if timers.check is not None else 0
    to_come = due_times(timers.units) >= timers.read_ms
    waiting = set(timers.units["physical_offset"][to_come].tolist()) if to_come.any() else ()
    for facts in timer_facts(disk, directory, sizes, files):
        for number, place in enumerate(facts.physical_offsets):
            if facts.queue_offsets[number] >= ahead or place in waiting:
                yield -(-facts.due_ms[number] // PRECISION_MS), facts, number
