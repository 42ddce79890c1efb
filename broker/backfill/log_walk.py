"""Reads the log range by range over damage, so that every hole is told and none is passed over.

    file 0 │ file 1  ▓▓ │ file 2     ▓▓ a hole: sound records lie behind it, here or in file 2
                                     what follows the last sound record of all is no hole

Whether records lie behind the end of a range's records is known before it is read: `survey` looks
at the first record of every file.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.backfill.damage import Damage
from broker.format.record import BLANK_SIZE, BadRecord, check_record, split_record
from broker.rebuild.holes import ORDERLY_END, next_sound_record
from broker.rebuild.log_files import LogFile
from broker.rebuild.plan import Range
from broker.rebuild.reader import Chunk, LogReader, StopKind

_STORE_TIMESTAMP_FIELD: Final = 10


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range with what must be known of the files around it.

    last_time_ms   no record behind a hole at its start counts that is older than this
    is_followed    a later file holds records
    """

    part: Range
    last_time_ms: int
    is_followed: bool


def survey(ranges: Sequence[Range]) -> list[Stretch]:
    """Return the ranges with what the first records of all files tell of them.

    Cost     one record read of each file
    """
    times: dict[LogFile, int | None] = {}
    for part in ranges:
        if part.file not in times:
            times[part.file] = _first_time(part.file)
    bases = [file.base for file, time_ms in times.items() if time_ms is not None]
    last_base = max(bases, default=0)
    stretches, newest = [], 0
    for part in ranges:
        stretches.append(Stretch(part, newest, part.file.base < last_base))
        newest = max(newest, times[part.file] or 0)
    return stretches


def _first_time(file: LogFile) -> int | None:
    """Return the store time of a file's first record, None when it does not begin with one."""
    with (
        Path(file.path).open("rb") as opened,
        mmap.mmap(opened.fileno(), file.size, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        try:
            size = check_record(view, 0, file.base)
            head = split_record(view, 0)[0] if size else ()
        except BadRecord:
            return None
    return int(head[_STORE_TIMESTAMP_FIELD]) if head else None


def walk(stretch: Stretch, *, check_crc: bool) -> Iterator[Chunk | Damage]:
    """Yield the sound records of a stretch chunk by chunk, and the holes between them, in order."""
    file, upto = stretch.part.file, stretch.part.end
    reader = LogReader(check_crc=check_crc)
    begin: int | None = stretch.part.begin
    last_time_ms = stretch.last_time_ms
    while begin is not None and begin < upto:
        for chunk in reader.chunks(file, begin, upto):
            last_time_ms = int(chunk.heads.store_timestamp_ms[-1])
            yield chunk
        if reader.stop.kind in (StopKind.FILE_FULL, StopKind.UPTO):
            return
        at = reader.stop.physical_offset
        begin = next_sound_record(file, at, last_time_ms) if at + BLANK_SIZE < file.end else None
        if begin is not None or stretch.is_followed:
            yield Damage(file.path, at - file.base, at, reader.stop.reason or ORDERLY_END)
