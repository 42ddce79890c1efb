"""Clamps the offsets in tables to the ends of their queues, when the broker starts.

An offset exceeds its queue's end if tables and log do not belong together: a crash lost messages, a
log was shortened or its damage accepted, or tables were copied without the log. Such an offset
hides new messages until the queue has grown past it. Later, each receive clamps its own offset.
Source: none; RocketMQ leaves it to clients (OFFSET_OVERFLOW_BADLY).
"""

import logging
from collections.abc import Callable
from typing import Final

from pocketmq.model.system_topics import REVIVE_GROUP, TIMER_TOPIC
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.store.tables.offsets import Clamped
from pocketmq.store.tables.tables import Tables

SHOWN_MAX: Final = 100
"""Upper limit of clamped offsets that a start logs one by one; it also logs the number of all."""
EndOf = Callable[[str, int], int]
"""(topic, queue id) -> queue offset of the queue's next message."""

logger = logging.getLogger(__name__)


async def clamp_tables(tables: Tables, end_of: EndOf, log_end: int) -> None:
    """Clamps every offset in the tables to its queue's end; durable when it returns.

    log_end   physical offset after the last record
    Errors    DiskFull, StoreFailed
    Cost      2 µs an offset
    """

    def end_for(group: str, topic: str, queue_id: int) -> int:
        end = end_of(topic, queue_id)
        # The revive group commits the offset of the last record that it read, not the next offset.
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
    """Clamps one offset to its queue's end; the table is saved later."""
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
