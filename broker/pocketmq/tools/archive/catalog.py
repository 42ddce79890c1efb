"""Names and contents of an archive's objects.

    archive.json                              format of the archive; written first
    log/BEGIN-END-SHA256                      bytes of the log, by physical offsets
    timerlog/BEGIN-END-SHA256                 bytes of the timer log, by its positions
    moments/2026-11-28T07/TIME.json           a moment to which the store can be restored
    moments/2026-11-28T07/files/SHA256.zst    a small file of the store, compressed

Offsets have 20 digits, and TIME is in milliseconds. A directory below moments/ has the moments of
one hour, with all files that they need. Parts of a log may overlap: small ones are replaced by
large ones, which are written before the small ones are removed.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pocketmq.model.errors import Corruption
from pocketmq.tools.archive.summed_json import decode_summed, encode_summed

ARCHIVE_FILE: Final = "archive.json"
FORMAT: Final = "pocketmq archive 1"
LOG: Final = "log"
TIMER: Final = "timerlog"
MOMENTS: Final = "moments"
FILES: Final = "files"
_PART: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{64})")


class LogPart(NamedTuple):
    """Bytes [begin, end) of a log, in one object; `digest` is their sha256."""

    begin: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """Last part of the object's name."""
        return f"{self.begin:020}-{self.end:020}-{self.digest}"


def parts_of(names: Iterable[str]) -> list[LogPart]:
    """Returns the parts with these names; other names are ignored."""
    found = (_PART.fullmatch(name) for name in names)
    return sorted(LogPart(int(one[1]), int(one[2]), one[3]) for one in found if one is not None)


def covering(parts: Iterable[LogPart], begin: int, upto: int) -> list[LogPart]:
    """Returns as few parts as possible that contain [begin, upto), in order.

    Errors   Corruption: at the first offset that no part contains
    """
    ordered, number, at = sorted(parts), 0, begin
    chosen: list[LogPart] = []
    best = LogPart(begin, begin, "")
    while at < upto:
        while number < len(ordered) and ordered[number].begin <= at:
            best = max(best, ordered[number], key=lambda part: part.end)
            number += 1
        if best.end <= at:
            why = f"no object contains the bytes from {at} on"
            raise Corruption(path=LOG, file_position=0, physical_offset=at, why=why)
        chosen.append(best)
        at = best.end
    return chosen


class StoredFile(NamedTuple):
    """A small file of a store at a moment.

    path     path in the store
    digest   sha256 of its content, which names its object
    """

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment to which a store can be restored.

    begin, upto              range of physical offsets of the log
    timer_begin, timer_upto  range of positions of the timer log
    timer_file_bytes         size of a file of the timer log
    shape                    sizes of the store's files (StoreShape)
    """

    time_ms: int
    begin: int
    upto: int
    timer_begin: int = 0
    timer_upto: int = 0
    timer_file_bytes: int = 0
    shape: dict[str, Any] = field(default_factory=dict)
    files: list[StoredFile] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of its object."""
        return f"{MOMENTS}/{hour_of(self.time_ms)}/{self.time_ms}.json"

    def file_object(self, file: StoredFile) -> str:
        """Returns the name of the object with a file's content."""
        return f"{MOMENTS}/{hour_of(self.time_ms)}/{FILES}/{file.digest}.zst"

    def encode(self) -> bytes:
        """Returns the moment as JSON; its member `sha256` is the digest of the others."""
        return encode_summed(FORMAT, asdict(self))


def moment_of(content: bytes, path: str) -> Moment:
    """Parses the content of a moment's object.

    Errors   Corruption: it is not what a shipper wrote
    """
    try:
        document = decode_summed(content, FORMAT)
        document["files"] = [StoredFile(*file) for file in document["files"]]
        return Moment(**document)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        why = f"it is not what `pocketmq archive ship` wrote: {error}"
        raise Corruption(path=path, file_position=0, physical_offset=0, why=why) from error


def hour_of(time_ms: int) -> str:
    """Returns the hour of a time, as the directory of its moments is named."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H")
