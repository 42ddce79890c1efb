"""How many records a filter looks at before others get their turn of the event loop.

Work is counted, not measured: a filter's work on a record takes so long at most.
"""

from collections.abc import Iterable
from typing import Final

from pocketmq.format.record_heads import queue_offset_of
from pocketmq.model.filter import Filter
from pocketmq.model.reading import PullResult

TURN_NS: Final = 10_000_000
"""How long a filter looks at records in one turn, as `Filter.cost_ns` counts it."""


def turn_count(wanted: Filter, records: Iterable[bytes]) -> int:
    """Returns how many of the records a filter looks at in one turn; one in any case."""
    count, left_ns = 0, TURN_NS
    for record in records:
        left_ns -= wanted.cost_ns(record)
        if left_ns < 0 and count:
            break
        count += 1
    return count


def within_turn(wanted: Filter, result: PullResult, begin: int) -> PullResult:
    """Returns as much of a result as a filter looks at in one turn.

    The other records are left to the next turn, which begins at `next_begin_offset`.
    begin   queue offset of the read
    """
    if not wanted.reads_records:
        return result
    count = turn_count(wanted, result.records)
    if count == len(result.records):
        return result
    following = queue_offset_of(result.records[count])
    if not begin < following < result.next_begin_offset:
        return result  # Its records count otherwise, as a store of RocketMQ 5.0.0 may have them.
    records = result.records[:count]
    return result._replace(records=records, record_count=count, next_begin_offset=following)
