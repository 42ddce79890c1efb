"""Pulling what is not fresh, or damaged: read by `pread` in a thread, never through the map.

    on the loop      status, units ──► which records, in which files (held)
    in a thread      one read for each run of records, each record checked
    on the loop      files let go, the answer: the records before the first that is not sound
    where that is the first of the range: the log is searched for it (store/reading/unit_repair.py)

A page fault stops every caller of the process, a read stops its own thread. Memory: what the pull
returns, and in a run at most GAP_MAX bytes more between two records.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from struct import Struct
from typing import Final, NamedTuple

from broker.files.mapped_file import MappedFile, let_go
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT
from broker.format.record import RECORD_SIZE_MIN
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.errors import Corruption, MessageDamaged
from broker.model.results import PullResult, PullStatus
from broker.store.reading.reader import (
    expired,
    is_gone,
    plain_accept,
    scan_count_of,
    status_at,
)
from broker.store.reading.record_check import Asked, asked_of, why_unsound
from broker.store.reading.unit_repair import Damage, UnitRepair, units_of

BYTES_MAX: Final = 256 * 1024
"""Records of one pull, whatever it asks for: a large reply is copied several times on the
event loop, and who reads old messages is in less of a hurry than who sends new ones. RocketMQ's
maxTransferBytesOnMessageInDisk is 64 KiB."""
SIZE: Final = Struct(">i")
"""What a record begins with."""
GAP_MAX: Final = 64 * 1024
"""Bytes between two records up to which one read for both beats two reads."""


class Place(NamedTuple):
    """Where a unit says that the record of a queue offset lies."""

    physical_offset: int
    size: int
    queue_offset: int


class Wanted(NamedTuple):
    """The records a pull returns, and the queue offset behind the last unit it looked at."""

    places: list[Place]
    next_begin_offset: int


Run = tuple[MappedFile, list[Place]]


async def pull(
    pool: Executor,
    repair: UnitRepair,
    log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    accept: Callable[[int], bool] | None = None,
) -> PullResult:
    """Return what `reader.pull` would, from wherever the records are, BYTES_MAX at most.

    Errors   MessageDamaged: the first record of the range is damaged; it says where to go on
    """
    status = status_at(queue, queue_offset)
    if status.status is not PullStatus.FOUND or queue is None:
        return status
    units = await units_of(pool, queue, queue_offset, scan_count_of(max_messages, accept))
    if accept is not None:
        accept = plain_accept(queue, accept)
    wanted = choose(
        units,
        queue_offset,
        max_messages=max_messages,
        max_bytes=min(max_bytes, BYTES_MAX),
        accept=accept,
    )
    records, damage = await _read(pool, log, asked_of(log, queue), wanted.places)
    following = wanted.next_begin_offset if damage is None else damage.queue_offset
    if damage is not None and not records:
        gone = _gone_since(log, queue, status, damage.queue_offset)
        if gone is not None:
            return gone
        found = await repair.record_of(log, queue, damage)
        gone = _gone_since(log, queue, status, damage.queue_offset)
        if isinstance(found, bytes):
            records, following = [found], following + 1
        elif gone is not None:
            return gone
        elif following == queue_offset:
            raise damage_error(log, found)
    return status._replace(
        status=PullStatus.FOUND if records else PullStatus.NO_MATCHED_MESSAGE,
        next_begin_offset=following,
        records=records,
        record_count=len(records),
    )


def _gone_since(
    log: CommitLog, queue: ConsumeQueue, status: PullResult, queue_offset: int
) -> PullResult | None:
    """Return what is true of a range that was removed or expired while it was read."""
    if not queue.files.files:
        return status_at(None, status.next_begin_offset)
    return expired(log, queue, status) if is_gone(log, queue, queue_offset) else None


def choose(
    units: bytes,
    queue_offset: int,
    *,
    max_messages: int,
    max_bytes: int,
    accept: Callable[[int], bool] | None,
) -> Wanted:
    """Return which records units lead to that a pull takes; the first one whatever its size.

    No filter passes over a unit that cannot be right.
    """
    places: list[Place] = []
    size_sum = 0
    position = queue_offset
    for place, size, tags_code in UNIT.iter_unpack(units):
        is_wanted = accept is None or size < RECORD_SIZE_MIN or accept(tags_code)
        if size != PRE_BLANK_SIZE and is_wanted:
            if places and (size_sum + size > max_bytes or len(places) == max_messages):
                break
            places.append(Place(place, size, position))
            size_sum += size
        position += 1
    return Wanted(places, position)


def runs_of(places: list[Place], file_size_bytes: int) -> list[list[Place]]:
    """Return places grouped into runs that one read each brings: near each other, in one file."""
    runs: list[list[Place]] = []
    end = -1
    for place in places:
        begin = place.physical_offset
        is_same_file = runs and begin // file_size_bytes == runs[-1][0][0] // file_size_bytes
        if is_same_file and 0 <= begin - end <= GAP_MAX:
            runs[-1].append(place)
        else:
            runs.append([place])
        end = begin + max(place.size, 0)
    return runs


async def _read(
    pool: Executor, log: CommitLog, asked: Asked, places: list[Place]
) -> tuple[list[bytes], Damage | None]:
    """Return the records at some places up to the first that is not sound, and what is wrong."""
    runs: list[Run] = []
    nowhere: Damage | None = None
    for row in runs_of(places, log.file_size_bytes):
        first = row[0]
        file = log.files.file_at(first.physical_offset) if first.physical_offset >= 0 else None
        if file is None:
            nowhere = Damage(first.queue_offset, first.physical_offset, "no file holds it")
            break
        runs.append((file, row))
    held = [file.hold() for file, _ in runs]
    job = asyncio.get_running_loop().run_in_executor(pool, read_runs, runs, asked)
    job.add_done_callback(lambda _: let_go(held))
    # A caller who gives up does not end the read: its files are let go when it has ended.
    records, damage = await asyncio.shield(job)
    return records, damage or nowhere


def read_runs(runs: list[Run], asked: Asked) -> tuple[list[bytes], Damage | None]:
    """Return the records of some runs of held files, each of them checked; blocks.

    Returns  the records before the first that is not sound, and what is wrong with that one
    """
    records: list[bytes] = []
    for file, run in runs:
        found = _read_together(file, run)
        for number, place in enumerate(run):
            record, why = (found[number], "") if found else _read_alone(file, place)
            why = why or why_unsound(record, *place[:2], asked, place.queue_offset)
            if why:
                return records, Damage(place.queue_offset, place.physical_offset, why)
            records.append(record)
    return records, None


def _read_together(file: MappedFile, run: list[Place]) -> list[bytes] | None:
    """Return the bytes at places of one run, None where they have to be read one by one."""
    begin, last = run[0].physical_offset, run[-1]
    size = last.physical_offset + last.size - begin
    if size > BYTES_MAX + len(run) * GAP_MAX:
        return None
    try:
        content = file.read(begin - file.base, size)
    except (Corruption, OSError):
        return None
    return [content[place - begin : place - begin + size] for place, size, _ in run]


def _read_alone(file: MappedFile, place: Place) -> tuple[bytes, str]:
    """Return the bytes at a place, and why there are none.

    A size that the record does not tell itself may be damaged: it takes no memory.
    """
    position = place.physical_offset - file.base
    try:
        if file.read(position, SIZE.size) != SIZE.pack(place.size):
            return b"", "no record of its unit's size starts there"
        return file.read(position, place.size), ""
    except Corruption as error:
        return b"", error.why
    except OSError as error:
        return b"", f"it cannot be read: {error.strerror}"


def damage_error(log: CommitLog, damage: Damage) -> MessageDamaged:
    """Return the error for a record of a queue that is not what was stored."""
    path, position = log.place_of(damage.physical_offset)
    return MessageDamaged(
        path=path,
        file_position=position,
        physical_offset=damage.physical_offset,
        why=damage.why,
        queue_offset=damage.queue_offset,
        next_begin_offset=damage.queue_offset + 1,
    )
