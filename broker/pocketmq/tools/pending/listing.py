"""Everything of a stopped store that is still to be delivered, with the time it is due."""

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
from pocketmq.format.timed_records import TimedFacts, is_taken_back, taken_back
from pocketmq.format.timer_layout import PRECISION_MS, due_times
from pocketmq.model.message import INT32_MAX, REAL_QUEUE, REAL_TOPIC, UNIQUE_KEY
from pocketmq.model.system_topics import REVIVE_TOPIC_PREFIX
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files
from pocketmq.tools.dump import Unit, queue_ids, queue_units
from pocketmq.tools.lag import delivered_levels
from pocketmq.tools.pending.records import records_of
from pocketmq.tools.pending.timer_files import TimerSnapshot, read_timer_files
from pocketmq.tools.pending.timers import timer_facts

# -- delay levels ------------------------------------------------------------------------------
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


# -- the list ----------------------------------------------------------------------------------
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


def pending_messages(disk: Disk, directory: Path, sizes: KnownShape) -> Iterator[PendingMessage]:
    """Yields a store's pending messages: timers, then delay levels, each in put order.

    Errors   NotAStore, WrongFileSize, StoreGap
    Cost     some 12 µs a record that ever waited, and memory for recalls
    """
    files, _ = find_readable_files(directory, sizes.commit_log_file_size_bytes)
    timers = read_timer_files(disk, directory)
    gone: dict[int, set[bytes]] = {}
    for slot, facts, number in _in_timer(disk, directory, sizes, files, timers):
        if facts.markers[number]:
            gone.setdefault(slot, set()).add(taken_back(facts.record(number)))
    for slot, facts, number in _in_timer(disk, directory, sizes, files, timers):
        found = _timed(facts, number)
        ids = frozenset(gone.get(slot, ()))
        is_gone = is_taken_back(found.topic.encode(), found.message_id.encode(), ids)
        if not facts.markers[number] and not is_gone:
            yield found
    for level in waiting_levels(disk, directory, sizes, files):
        yield PendingMessage(
            level.due_ms, LEVEL, level.topic, level.queue_id, level.message_id,
            level.queue_offset, level.physical_offset,
        )  # fmt: skip


def _timed(facts: TimedFacts, number: int) -> PendingMessage:
    block = property_block(facts.record(number))
    topic = property_text(block, _TOPIC) or ""
    return PendingMessage(
        due_timestamp_ms=facts.due_ms[number],
        kind=LEASE if topic.startswith(REVIVE_TOPIC_PREFIX) else TIMER,
        topic=topic,
        queue_id=max(property_number(block, _QUEUE, INT32_MAX), 0),
        message_id=property_text(block, _KEY) or "",
        queue_offset=facts.queue_offsets[number],
        physical_offset=facts.physical_offsets[number],
    )


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
