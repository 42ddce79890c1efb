"""Limits the records that a filter reads in one turn of the event loop.

The limit uses estimated costs (`Filter.cost_ns`), not measured times.
"""

from collections.abc import Iterable
from typing import Final

from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.filter import Filter
from pocketmq.model.reading import PullResult

TURN_NS: Final = 10_000_000
"""Estimated cost of the records that a filter reads in one turn."""


def turn_count(wanted: Filter, records: Iterable[bytes]) -> int:
    """Returns the number of records that a filter reads in one turn, at least one."""
    count, left_ns = 0, TURN_NS
    for record in records:
        left_ns -= wanted.cost_ns(record)
        if left_ns < 0 and count:
            break
        count += 1
    return count


def within_turn(wanted: Filter, result: PullResult, begin: int) -> PullResult:
    """Returns the part of a result that a filter reads in one turn.

    The next turn begins at `next_begin_offset`.
    begin   queue offset of the read
    """
    if not wanted.reads_records:
        return result
    count = turn_count(wanted, result.records)
    if count == len(result.records):
        return result
    following = queue_offset_of(result.records[count])
    if not begin < following < result.next_begin_offset:
        return result  # In a store of RocketMQ 5.0.0, records may contain too high offsets.
    records = result.records[:count]
    return result._replace(records=records, record_count=count, next_begin_offset=following)
