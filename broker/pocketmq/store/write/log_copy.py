"""Copies the log of another broker byte for byte, as a follower does.

    bytes of the leader ──► whole records ──put-lock──► log ──► appended, committed ──► flush
                       └──► rest of a file after its BLANK, as it is

A record that has not arrived completely stays in memory, so that the log ends with a whole record
at any time, and an ordinary start recovers it. All records are checked before they are stored.
Many records are checked by column, a few one by one, with the same result. Queues and index are
built by the store's own dispatch, up to the leader's confirmed end.
Source: DefaultHAClient.dispatchReadRequest, DefaultMessageStore.appendToCommitLog.
"""

from typing import Final

from pocketmq.format.columns.heads import (
    BEHIND,
    FRONT,
    read_heads,
    sound_count,
    starts,
    unsound_by_crc,
)
from pocketmq.format.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    SIZE_AND_MAGIC,
    STORE_TIMESTAMP_FIELD,
    BadRecord,
    check_record,
    split_record,
)
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import Corruption
from pocketmq.store.marks import Marks
from pocketmq.store.write.writing import Writing

SOURCE: Final = "the leader's log"
COLUMNS_MIN: Final = 16 * 1024
"""Bytes from which on records are checked by column."""


class ArrivedBytes:
    """Bytes from FRONT on in a buffer that has the margins which checks by column need.

    size   number of bytes
    """

    __slots__ = ("buffer", "size")

    def __init__(self) -> None:
        self.buffer = bytearray(FRONT + BEHIND)
        self.size = 0

    def add(self, content: bytes) -> None:
        """Appends bytes."""
        end = FRONT + self.size
        upper = end + len(content)
        if upper + BEHIND > len(self.buffer):
            # Arrays may still refer to the old buffer, so it is not resized.
            self.buffer = self.buffer[:end] + bytearray(2 * (upper - end) + BEHIND)
        self.buffer[end:upper] = content
        self.size += len(content)

    def drop(self, count: int) -> None:
        """Removes the first bytes."""
        rest = self.size - count
        assert rest >= 0
        self.buffer[FRONT : FRONT + rest] = self.buffer[FRONT + count : FRONT + self.size]
        self.size = rest


