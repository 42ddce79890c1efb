"""Messages that wait for a delay level: the undelivered part of the schedule topic.

Source: ScheduleMessageService.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.named_properties import (
    property_block,
    property_key,
    property_number,
    property_text,
)
from pocketmq.model.message import INT32_MAX, REAL_QUEUE, REAL_TOPIC, UNIQUE_KEY
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.tools.dump import Unit, queue_ids, queue_units
from pocketmq.tools.lag import delivered_levels
from pocketmq.tools.pending.records import records_of

_TOPIC, _QUEUE, _KEY = map(property_key, (REAL_TOPIC, REAL_QUEUE, UNIQUE_KEY))


class LevelMessage(NamedTuple):
    """A message that waits; `topic` and `queue_id` are where it goes."""

    level: int
    due_ms: int
    topic: str
    queue_id: int
    message_id: str
    queue_offset: int
    physical_offset: int


def waiting_levels(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile]
) -> Iterator[LevelMessage]:
    """Yields messages that wait for a delay level, by level, in the order they were put.

    Errors   WrongFileSize, StoreGap
    """
    delivered = delivered_levels(disk, directory)
    for queue_id in queue_ids(disk, directory, SCHEDULE_TOPIC):
        level = queue_id + 1
        units = queue_units(disk, directory, sizes, SCHEDULE_TOPIC, queue_id)
        left = (unit for unit in units if unit.queue_offset >= delivered.get(level, 0))
        for unit, record in records_of(files, left):
            if record is not None:
                yield _message(level, unit, record)


def _message(level: int, unit: Unit, record: bytes) -> LevelMessage:
    block = property_block(record)
    return LevelMessage(
        level=level,
        due_ms=unit.tags_code,
        topic=property_text(block, _TOPIC) or "",
        queue_id=max(property_number(block, _QUEUE, INT32_MAX), 0),
        message_id=property_text(block, _KEY) or "",
        queue_offset=unit.queue_offset,
        physical_offset=unit.physical_offset,
    )
