"""Where a consume queue begins and ends: found at a start, moved by cuts and by retention.

    |- pre-blank, or the log lost it -|- messages -|- doubtful: perhaps older units -| file's end
                                      ^ min_offset ^ max_offset

Units are read from the last files (log/queue_end.py), or the ends are taken from a table that was
written with the checkpoint: then nobody has looked behind the last unit yet, and what a crash left
there is zeroed by `settle`, before a checkpoint tells anyone to believe it.
Source: ConsumeQueue.recover, truncateDirtyLogicFiles, correctMinOffset, deleteExpiredFile.
"""

from typing import Final

from broker.files.mapped_file import MappedFile
from broker.files.mapped_file_queue import MappedFileQueue
from broker.format.consume_unit import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from broker.format.extension_unit import is_address
from broker.log.queue_end import first_doubtful, written_end
from broker.log.queue_ends import QueueEnd
from broker.log.queue_extension import QueueExtension
from broker.log.queue_units import QueueUnits
from broker.model.errors import Corruption

_NOT_ASKED: Final = -1


class QueueBounds(QueueUnits):
    """The units of one queue, and from where to where they are messages."""

    __slots__ = (
        "_min_asked", "_min_place", "extension", "flushed", "is_doubtful", "max_physical_offset",
        "min_offset",
    )  # fmt: skip

    def __init__(self, files: MappedFileQueue, extension: QueueExtension | None) -> None:
        super().__init__(files)
        self.extension = extension
        """What the units' addresses lead to, None where this queue has none."""
        self.min_offset = 0
        self._min_place = 0
        """Where the record of `min_offset` lies, as far as known."""
        self._min_asked = _NOT_ASKED
        """The log's minimum that `min_offset` was looked for with."""
        self.max_physical_offset = 0
        """End of the last record that has a unit here."""
        self.flushed = 0
        """Byte of the queue up to which units are durable."""
        self.is_doubtful = False
        """Whether nobody has looked behind the last unit since the start."""

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

    def end(self) -> QueueEnd:
        """Return where the queue ends now, for a start to `adopt`.

        Cost     about 1 µs: it is asked of all queues at once
        """
        files = self.files.files
        begin = files[0].base if files else 0
        end = files[-1].base + files[-1].wrote if files else 0
        place = self._min_place if self._min_asked != _NOT_ASKED else 0
        return QueueEnd(begin, end, self.max_physical_offset, self.min_offset, place)

    def adopt(self, known: QueueEnd) -> bool:
        """Take the ends as they were written down with the checkpoint, reading nothing.

        Returns  False where the files are others: the queue is to be loaded
        Effects  what lies behind the end is doubtful until `settle`
        Cost     one look at the last file, and at the directory where there are several files
        """
        if not known.max_physical_offset or not self.files.adopt(known.begin, known.end):
            return False
        self._front = 0
        self.forget_found()
        self.max_physical_offset = known.max_physical_offset
        self.min_offset, self._min_place = known.min_offset, known.min_place
        self._min_asked = 0 if known.min_place else _NOT_ASKED
        self.flushed = self._cold_below = known.end
        self.is_doubtful = True
        return True

    def settle(self) -> bool:
        """Zero what lies behind the last unit, remove files behind the last one: a crash left them.

        Returns  whether there was anything; durable with the next sync of the whole file system
        Errors   Corruption: the end is not where it was said to be; ReadFailed, WriteFailed
        """
        last = self.files.files[-1].open()
        if self._last_end() != self.max_physical_offset:
            raise Corruption(
                path=str(last.path),
                file_position=last.wrote - UNIT_SIZE,
                physical_offset=self.max_physical_offset,
                why="its last unit leads elsewhere than when the checkpoint was written",
            )
        self.is_doubtful = False
        has_files = self.files.unlink_from(last.base + 1)
        return last.zero_from(last.wrote) or has_files

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
        if self.is_doubtful:
            self.settle()
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