class LogCopy:
    """The copy of another broker's log.

    end            physical offset of the next byte to receive
    last_record    physical offset of the last whole record
    """

    __slots__ = ("_log", "_marks", "_needed", "_rest", "_writing", "end", "last_record")

    def __init__(self, log: CommitLog, marks: Marks, writing: Writing) -> None:
        self._log = log
        self._marks = marks
        self._writing = writing
        self._rest = ArrivedBytes()
        self._needed = 0
        """Number of bytes of the rest below which no record can be complete."""
        self.end = log.appended
        self.last_record = marks.last_dispatched
        assert log.pool is None, "a copied log has no transient pool"

    @property
    def whole_end(self) -> int:
        """Physical offset below which all records are in the log; it may be behind a BLANK."""
        return self.end - self._rest.size

    def begin(self, physical_offset: int) -> None:
        """Continues at an offset after a new handshake; incomplete records are forgotten.

        Shape    the end of the log, or for an empty log the begin of any file
        """
        self._rest = ArrivedBytes()
        self._needed = 0
        log = self._log
        if not self._marks.appended.value and physical_offset != log.appended:
            log.begin_at(physical_offset)
            self._writing.allocation.request()
        log.copy_again()
        assert physical_offset == log.appended, (physical_offset, log.appended)
        self.end = physical_offset

    async def append(self, physical_offset: int, content: bytes) -> None:
        """Takes the next bytes of the leader's log, and stores all records that are complete.

        Errors   Corruption: the bytes are no records, and nothing of the damaged one is stored;
                 DiskFull, StoreBusy, Draining; StoreFailed. After an error `begin` must follow
        Cost     0.3 µs a record of many, and the CRC of its body: 2 ms for 512 KiB
        """
        assert physical_offset == self.end, (physical_offset, self.end)
        rest = self._rest
        rest.add(content)
        self.end += len(content)
        while rest.size >= max(self._needed, 1):
            at = self.end - rest.size
            size, last = self._complete(at)
            if not size:
                return
            self._writing.gate.check_room()
            while not self._log.can_copy:
                await self._writing.allocation.room()
            self._store(at, bytes(memoryview(rest.buffer)[FRONT : FRONT + size]), last)
            rest.drop(size)

    def _complete(self, at: int) -> tuple[int, int]:
        """Returns (number of bytes to store, physical offset of the last record among them).

        The offset is -1 for bytes without a record: the end of a file.
        """
        size = self._log.file_size_bytes
        left = size - at % size
        count = min(left, self._rest.size)
        if at % size and at > self._log.appended:  # The BLANK was stored.
            return count, -1
        buffer, shift, end = self._rest.buffer, at - FRONT, FRONT + count
        position, last = _sound_upto(buffer, end, shift) if count >= COLUMNS_MIN else (FRONT, -1)
        try:
            while (size := self._size_at(position, end, shift)) > 0:
                if position + size > end:
                    break
                check_record(buffer, position, position + shift)
                last, position = position, position + size
        except BadRecord as bad:
            if last < 0:
                raise self._damaged(at, str(bad)) from bad
            size = 1  # The records before are stored first.
        self._needed = size or min(BLANK_SIZE, left - position + FRONT)
        if last < 0 and self._is_end_of_file(count, left):
            return count, -1
        return position - FRONT, last + shift if last >= 0 else -1

    def _size_at(self, position: int, end: int, shift: int) -> int:
        """Returns the size of the record at a position; 0 if it is unknown, or no record follows.

        shift    physical offset of the buffer's position 0
        Errors   BadRecord
        """
        left = -(shift + position) % self._log.file_size_bytes or self._log.file_size_bytes
        if left < BLANK_SIZE or position + BLANK_SIZE > end:
            return 0
        size, magic = SIZE_AND_MAGIC.unpack_from(self._rest.buffer, position)
        if magic == MAGIC_BLANK and size == left:
            return 0
        if magic == MAGIC_BLANK or not BLANK_SIZE < size <= left:
            raise BadRecord(f"a record of {size} bytes with {left} left")
        return int(size)

    def _is_end_of_file(self, count: int, left: int) -> bool:
        if left < BLANK_SIZE:
            return True
        if count < BLANK_SIZE:
            return False
        return bool(SIZE_AND_MAGIC.unpack_from(self._rest.buffer, FRONT)[1] == MAGIC_BLANK)

    def _damaged(self, physical_offset: int, why: str) -> Corruption:
        return Corruption(
            path=SOURCE,
            file_position=physical_offset % self._log.file_size_bytes,
            physical_offset=physical_offset,
            why=why,
        )

    def _store(self, at: int, content: bytes, last: int) -> None:
        log, marks, writing = self._log, self._marks, self._writing
        with writing.writer.lock:
            if last < 0:
                log.copy(at, content, log.appended)
                return
            log.copy(at, content, at + len(content))
            self.last_record = last
            time_ms = int(split_record(content, last - at)[0][STORE_TIMESTAMP_FIELD])
            marks.append(log.appended, time_ms)
        marks.commit(log.appended, time_ms)
        if log.spare_base is not None:
            writing.allocation.request()


def _sound_upto(buffer: bytearray, end: int, shift: int) -> tuple[int, int]:
    """Returns (end, begin) of the last of the valid records from FRONT on; (FRONT, -1) for none.

    shift    physical offset of the buffer's position 0
    Checks   the same as `check_record`
    """
    heads = read_heads(buffer, starts(buffer, FRONT, end))
    heads = heads.take(slice(sound_count(heads, shift)))
    count = unsound_by_crc(buffer, heads, property_crc=False)
    if not count:
        return FRONT, -1
    last = int(heads.begin[count - 1])
    return last + int(heads.size[count - 1]), last
