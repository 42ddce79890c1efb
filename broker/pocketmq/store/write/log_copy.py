"""Copies the log of another broker byte for byte, as a follower does.

    bytes of the leader ──► whole records ──put-lock──► log ──► appended, committed ──► flush
                       └──► rest of a file after its BLANK, as it is

A record that has not arrived completely stays in memory, so that the log ends with a whole record
at any time, and an ordinary start recovers it. All records are checked before they are stored.
Queues and index are built by the store's own dispatch, up to the leader's confirmed end.
Source: DefaultHAClient.dispatchReadRequest, DefaultMessageStore.appendToCommitLog.
"""

from typing import Final

from pocketmq.format.record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    SIZE_AND_MAGIC,
    STORE_TIMESTAMP_FIELD,
    BadRecord,
    check_record,
    split_record,
)
from pocketmq.format.record_chain import sound_chain
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import Corruption
from pocketmq.store.marks import Marks
from pocketmq.store.watermark import Watermark
from pocketmq.store.write.writing import Writing

SOURCE: Final = "the leader's log"


class LogCopy:
    """The copy of another broker's log.

    end            physical offset of the next byte to receive
    whole          mark: physical offset below which all records are in the log; it may be after a
                   BLANK, which the store's marks do not count. Each `begin` replaces it
    last_record    physical offset of the last whole record
    """

    __slots__ = (
        "_log", "_marks", "_needed", "_rest", "_writing", "end", "last_record", "whole"
    )  # fmt: skip

    def __init__(self, log: CommitLog, marks: Marks, writing: Writing) -> None:
        self._log = log
        self._marks = marks
        self._writing = writing
        self._rest = bytearray()
        """Begin of a record, from `whole_end` on."""
        self._needed = 0
        """Number of bytes of the rest below which no record can be complete."""
        self.end = log.appended
        self.whole = Watermark(self.end)
        self.last_record = marks.last_dispatched
        assert log.pool is None, "a copied log has no transient pool"

    @property
    def whole_end(self) -> int:
        """Value of `whole`."""
        return self.whole.value

    def begin(self, physical_offset: int) -> None:
        """Continues at an offset after a new handshake; incomplete records are forgotten.

        Shape    the end of the log, or for an empty log the begin of any file
        """
        self._rest.clear()
        self._needed = 0
        log = self._log
        if not self._marks.appended.value and physical_offset != log.appended:
            log.begin_at(physical_offset)
            self._writing.allocation.request()
        log.copy_again()
        assert physical_offset == log.appended, (physical_offset, log.appended)
        self.end = physical_offset
        self.whole.close()
        self.whole = Watermark(physical_offset)

    async def append(self, physical_offset: int, content: bytes) -> None:
        """Takes the next bytes of the leader's log, and stores all records that are complete.

        Errors   Corruption: the bytes are no records, and nothing of the damaged one is stored;
                 DiskFull, StoreBusy, Draining; StoreFailed. After an error `begin` must follow
        Cost     0.1 µs a record, and the CRC of its body
        """
        assert physical_offset == self.end, (physical_offset, self.end)
        self.end += len(content)
        if self._rest:
            self._rest += content
            if len(self._rest) < self._needed:
                return
            content = bytes(self._rest)
        while len(content) >= max(self._needed, 1):
            at = self.whole.value
            size, last = self._complete(at, content)
            if not size:
                break
            self._writing.gate.check_room()
            while not self._log.can_copy:
                await self._writing.allocation.room()
            self._store(at, content[:size], last)
            self.whole.advance(at + size)
            content = content[size:]
        self._rest = bytearray(content)

    def _complete(self, at: int, content: bytes) -> tuple[int, int]:
        """Returns (number of bytes to store, physical offset of the last record among them).

        The offset is -1 for bytes without a record: the end of a file.
        """
        left = self._log.file_size_bytes - at % self._log.file_size_bytes
        content = content[:left]
        if left < self._log.file_size_bytes and at > self._log.appended:  # The BLANK was stored.
            return len(content), -1
        position, last = sound_chain(content, at)
        try:
            size = _size_at(content, position, left - position)
            if 0 < size <= len(content) - position:
                check_record(content, position, at + position)
        except BadRecord as bad:
            if last < 0:
                raise self._damaged(at, str(bad)) from bad
            size = 1  # The records before are stored first.
        self._needed = size or min(BLANK_SIZE, left - position)
        if last < 0 and _is_end_of_file(content, left):
            return len(content), -1
        return position, at + last if last >= 0 else -1

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


def _size_at(content: bytes, position: int, left: int) -> int:
    """Returns the size of the record at a position; 0 if it is unknown, or no record follows.

    left     bytes from the position to the file's end
    Errors   BadRecord
    """
    if left < BLANK_SIZE or position + BLANK_SIZE > len(content):
        return 0
    size, magic = SIZE_AND_MAGIC.unpack_from(content, position)
    if magic == MAGIC_BLANK and size == left:
        return 0
    if magic == MAGIC_BLANK or not BLANK_SIZE < size <= left:
        raise BadRecord(f"a record of {size} bytes with {left} left")
    return int(size)


def _is_end_of_file(content: bytes, left: int) -> bool:
    if left < BLANK_SIZE:
        return True
    if len(content) < BLANK_SIZE:
        return False
    return bool(SIZE_AND_MAGIC.unpack_from(content)[1] == MAGIC_BLANK)
