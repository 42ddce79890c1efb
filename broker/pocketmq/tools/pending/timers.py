"""Timer messages that are pending, by the records of the timer's topic.

    queue offset at or behind the timer's      not read by the timer yet
    a unit in a future slot                    waiting in the wheel
    anything else                              delivered, or dropped

A delete marker is a record of that topic, which removes the message of its key from its slot.
Checkpoints and acks of leases are timer records like all others.
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
    """Yields the records of the timer's topic in order, some thousand at a time.

    root     directory with the consumequeue/ that is read; unsound records are left out
    Errors   WrongFileSize, StoreGap: the queue must be built again first
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
    """Yields the same as numbers, of ROW_TYPE; due_ms is 0 where a record has no time."""
    for facts in timer_facts(disk, root, sizes, files):
        rows = np.zeros(len(facts), ROW_TYPE)
        rows["queue_offset"], rows["physical_offset"] = facts.queue_offsets, facts.physical_offsets
        rows["size"], rows["topic_hash"] = facts.sizes, facts.topic_hashes
        rows["out_ms"], rows["due_ms"] = facts.out_ms, facts.due_ms
        rows["is_marker"] = facts.markers
        rows["is_journal"] = [is_journal_record(facts.record(n)) for n in range(len(facts))]
        yield rows


# -- the pending ones ------------------------------------------------------------------------------
TIMER, LEVEL, LEASE = "timer", "delay level", "lease"


class PendingMessage(NamedTuple):
    """A message that waits; `topic` and `queue_id` are where it goes.

    kind   TIMER, LEVEL, or LEASE: a checkpoint or an ack of a lease
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

    files    of the log
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
    """Returns a record that waits; `place` is its queue offset and its physical offset."""
    block = property_block(record)
    topic = property_text(block, _TOPIC) or ""
    if kind == TIMER and topic.startswith(REVIVE_TOPIC_PREFIX):
        kind = LEASE
    queue_id = max(property_number(block, _QUEUE, INT32_MAX), 0)
    return PendingMessage(due_ms, kind, topic, queue_id, property_text(block, _KEY) or "", *place)


def _in_timer(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], timers: TimerSnapshot
) -> Iterator[tuple[int, TimedFacts, int]]:
    """Yields (slot, facts, number in them) of records in the timer, or ahead of it."""
    ahead = timers.check.queue_offset if timers.check is not None else 0
    to_come = due_times(timers.units) >= timers.read_ms
    waiting = set(timers.units["physical_offset"][to_come].tolist()) if to_come.any() else ()
    for facts in timer_facts(disk, directory, sizes, files):
        for number, place in enumerate(facts.physical_offsets):
            if facts.queue_offsets[number] >= ahead or place in waiting:
                yield -(-facts.due_ms[number] // PRECISION_MS), facts, number
