"""Runs of written records, sorted by their use in views: per queue, as units, as entries.

    runs ──by_queue──► runs of each queue ──following_units──► bytes behind the queue's last unit
      └──entries_of──► bytes for the index

A dispatch step has as many runs as there were requests, so each costs as little as can be. Unusual
ones are left to the views: None is returned.
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
    """Returns the runs of each queue, queues in the order of their first run, and runs of none.

    Cost     about 0.1 µs a run compiled, 0.4 µs not
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
    """Returns the queues that some runs are of, each once, in the order of its first run."""
    found: dict[QueueKey, None] = {}
    for run in written:
        destination = run.destination
        found[destination.topic, destination.queue_id] = None
    return list(found)


def following_units(runs: Sequence[Written], expected: int, end: int) -> bytes | None:
    """Returns the units of runs that follow on each other, None where they do not.

    expected  queue offset behind the last unit; the first run must have it
    end       physical offset behind its record; no run may begin before
    Cost      about 0.1 µs a run compiled, 0.5 µs not; more for each record without ready units
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
    """Returns the units of a run that did not bring them."""
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
    """Returns the index entries of runs, None where one did not bring them, or is not indexed.

    Cost     about 0.1 µs a run compiled, 0.2 µs not
    """
    made: list[bytes] = []
    for run in written:
        entries = run.entries
        if entries is None or run.destination.system_flag & _MASK == TRANSACTION_ROLLBACK:
            return None
        made.append(entries)
    return made[0] if len(made) == 1 else b"".join(made)
