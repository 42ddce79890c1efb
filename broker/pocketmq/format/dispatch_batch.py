"""Prepares runs of written records for views: groups them by queue, encodes units and entries.

A dispatch step has as many runs as there were requests, so a run must be cheap. `following_units`
and `entries_of` return None for unusual runs, and the views handle such runs one by one.
"""

from collections.abc import Sequence
from typing import Final

from pocketmq.model.batch import Written
from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
    QueueKey,
)
from pocketmq.native.machine import BytesWriter, i64, write_i32_be, write_i64_be

_MASK: Final = FLAG_TRANSACTION_MASK


def by_queue(written: Sequence[Written]) -> tuple[dict[QueueKey, list[Written]], list[Written]]:
    """Groups runs by queue, in the order of their first runs.

    Returns  (runs by queue, runs of prepared and rolled back messages)
    Cost     about 0.1 µs a run if compiled, else 0.4 µs
    """
    groups: dict[QueueKey, list[Written]] = {}
    apart: list[Written] = []
    for run in written:
        destination = run.destination
        transaction = destination.system_flag & _MASK
        if transaction != TRANSACTION_NONE and transaction != TRANSACTION_COMMIT:
            apart.append(run)
            continue
        key = (destination.topic, destination.queue_id)
        group = groups.get(key)
        if group is None:
            groups[key] = [run]
        else:
            group.append(run)
    return groups, apart


def queues_of(written: Sequence[Written]) -> list[QueueKey]:
    """Returns the queues of some runs, each once, in the order of their first runs."""
    found: dict[QueueKey, None] = {}
    for run in written:
        destination = run.destination
        found[destination.topic, destination.queue_id] = None
    return list(found)


def following_units(runs: Sequence[Written], expected: int, end: int) -> bytes | None:
    """Returns the joined units of runs that continue a queue; None if the runs do not continue it.

    expected  next queue offset of the queue; the first run must have it
    end       physical offset after the queue's last record; no run may begin before it
    Cost      about 0.1 µs a run if compiled, else 0.5 µs; more for records without ready units
    """
    made: list[bytes] = []
    for run in runs:
        places = run.physical_offsets
        if run.queue_offset != expected or places[0] < end:
            return None
        count = len(places)
        expected += count
        end = places[count - 1] + run.sizes[count - 1]
        made.append(run.units or units_of(run))
    return made[0] if len(made) == 1 else b"".join(made)


def units_of(run: Written) -> bytes:
    """Encodes the units of a run without ready units."""
    units = BytesWriter()
    places, sizes, codes = run.physical_offsets, run.sizes, run.tags_codes
    number: i64 = 0
    count: i64 = len(places)
    while number < count:
        write_i64_be(units, places[number])
        write_i32_be(units, sizes[number])
        write_i64_be(units, codes[number])
        number += 1
    return units.getvalue()


def entries_of(written: Sequence[Written]) -> bytes | None:
    """Returns the joined index entries of runs; None if one has no entries or is not indexed.

    Cost     about 0.1 µs a run if compiled, else 0.2 µs
    """
    made: list[bytes] = []
    for run in written:
        entries = run.entries
        if entries is None or run.destination.system_flag & _MASK == TRANSACTION_ROLLBACK:
            return None
        made.append(entries)
    return made[0] if len(made) == 1 else b"".join(made)
