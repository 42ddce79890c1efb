"""Brings the offsets of tables down to the ends of their queues.

An offset is beyond its queue's end where the tables are of another log than the queues: a crash
took messages, a log was shortened or its damage accepted, tables were copied without the log. Left
there, it hides every new message until the queue has grown past it. All tables of offsets are
checked at each start; receives check the offset of their own queue.
Source: none; a real broker leaves it to clients (OFFSET_OVERFLOW_BADLY).
"""

import logging
from collections.abc import Callable
from typing import Final

from pocketmq.model.system_topics import REVIVE_GROUP, TIMER_TOPIC
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.tables.offsets import Clamped
from pocketmq.store.tables.tables import Tables

SHOWN_MAX: Final = 100
"""Offsets of which a start reports each; all of them are counted."""
EndOf = Callable[[str, int], int]
"""(topic, queue id) -> the queue offset its next message gets."""

logger = logging.getLogger(__name__)


async def clamp_tables(tables: Tables, end_of: EndOf, log_end: int) -> None:
    """Brings every offset in the tables down to its queue's end; durable when it returns.

    log_end   physical offset behind the last record
    Effects   reports the group and queue of the first SHOWN_MAX offsets, and counts all
    Errors    DiskFull, FsyncFailed
    Cost      some 2 µs an offset
    """

    def end_for(group: str, topic: str, queue_id: int) -> int:
        end = end_of(topic, queue_id)
        # This group's offset is that of the last record it read.
        return max(end - 1, 0) if group == REVIVE_GROUP else end

    clamped = await tables.offsets.clamp(end_for)
    for one in clamped[:SHOWN_MAX]:
        _report(one)
    count = len(clamped) + await tables.orders.clamp(end_of)
    count += await tables.delay_offsets.clamp(
        lambda level: end_of(SCHEDULE_TOPIC, level - 1), log_end
    )
    count += await tables.timer_check.clamp(end_of(TIMER_TOPIC, 0), log_end)
    if count:
        logger.warning("offsets.clamped", extra={"count": count})


def clamp_offset(tables: Tables, group: str, topic: str, queue_id: int, end: int) -> None:
    """Brings one offset down to its queue's end; a write of the table begins at once."""
    one = tables.offsets.clamp_one(group, topic, queue_id, end)
    if one is not None:
        _report(one)


def _report(one: Clamped) -> None:
    logger.warning(
        "offset.clamped",
        extra={
            "group": one.group, "topic": one.topic, "queue_id": one.queue_id,
            "queue_offset": one.queue_offset, "end": one.end,
        },
    )  # fmt: skip
