"""Records by which a follower proves to its leader what its log has in common with the leader's.

Usually the last record suffices. If the leader does not have it, the follower names records farther
back, at growing distances from its end, and the leader takes the last one that it has. Then the
follower names records after that one, until no record is between it and one that the leader lacks.
"""

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.log.commit_log import CommitLog

PROOFS_MAX: Final = 64
"""Upper limit of records that a follower names."""
PROOF_SIZE_MAX: Final = 1 << 20
"""Upper limit of the size of a named record, except the last record of the log."""
STEP: Final = 4_096
"""Distance of the first record before the last one; distances double."""
FILES_MAX: Final = 16
"""Number of last files whose first records are named; earlier files are at doubling distances."""


class Proof(NamedTuple):
    """A record of a log: its physical range, and the CRC-32 of all its bytes."""

    begin: int
    end: int
    crc: int


def last_proof(log: CommitLog, last_record: int, end: int) -> tuple[Proof, ...]:
    """Returns the last record of a log that ends at `end`; empty for an empty log.

    last_record   its physical offset, as far as it is known
    Cost          reads the record, or its file if the offset is wrong
    """
    if end <= log.min_offset or not log.files.files:
        return ()
    if last_record + (log.record_size_at(last_record) or end) != end:
        file = log.files.file_at(end - 1)
        found = [at for at, *_ in log.scan(file.base if file is not None else 0, end)]
        if not found and file is not None and file.base > log.min_offset:
            return last_proof(log, last_record, file.base)
        if not found:
            return ()
        last_record = found[-1]
    return (_proof(log, last_record),)


def many_proofs(log: CommitLog, last: Proof) -> tuple[Proof, ...]:
    """Returns the last record and earlier ones, the last one first.

    Cost   walks the last file, and reads the first record of others
    """
    base = last.begin - last.begin % log.file_size_bytes
    places = [*_in_file(log, base, last.begin), *_first_ones(log, base)]
    earlier = sorted(set(places) - {last.begin}, reverse=True)
    return (last, *(_proof(log, at) for at in earlier[: PROOFS_MAX - 1]))


def proofs_between(log: CommitLog, common: int, other: int) -> tuple[Proof, ...]:
    """Returns records that end after `common` and begin before `other`, the last one first.

    common   end of a record that both logs have, or their begin
    other    begin of a record that the leader does not have
    Returns  also the record that ends at `common`, if there is one; nothing if no record is between
    Cost     walks the range
    """
    starts = [at for at, _, _, size in log.scan(common, other) if size <= PROOF_SIZE_MAX]
    if not starts:
        return ()
    step = -(-len(starts) // (PROOFS_MAX - 1))
    named = [_proof(log, at) for at in reversed(starts[::step])]
    return (*named, *last_proof(log, common, common))


def _in_file(log: CommitLog, base: int, end: int) -> list[int]:
    starts = [at for at, _, _, size in log.scan(base, end) if size <= PROOF_SIZE_MAX]
    chosen, distance = list[int](), STEP
    for at in reversed(starts):
        if end - at >= distance or not chosen:
            chosen.append(at)
            distance = 2 * (end - at) if end - at >= distance else distance
    return chosen


def _first_ones(log: CommitLog, base: int) -> Iterator[int]:
    size, number, step = log.file_size_bytes, 0, 1
    while base >= log.min_offset:
        if 0 < (log.record_size_at(base) or 0) <= PROOF_SIZE_MAX:
            yield base
        number += 1
        step = 2 * step if number > FILES_MAX else 1
        base -= step * size


def _proof(log: CommitLog, at: int) -> Proof:
    size = log.record_size_at(at)
    assert size, "no record begins there"
    return Proof(at, at + size, zlib.crc32(log.read(at, size)))
