"""Timer messages that are pending, by the records of the timer's topic.

    queue offset at or behind the timer's      not read by the timer yet
    a unit in a future slot                    waiting in the wheel
    anything else                              delivered, or dropped

A recall is a record of that topic, which removes the message of its key from its slot.
Checkpoints and acks of leases are timer records like all others.
Source: TimerMessageStore.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketmq.files.disk import Disk
from pocketmq.format.java_hash import java_hash
from pocketmq.format.named_properties import (
    property_block,
    property_key,
    property_number,
    property_text,
)
from pocketmq.model.message import (
    INT32_MAX,
    REAL_QUEUE,
    REAL_TOPIC,
    RECALL_SEPARATOR,
    RECALL_TAG,
    TAGS,
    TIMER_DELETE,
    TIMER_OUT,
    UNIQUE_KEY,
)
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.dump import queue_units
from pocketmq.tools.pending.records import records_of

ROWS_AT_ONCE: Final = 4_096
ROW_TYPE: Final = np.dtype(
    [
        ("queue_offset", "<i8"), ("physical_offset", "<i8"), ("size", "<i4"), ("due_ms", "<i8"),
        ("topic_hash", "<i4"), ("is_recall", "?"), ("is_journal", "?"),
    ]
)  # fmt: skip
DUE_UNKNOWN: Final = -1
"""In a row: its record has no due time, which no broker writes."""
_DUE, _TOPIC, _QUEUE, _KEY = map(property_key, (TIMER_OUT, REAL_TOPIC, REAL_QUEUE, UNIQUE_KEY))
_RECALLS, _TAGS = map(property_key, (TIMER_DELETE, TAGS))


class TimerRecord(NamedTuple):
    """A record of the timer's topic.

    due_ms    its slot's time, or DUE_UNKNOWN
    recalls   unique key of the message it cancels, perhaps after its topic and a plus, or, for a
              recall, after its topic and RECALL_SEPARATOR; "" for a message
    """

    queue_offset: int
    physical_offset: int
    size: int
    due_ms: int
    topic: str
    queue_id: int
    message_id: str
    recalls: str

    @property
    def recall_keys(self) -> tuple[str, ...]:
        """Keys by which a record may recall this message (format/timed_records.py)."""
        key = self.message_id
        return key, f"{self.topic}+{key}", f"{self.topic}{RECALL_SEPARATOR}{key}"


def timer_records(
    disk: Disk, root: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[TimerRecord]:
    """Yields the records of the timer's topic in order, without unsound ones.

    root     directory with the consumequeue/ that is read
    Errors   WrongFileSize, StoreGap: the queue must be built again first
    Cost     6 µs a record
    """
    for unit, record in records_of(files, queue_units(disk, root, sizes, TIMER_TOPIC, 0)):
        if record is None:
            continue
        block = property_block(record)
        topic, key = property_text(block, _TOPIC) or "", property_text(block, _KEY) or ""
        recalls = property_text(block, _RECALLS) or ""
        if recalls and property_text(block, _TAGS) == RECALL_TAG:
            recalls = f"{topic}{RECALL_SEPARATOR}{key or recalls}"
        yield TimerRecord(
            unit.queue_offset,
            unit.physical_offset,
            unit.size,
            property_number(block, _DUE),
            topic,
            max(property_number(block, _QUEUE, INT32_MAX), 0),
            key,
            recalls,
        )


def timer_rows(
    disk: Disk, root: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[NDArray[Any]]:
    """Yields the same as numbers, of ROW_TYPE, some thousand at a time."""
    hashes: dict[str, int] = {}
    rows: list[tuple[int, int, int, int, int, bool, bool]] = []
    for found in timer_records(disk, root, sizes, files):
        topic_hash = hashes.get(found.topic)
        if topic_hash is None:
            topic_hash = hashes[found.topic] = java_hash(found.topic)
        is_journal = found.topic.startswith(REVIVE_TOPIC_PREFIX)
        rows.append((*found[:4], topic_hash, bool(found.recalls), is_journal))
        if len(rows) == ROWS_AT_ONCE:
            yield np.array(rows, ROW_TYPE)
            rows = []
    if rows:
        yield np.array(rows, ROW_TYPE)
