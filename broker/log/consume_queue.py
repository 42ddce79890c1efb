"""One consume queue: for each message of a (topic, queue id), where its record lies.

    byte 20 * n  →  unit n  →  record in the log

Invariants
    1. Unit n lies at byte 20 * n; units before the first message are pre-blank, and so are those of
       messages that a repair took out of the log.
    2. Physical offsets rise with n.
    3. No file exists without a unit in it: an empty one would read as a unit (0, 0, 0).
Source: ConsumeQueue.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from broker.files.closing import close_all
from broker.files.disk import Disk
from broker.files.mapped_file import Keeper, MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import (
    PRE_BLANK,
    PRE_BLANK_SIZE,
    UNIT,
    UNIT_SIZE,
    first_file_position,
)
from broker.format.extension_unit import is_address
from broker.format.record import RECORD_SIZE_MIN
from broker.log.queue_end import first_doubtful, written_end
from broker.log.queue_extension import QueueExtension
from broker.log.queue_units import FILL_UNITS, QueueUnits, Units
from broker.model.errors import DiskFull
from broker.model.message import DispatchEntry

Gaps = Iterable[tuple[int, int]]
"""Where records were taken out of the log, as [begin, end); iterated more than once."""
_KEY_NAMES: Final = "mappedFileSizeConsumeQueue"
_NOT_ASKED: Final = -1


class ConsumeQueue(QueueUnits):
    """The units of one queue."""

    __slots__ = (
        "_min_asked", "_min_place", "extension", "extension_failures", "flushed",
        "max_physical_offset", "min_offset", "queue_id", "topic", "writes_extension",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        file_size_bytes: int,
        *,
        topic: str,
        queue_id: int,
        keeper: Keeper | None = None,
        extension: QueueExtension | None = None,
    ) -> None:
        super().__init__(
            MappedFileQueue(
                disk, directory, file_size_bytes, _KEY_NAMES, keeper, is_mapped=False, is_view=True
            )
        )
        self.extension = extension
        """What the units' addresses lead to, None where this queue has none."""
        self.writes_extension = False
        """Whether new messages get a unit there."""
        self.extension_failures = 0
        """Messages of late that have their plain tags code, their extension being unwritable."""
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        self._min_place = 0
        """Where the record of `min_offset` lies, as far as known."""
        self._min_asked = _NOT_ASKED
        """The log's minimum that `min_offset` was looked for with."""
        self.max_physical_offset = 0
        """End of the last record that has a unit here."""
        self.flushed = 0
        """Byte of the queue up to which units are durable."""

    # -- writing -------------------------------------------------------------------------------
    def put_all(self, entries: Sequence[DispatchEntry], gaps: Gaps = ()) -> None:
        """Take records of this queue in log order; for `gaps` see `put`.

        Effects  records whose end is not beyond `max_physical_offset` change nothing
        Errors   DiskFull, AllocationFailed; putting the same records again goes on
        Cost     about 0.4 µs a record when they follow on each other
        """
        count, first = len(entries), entries[0]
        expected = self.max_offset
        follows = first[6] == expected and first[0] >= self.max_physical_offset
        if follows and expected and (count == 1 or _is_row(entries, expected)):
            if self.writes_extension:
                codes = [self._extended(e[2], e[3]) for e in entries]
                units = [UNIT.pack(e[0], e[1], c) for e, c in zip(entries, codes, strict=True)]
                self._append(b"".join(units))
            else:
                self._append(b"".join([UNIT.pack(e[0], e[1], e[2]) for e in entries]))
            last = entries[-1]
            self.max_physical_offset = last[0] + last[1]
            return
        for entry in entries:
            self.put(entry[0], entry[1], entry[2], entry[6], gaps=gaps, store_timestamp_ms=entry[3])

    def put_row(self, queue_offset: int, units: Units) -> bool:
        """Take units of messages that follow on each other and on the last one.

        Shape    elements are UNIT_TYPE, in the byte order of the disk
        Returns  False where they do not, nothing was done: they are to be `put` one by one
        Errors   DiskFull, AllocationFailed
        """
        expected = self.max_offset
        last_end = self.max_physical_offset
        if not expected or queue_offset != expected or units["physical_offset"][0] < last_end:
            return False
        self._append(units.tobytes())
        self.max_physical_offset = int(units["physical_offset"][-1]) + int(units["size"][-1])
        return True

    def put(
        self,
        physical_offset: int,
        size: int,
        tags_code: int,
        queue_offset: int,
        gaps: Gaps = (),
        *,
        store_timestamp_ms: int = 0,
    ) -> None:
        """Take one record; the rules are RocketMQ's, also where a queue's offsets do not follow.

        gaps     where the missing messages may have lain: pre-blank units then stand for them
        Source   ConsumeQueue.putMessagePositionInfo
        """
        if physical_offset + size <= self.max_physical_offset:
            return
        if not self.files.files:
            self._start(queue_offset)
        if queue_offset and queue_offset < self.max_offset:
            return
        missing = queue_offset - self.max_offset
        if 0 < missing <= self._room_in(gaps, physical_offset) // RECORD_SIZE_MIN:
            for begin in range(0, missing, FILL_UNITS):
                self._append(PRE_BLANK * min(missing - begin, FILL_UNITS))
        if self.writes_extension:
            tags_code = self._extended(tags_code, store_timestamp_ms)
        # A unit that would leave a gap is appended all the same (store-format.md 4.1, step 4).
        self._append(UNIT.pack(physical_offset, size, tags_code))
        self.max_physical_offset = physical_offset + size

    def _room_in(self, gaps: Gaps, physical_offset: int) -> int:
        """Return the bytes taken out of the log between the last record here and a place."""
        last = self.max_physical_offset
        return sum(end - begin for begin, end in gaps if last <= begin < physical_offset)

    def _start(self, queue_offset: int) -> None:
        """Make the first file and fill it with pre-blank units up to the first message."""
        size = self.files.file_size
        base = first_file_position(queue_offset, size)
        file = self.files.make_file(base)
        position = queue_offset * UNIT_SIZE - base
        try:
            file.allocate(position + UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        for begin in range(0, position, FILL_UNITS * UNIT_SIZE):
            end = min(begin + FILL_UNITS * UNIT_SIZE, position)
            file.write(begin, PRE_BLANK * ((end - begin) // UNIT_SIZE))
        file.wrote = position
        self._front = self.min_offset = queue_offset
        self.flushed = base

    def _append(self, units: bytes) -> None:
        file = self.files.files[-1]
        end = file.wrote + len(units)
        if end <= file.allocated and file.is_open:  # As nearly always.
            file.was_used = True
            file.write(file.wrote, units)
            file.wrote = end
            return
        begin = 0
        while begin < len(units):
            file = self.files.files[-1]
            if file.is_full:
                file = self._roll(file)
            elif not file.is_open:
                file.open()
            end = min(begin + file.size - file.wrote, len(units))
            file.allocate(file.wrote + end - begin)
            file.write(file.wrote, units[begin:end])
            file.wrote += end - begin
            begin = end

    def _roll(self, full: MappedFile) -> MappedFile:
        file = self.files.make_file(full.base + full.size)
        try:
            file.allocate(UNIT_SIZE)
        except BaseException:
            self.files.files.pop().remove()
            raise
        return file

    def _extended(self, tags_code: int, store_timestamp_ms: int) -> int:
        """Return the address of a new extension unit; the code itself where none can be made.

        Source   ConsumeQueue.putMessagePositionInfoWrapper
        """
        assert self.extension is not None
        try:
            return self.extension.put(tags_code, store_timestamp_ms)
        except DiskFull:
            self.extension_failures += 1
            return tags_code

    # -- reading -------------------------------------------------------------------------------
    def plain_code(self, tags_code: int) -> int:
        """Return the tags code an address leads to; the same where it is none or leads nowhere."""
        if self.extension is None or not is_address(tags_code):
            return tags_code
        found = self.extension.tags_code(tags_code)
        return tags_code if found is None else found

    # -- opening, cutting ----------------------------------------------------------------------
    def load(self, *, read_only: bool = False, believed_upto: int = 0) -> None:
        """Find the files and where their units end.

        believed_upto   physical offset below which every record's unit is durable, 0: not known
        Effects  files behind the first unit that holds nothing are left out; so are those of a
                 queue without a message, whose first one was lost behind the units before it
        Source   ConsumeQueue.recover
        """
        self.files.load(read_only=read_only)
        self._front = 0
        self.forget_found()
        self._note_ends(self._find_end(read_only, believed_upto))
        while not self.max_physical_offset and self.files.files and not read_only:
            self._drop_last(read_only)
        self.flushed = self.files.max_offset
        if self.extension is not None:
            self.extension.load(read_only=read_only)
            if not read_only:
                self._cut_extension()

    def _cut_extension(self) -> None:
        """Let the extension end with the last unit that leads there."""
        assert self.extension is not None
        last = self.message_unit_before(self.max_offset)[1]
        self.extension.cut(last[2] if last is not None and is_address(last[2]) else None)

    def _find_end(self, read_only: bool, believed_upto: int) -> bytes:
        """Leave out what is behind the last unit; returns units that were read before that end."""
        files = self.files.files
        units = b""
        number = first_doubtful(files, believed_upto, read_only=read_only)
        while number < len(files):
            file = files[number].open(read_only=read_only)
            file.wrote, has_more, units = written_end(file, believed_upto)
            if has_more and not read_only:
                file.zero_from(file.wrote)
                file.sync()
            if file.is_full:
                number += 1
                continue
            kept = number + 1 if file.wrote else number
            while len(files) > kept:
                self._drop_last(read_only)
            number = kept if file.wrote else max(number - 1, 0)
        return units

    def _note_ends(self, units: bytes) -> None:
        """Know where the last record ends, and where the first lies if its unit was read too."""
        self._min_asked = _NOT_ASKED
        last = UNIT.unpack_from(units, len(units) - UNIT_SIZE) if units else None
        if last is None or last[1] == PRE_BLANK_SIZE:
            self.max_physical_offset = self._last_end()
            return
        self.max_physical_offset = last[0] + last[1]
        first = UNIT.unpack_from(units)
        is_all = len(units) == self.files.max_offset - self.files.min_offset
        if is_all and first[1] != PRE_BLANK_SIZE:
            self.min_offset = self.files.min_offset // UNIT_SIZE
            self._min_asked, self._min_place = 0, first[0]

    def _drop_last(self, read_only: bool) -> None:
        file = self.files.files.pop()
        if read_only:
            file.close()
        else:
            file.remove()

    def _last_end(self) -> int:
        return self._end_before(self.max_offset)

    def _end_before(self, queue_offset: int) -> int:
        """Return the end of the last record whose unit lies before a queue offset, else 0."""
        last = self.message_unit_before(queue_offset)[1]
        return 0 if last is None else last[0] + last[1]

    def end_below(self, physical_offset: int) -> int:
        """Return the end of the last record that starts below an offset and has a unit, else 0."""
        if self.max_physical_offset <= physical_offset:
            return self.max_physical_offset
        return self._end_before(self.first_at_or_behind(physical_offset))

    def truncate(self, physical_offset: int) -> MappedFile | None:
        """Drop the units of records at or behind a physical offset, and zero them.

        Returns  the file that was zeroed: whoever calls syncs it before a checkpoint is written
        """
        if self.max_physical_offset <= physical_offset:
            return None
        keep = self.first_at_or_behind(physical_offset)
        if keep * UNIT_SIZE >= self.files.max_offset:
            return None
        last = None
        self.files.cut(keep * UNIT_SIZE)
        if self.files.files and not self.files.files[-1].wrote:
            self.files.files.pop().remove()
        if self.files.files and self.message_before(self.max_offset) < 0:
            while self.files.files:
                self.files.files.pop().remove()
        if self.files.files:
            last = self.files.files[-1].open()
            last.zero_from(last.wrote)
        self._front = min(self._front, self.max_offset)
        self.forget_found()
        self._min_asked = _NOT_ASKED
        self.flushed = min(self.flushed, self.files.max_offset)
        self.max_physical_offset = self._last_end()
        if self.extension is not None:
            self._cut_extension()
        return last

    def correct_min(self, min_physical_offset: int) -> None:
        """Set `min_offset` to the first unit whose record the log still holds.

        Cost     one look into the queue while its first unit is the one, none when asked again
        Source   ConsumeQueue.correctMinOffset, which counts pre-blank units; here they are skipped
        """
        if _NOT_ASKED < self._min_asked <= min_physical_offset <= self._min_place:
            return
        self.min_offset, first = self.first_from_front(min_physical_offset)
        self._min_asked = min_physical_offset
        self._min_place = first[0] if first is not None and first[1] != PRE_BLANK_SIZE else 0

    def trim(self, min_physical_offset: int) -> list[MappedFile]:
        """Follow a log that lost its head; returns the files to be removed, never the last one.

        Source   ConsumeQueue.deleteExpiredFile, MappedFileQueue.deleteExpiredFileByOffset
        Cost     20 looks into the queue, one comparison where nothing of it went
        """
        if self._min_place >= min_physical_offset:
            return []
        gone: list[MappedFile] = []
        files = self.files.files
        while len(files) > 1:
            last = self.unit((files[0].base + files[0].size) // UNIT_SIZE - 1)
            if last is None or (last[1] != PRE_BLANK_SIZE and last[0] >= min_physical_offset):
                break
            gone.append(self.files.drop_first())
        self.correct_min(min_physical_offset)
        first = self.unit(self.min_offset)
        if self.extension is not None and first is not None and is_address(first[2]):
            gone += self.extension.trim(first[2])
        return gone

    def dirty_files(self) -> list[MappedFile]:
        """Return the files with units that are not durable yet, oldest first."""
        own = [f for f in self.files.files if f.base + f.wrote > self.flushed]
        return own if self.extension is None else [*own, *self.extension.dirty_files()]

    def count_as_flushed(self) -> None:
        """Take everything written so far for durable: whoever has its dirty files sees to it."""
        self.flushed = self.files.max_offset
        if self.extension is not None:
            self.extension.flushed = self.extension.files.max_offset

    def close(self) -> None:
        """Unmap all files."""
        extension = [] if self.extension is None else [self.extension.files.close]
        close_all([self.files.close, *extension])

    def remove(self) -> list[MappedFile]:
        """Take all files out of the queue; returns them, to be removed."""
        gone, self.files.files = self.files.files, []
        if self.extension is not None:
            gone += self.extension.files.files
            self.extension.files.files = []
        return gone


def _is_row(entries: Sequence[DispatchEntry], queue_offset: int) -> bool:
    """Return whether queue offsets follow on each other from one on."""
    return [e[6] for e in entries] == list(range(queue_offset, queue_offset + len(entries)))
