"""What damage in a log file is told as, and where sound records go on behind it."""

import mmap
import os
from dataclasses import dataclass
from typing import Final

from broker.format.record import BLANK_SIZE
from broker.format.record_scan import next_sound_position
from broker.rebuild.log_files import LogFile

ORDERLY_END: Final = "no record up to the file's end"
"""The reason of a hole that is zeros: what lies behind the last record of a log."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [begin, end) of the log that hold no sound record.

    is_followed   sound records lie behind it in its file
    """

    path: str
    begin: int
    end: int
    reason: str
    is_followed: bool


def next_sound_record(file: LogFile, physical_offset: int, last_time_ms: int) -> int | None:
    """Return where the next sound record behind damage starts in its file, None without one.

    Cost     a search of the file's rest, some 0.2 s a GiB
    """
    if file.end - physical_offset < BLANK_SIZE:
        return None
    with (
        open(file.path, "rb") as opened,
        mmap.mmap(opened.fileno(), file.size, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):

        def read_piece(position: int, size: int) -> bytes:
            return os.pread(opened.fileno(), size, position)

        begin = physical_offset - file.base
        position = next_sound_position(view, file.base, begin, last_time_ms, read_piece)
    return None if position is None else file.base + position
