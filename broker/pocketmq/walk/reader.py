"""Reads one file of a log in chunks of whole records, into one reused buffer.

    FRONT | records … records | part of the next | BEHIND          (the reused buffer)

A chunk begins where the records of the previous chunk ended. `RecordScan` examines the bytes after
the last valid record of a file.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from pocketmq.format.columns.heads import (
    BEHIND,
    FRONT,
    Heads,
    read_heads,
    sound_count,
    starts,
    unsound_by_crc,
)
from pocketmq.format.record import BLANK_SIZE, SIZE_AND_MAGIC, BadRecord, check_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.finding import ScanEnd
from pocketmq.walk.source import LogSource

CHUNK_SIZE: Final = 8 * 1024 * 1024
"""Bytes per read: smaller reads cost more calls, larger ones exceed the processor's caches."""
_SPREAD: Final = 0x9E3779B1
"""Multiplier of a hash that spreads offsets over 32 bits."""


class Stop(NamedTuple):
    """End of the records of a file, and the reason for the end."""

    kind: ScanEnd
    physical_offset: int
    reason: str = ""

    @property
    def is_orderly(self) -> bool:
        """Whether no record is missing: the file is full, or the requested end was reached."""
        return self.kind in (ScanEnd.FILE_FULL, ScanEnd.UPTO)


NO_FILE: Final = Stop(ScanEnd.FILE_FULL, 0)
"""Stop of a walk that has not read any file yet."""


class Chunk(NamedTuple):
    """Valid records in the reader's buffer, at least one; overwritten by the next chunk.

    shift   physical offset of the buffer's position 0
    """

    buffer: bytearray
    heads: Heads
    shift: int

    @property
    def end(self) -> int:
        """Physical offset after the last record."""
        return int(self.heads.physical_offset[-1] + self.heads.size[-1])


class LogReader:
    """Reads files chunk by chunk; after each file, `stop` describes the end of its records.

    check_crc      whether records with a wrong CRC are damage
    property_crc   whether the writer of the log appends property CRCs; a record whose properties
                   end in zeros instead is then damaged
    crc_share      share of the chunks whose CRCs are checked; a chunk's offset decides whether it
                   is one of them. 1: all chunks
    """

    __slots__ = (
        "_buffer", "_check_crc", "_chunk_size", "_crc_share", "_doubted", "_property_crc", "stop",
    )  # fmt: skip

    def __init__(
        self, *, check_crc: bool = False, property_crc: bool = False, crc_share: float = 1.0,
        chunk_size: int = CHUNK_SIZE,
    ) -> None:  # fmt: skip
        self._check_crc = check_crc
        self._crc_share = crc_share
        self._property_crc = property_crc
        self._chunk_size = chunk_size
        self._buffer = bytearray()
        self._doubted = -1
        """Offset of a record with a wrong CRC; the chunk that begins there is always checked."""
        self.stop = Stop(ScanEnd.END_OF_DATA, 0)

    def chunks(self, source: LogSource, begin: int, upto: int) -> Iterator[Chunk]:
        """Yields the records of a file that start in [begin, upto); `begin` is a record's start.

        Cost     about 0.5 µs per record of 1 KiB, and 0.2 to 0.6 µs more with CRC
        """
        self._make_room(min(self._chunk_size, source.end - begin))
        end = yield from self._chain(source, begin, upto)
        while (stop := self._judge(source, end, upto)) is None:
            before = end  # A broker was still writing the record when the chunk was read.
            end = yield from self._chain(source, before, upto)
            assert end > before, f"{source.path} at {end}: valid only in the second check"
        self.stop = stop

    def _chain(self, source: LogSource, at: int, upto: int) -> Generator[Chunk, None, int]:
        """Yields chunks of contiguous records; returns the offset where they end."""
        while at < min(upto, source.end - BLANK_SIZE):
            room = memoryview(self._buffer)[FRONT : len(self._buffer) - BEHIND]
            got = source.read_into(at - source.base, room)
            heads = self._heads(FRONT + got, at, upto)
            if len(heads):
                chunk = Chunk(self._buffer, heads, at - FRONT)
                assert chunk.end > at
                at = chunk.end
                yield chunk
            elif got < len(room) or not self._is_cut(source, at):
                break
        return at

    def _make_room(self, size: int) -> None:
        if len(self._buffer) < FRONT + size + BEHIND:
            self._buffer = bytearray(FRONT + size + BEHIND)

    def _heads(self, end: int, at: int, upto: int) -> Heads:
        positions = starts(self._buffer, FRONT, end)
        if len(positions) and positions[-1] >= FRONT + upto - at:
            positions = positions[positions < FRONT + upto - at]
        heads = read_heads(self._buffer, positions)
        count = sound_count(heads, at - FRONT)
        if count < len(heads):
            heads = heads.take(slice(count))
        if self._check_crc and len(heads) and self._is_in_sample(at):
            unsound = unsound_by_crc(self._buffer, heads, property_crc=self._property_crc)
            if unsound < len(heads):
                self._doubted = int(heads.physical_offset[unsound])
                heads = heads.take(slice(unsound))
        return heads

    def _is_in_sample(self, at: int) -> bool:
        """Returns whether the CRCs of a chunk are checked; depends only on its offset."""
        if self._crc_share >= 1 or at == self._doubted:
            return True
        return at * _SPREAD % 2**32 < self._crc_share * 2**32

    def _is_cut(self, source: LogSource, at: int) -> bool:
        """Returns whether a valid record exceeds the buffer; if so, enlarges the buffer.

        The lengths in the record must add up to its size: memory must not be allocated for a
        damaged size.
        """
        size, _ = SIZE_AND_MAGIC.unpack_from(self._buffer, FRONT)
        if not len(self._buffer) - FRONT - BEHIND < size <= source.end - at:
            return False
        try:
            found = check_record(source.view, at - source.base, at, crc=False)
        except BadRecord:
            return False
        if found:
            self._make_room(size)
        return found > 0

    def _judge(self, source: LogSource, at: int, upto: int) -> Stop | None:
        """Returns why records end at an offset; None if a valid record does start at it."""
        if at >= upto:
            return Stop(ScanEnd.UPTO, at)
        if at + BLANK_SIZE > source.end:
            return Stop(ScanEnd.FILE_FULL, at)
        scan = RecordScan(
            source.view, source.base, at - source.base,
            crc=self._check_crc, property_crc=self._property_crc,
        )  # fmt: skip
        if next(iter(scan), None) is not None:
            return None
        return Stop(ScanEnd.FILE_FULL if scan.blank else scan.end, at, scan.reason)
