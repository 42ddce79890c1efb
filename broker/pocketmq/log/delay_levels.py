"""Finds the delay levels with which an existing store was written, from its units.

    unit of queue n - 1: due at 12:00:05, its record stored at 12:00:03  ─►  level n is 2s

RocketMQ has the delay levels only in its configuration (messageDelayLevel). The newest units show
the delay of each level.
Source: CommitLog.checkMessageAndReturnSize.
"""

from collections import Counter
from pathlib import Path
from typing import Final

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from pocketmq.format.names import (
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    offset_from_file_name,
    queue_id_from_name,
)
from pocketmq.log.placed_records import PlacedRecords
from pocketmq.model.store_shape import DelayLevels
from pocketmq.model.topic import SCHEDULE_TOPIC

LEVELS_MAX: Final = 128
UNITS_READ: Final = 32
_SECOND_MS: Final = 1_000


def written_levels(disk: Disk, store: Path, stated: str, *, log_file_bytes: int) -> str:
    """Returns the delay levels of a store as operators write them; "" if they equal `stated`.

    stated   the configured levels; a level for which units show another delay is replaced, and
             levels that only the store has are added
    Cost     reads some records of each queue of the schedule topic
    """
    root = store / CONSUME_QUEUE_DIRECTORY / SCHEDULE_TOPIC
    log = PlacedRecords(disk, store / COMMIT_LOG_DIRECTORY, log_file_bytes)
    delays = list(DelayLevels(stated).delays_ms)
    shown = stated.split()
    try:
        for name in disk.names(root):
            queue_id = queue_id_from_name(name)
            delay_ms = _delay_ms(disk, root / name, log) if queue_id is not None else 0
            if not delay_ms or queue_id is None or queue_id >= LEVELS_MAX:
                continue
            text = f"{delay_ms // _SECOND_MS}s"
            missing = queue_id + 1 - len(shown)
            shown += [text] * missing
            delays += [delay_ms] * missing
            if delays[queue_id] != delay_ms:
                shown[queue_id] = text
    finally:
        log.close()
    return " ".join(shown) if shown != stated.split() else ""


def _delay_ms(disk: Disk, queue: Path, log: PlacedRecords) -> int:
    found: Counter[int] = Counter()
    files = [name for name in disk.names(queue) if offset_from_file_name(name) is not None]
    for name in reversed(files):
        with disk.opened(queue / name) as descriptor:
            end = min(disk.data_end(descriptor), disk.file_size(queue / name))
            begin = max(end - end % UNIT_SIZE - UNITS_READ * UNIT_SIZE, 0)
            content = disk.read_at(descriptor, begin, -(-end // UNIT_SIZE) * UNIT_SIZE - begin)
        for place, size, due_ms in UNIT.iter_unpack(
            content[: len(content) // UNIT_SIZE * UNIT_SIZE]
        ):
            record = log.record_at(place) if 0 < size < PRE_BLANK_SIZE else None
            if record is None or record.destination.topic != SCHEDULE_TOPIC:
                continue
            delay_ms = due_ms - record.store_time_ms
            if delay_ms > 0 and delay_ms % _SECOND_MS == 0:
                found[delay_ms] += 1
        if found:
            return found.most_common(1)[0][0]
    return 0
