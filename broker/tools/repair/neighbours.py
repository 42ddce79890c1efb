"""The sound records beside damage: what stand-ins take over from them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.format.addresses import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from broker.format.record import (
    BLANK_SIZE,
    PROPERTY_CRC_SIZE,
    RECORD_HEAD,
    SIZE_AND_MAGIC,
    SYSTEM_FLAG,
    SYSTEM_FLAG_POSITION,
)
from broker.model.message import FLAG_BORN_HOST_V6, PROPERTY_CRC
from broker.rebuild.log_files import LogFile
from broker.walk.reader import LogReader
from broker.walk.search import store_time_at

_CRC_MARK: Final = f"{PROPERTY_CRC}\x01".encode()
TIME_SIZE: Final = 8
"""Bytes of a store time."""

Ranges = Sequence[tuple[int, int]]
"""Damage as [begin, end), rising."""


class Neighbour(NamedTuple):
    """A sound record."""

    physical_offset: int
    size: int
    time_ms: int
    property_crc: bool


class Neighbours:
    """Finds sound records in a log whose damage is known.

    Cost     some µs a record of the stretch that is walked; a stretch ends at damage
    """

    __slots__ = ("_damage", "_files")

    def __init__(self, files: Sequence[LogFile], damage: Ranges) -> None:
        self._files = files
        self._damage = damage

    def at(self, physical_offset: int) -> Neighbour | None:
        """Return the record that starts at an offset."""
        for file in self._files:
            if file.base <= physical_offset <= file.end - BLANK_SIZE:
                return _read(file, physical_offset)
        return None

    def before(self, physical_offset: int) -> Neighbour | None:
        """Return the last record that starts below an offset."""
        for file in reversed(self._files):
            for begin, end in reversed(list(self._stretches(file, physical_offset))):
                last = _last(file, begin, end)
                if last is not None:
                    return _read(file, last)
        return None

    def after(self, physical_offset: int) -> Neighbour | None:
        """Return the first record at or behind an offset at which a stretch of records begins."""
        for file in self._files:
            for begin, _ in self._stretches(file, file.end) if file.end > physical_offset else ():
                found = _read(file, begin) if begin >= physical_offset else None
                if found is not None:
                    return found
        return None

    def _stretches(self, file: LogFile, upper: int) -> Iterator[tuple[int, int]]:
        """Yield what lies between damage in a file, below an offset."""
        begin = file.base
        for lower, higher in [*self._damage, (file.end, file.end)]:
            if begin <= lower <= file.end:
                end = min(lower, upper)
                if begin < end:
                    yield begin, end
                begin = higher


def _last(file: LogFile, begin: int, end: int) -> int | None:
    last = None
    with file.opened() as source:
        for chunk in LogReader().chunks(source, begin, end):
            last = int(chunk.heads.physical_offset[-1])
    return last


def _read(file: LogFile, physical_offset: int) -> Neighbour | None:
    with file.opened() as source:
        time_ms = store_time_at(source, physical_offset)
        if time_ms is None:
            return None
        position = physical_offset - file.base
        size: int = SIZE_AND_MAGIC.unpack_from(source.view, position)[0]
        mark = bytes(source.view[position + size - PROPERTY_CRC_SIZE : position + size])
    return Neighbour(physical_offset, size, time_ms, mark.startswith(_CRC_MARK))


def store_time_position(record: bytes) -> int:
    """Return at which byte of a record its store time stands."""
    (flag,) = SYSTEM_FLAG.unpack_from(record, SYSTEM_FLAG_POSITION)
    wider = IPV6_HOST_SIZE - IPV4_HOST_SIZE if flag & FLAG_BORN_HOST_V6 else 0
    return RECORD_HEAD.positions["store_timestamp"] + wider
