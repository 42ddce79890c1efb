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
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.timed_records import TimedFacts, is_journal_record
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.dump import queue_units
from pocketmq.tools.pending.records import records_of

ROWS_AT_ONCE: Final = 4_096
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
ROW_TYPE: Final = np.dtype(
    [
        ("queue_offset", "<i8"), ("physical_offset", "<i8"), ("size", "<i4"), ("out_ms", "<i8"),
        ("due_ms", "<i8"), ("topic_hash", "<i4"), ("is_marker", "?"), ("is_journal", "?"),
    ]
)  # fmt: skip


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
