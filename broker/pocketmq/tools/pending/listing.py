"""Everything of a stopped store that is still to be delivered, with the time it is due."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.timer_layout import due_times
from pocketmq.rebuild.log_files import KnownShape, LogFile, find_readable_files
from pocketmq.tools.pending.levels import waiting_levels
from pocketmq.tools.pending.timer_files import TimerSnapshot, read_timer_files
from pocketmq.tools.pending.timers import TimerRecord, timer_records

LEASE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
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
    recalled = _recalled(disk, directory, sizes, files, timers)
    for found in _in_timer(disk, directory, sizes, files, timers):
        if found.recalls or any((key, found.due_ms) in recalled for key in found.recall_keys):
            continue
        is_lease = found.topic.startswith(LEASE_TOPIC_PREFIX)
        yield PendingMessage(
            found.due_ms, LEASE if is_lease else TIMER, found.topic, found.queue_id,
            found.message_id, found.queue_offset, found.physical_offset,
        )  # fmt: skip
    for level in waiting_levels(disk, directory, sizes, files):
        yield PendingMessage(
            level.due_ms, LEVEL, level.topic, level.queue_id, level.message_id,
            level.queue_offset, level.physical_offset,
        )  # fmt: skip


def _in_timer(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], timers: TimerSnapshot
) -> Iterator[TimerRecord]:
    """Yields the records of the timer's topic that are still in the timer, or ahead of it."""
    ahead = timers.check.queue_offset if timers.check is not None else 0
    to_come = due_times(timers.units) >= timers.read_ms
    waiting = set(timers.units["physical_offset"][to_come].tolist()) if to_come.any() else ()
    for found in timer_records(disk, directory, sizes, files):
        if found.queue_offset >= ahead or found.physical_offset in waiting:
            yield found


def _recalled(
    disk: Disk, directory: Path, sizes: KnownShape, files: Sequence[LogFile], timers: TimerSnapshot
) -> set[tuple[str, int]]:
    """Returns the messages that recalls in the timer are of, with the slots they look in."""
    return {
        (found.recalls, found.due_ms)
        for found in _in_timer(disk, directory, sizes, files, timers)
        if found.recalls
    }
