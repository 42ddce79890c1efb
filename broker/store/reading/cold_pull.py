"""Pulling what is not fresh: records are read by `pread` in a thread, never through the map.

    on the loop      status, units ──► which records, in which files (held)
    in a thread      one read for each run of records, each record checked
    on the loop      files let go, the answer

A page fault stops every caller of the process, a read stops its own thread. Memory: what the pull
returns, and in a run at most GAP_MAX bytes more between two records.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from broker.files.mapped_file import MappedFile, let_go
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT
from broker.format.record import BadRecord
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.cold_read import ColdRead
from broker.model.errors import Corruption
from broker.model.results import PullResult, PullStatus
from broker.store.reading.reader import (
    check_copy,
    expired,
    file_holding,
    plain_accept,
    scan_count_of,
    status_at,
)

BYTES_MAX: Final = 256 * 1024
"""Records of one pull, whatever it asks for: a large reply is copied several times on the
event loop, and who reads old messages is in less of a hurry than who sends new ones. RocketMQ's
maxTransferBytesOnMessageInDisk is 64 KiB."""
GAP_MAX: Final = 64 * 1024
"""Bytes between two records up to which one read for both beats two reads."""

Place = tuple[int, int]
"""Physical offset and size of a record."""


class Wanted(NamedTuple):
    """The records a pull returns, and the queue offset behind the last unit it looked at."""

    places: list[Place]
    next_begin_offset: int


async def pull(
    pool: Executor,
    log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    accept: Callable[[int], bool] | None = None,
) -> PullResult:
    """Return what `reader.pull` would, from wherever the records are, BYTES_MAX at most.

    Errors   Corruption
    """
    status = status_at(queue, queue_offset)
    if status.status is not PullStatus.FOUND or queue is None:
        return status
    loop = asyncio.get_running_loop()
    while True:
        try:
            units = queue.resident_units(queue_offset, scan_count_of(max_messages, accept))
            break
        except ColdRead as cold:
            await loop.run_in_executor(pool, cold.fetch)
    if accept is not None:
        accept = plain_accept(queue, accept)
    wanted = choose(
        units,
        queue_offset,
        max_messages=max_messages,
        max_bytes=min(max_bytes, BYTES_MAX),
        accept=accept,
    )
    if wanted.places and wanted.places[0][0] < log.min_offset:
        return expired(log, queue, status)
    places = runs_of(wanted.places, log.file_size_bytes)
    runs = [(file_holding(log, run[0][0]), run) for run in places]
    held = [file.hold() for file, _ in runs]
    job = loop.run_in_executor(pool, read_runs, runs)
    job.add_done_callback(lambda _: let_go(held))
    # A caller who gives up does not end the read: its files are let go when it has ended.
    records = await asyncio.shield(job)
    found = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MESSAGE
    return status._replace(
        status=found,
        next_begin_offset=wanted.next_begin_offset,
        records=records,
        record_count=len(records),
    )


def choose(
    units: bytes,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    accept: Callable[[int], bool] | None,
) -> Wanted:
    """Return which records units lead to that a pull takes; the first one whatever its size."""
    places: list[Place] = []
    size_sum = 0
    position = queue_offset
    for place, size, tags_code in UNIT.iter_unpack(units):
        if size != PRE_BLANK_SIZE and (accept is None or accept(tags_code)):
            if places and (size_sum + size > max_bytes or len(places) == max_messages):
                break
            places.append((place, size))
            size_sum += size
        position += 1
    return Wanted(places, position)


def runs_of(places: list[Place], file_size_bytes: int) -> list[list[Place]]:
    """Return places grouped into runs that one read each brings: near each other, in one file."""
    runs: list[list[Place]] = []
    end = -1
    for place, size in places:
        is_same_file = runs and place // file_size_bytes == runs[-1][0][0] // file_size_bytes
        if is_same_file and 0 <= place - end <= GAP_MAX:
            runs[-1].append((place, size))
        else:
            runs.append([(place, size)])
        end = place + max(size, 0)
    return runs


def read_runs(runs: list[tuple[MappedFile, list[Place]]]) -> list[bytes]:
    """Return the records of some runs of held files, each of them checked; blocks.

    Errors   Corruption
    """
    records: list[bytes] = []
    for file, run in runs:
        begin, (last, last_size) = run[0][0], run[-1]
        content = file.read(begin - file.base, last + last_size - begin)
        for place, size in run:
            record = content[place - begin : place - begin + size]
            _check(file, record, place, size)
            records.append(record)
    return records


def _check(file: MappedFile, record: bytes, place: int, size: int) -> None:
    try:
        check_copy(record, place, size)
    except BadRecord as error:
        raise Corruption(
            path=str(file.path),
            file_position=place - file.base,
            physical_offset=place,
            why=str(error),
        ) from error
