"""What takes the place of each damaged stretch of the log."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker.files.disk import Disk
from broker.format.content import NAME_SEPARATOR, PAIR_SEPARATOR
from broker.format.layout import is_zero
from broker.format.record import (
    BLANK_SIZE,
    PROPERTY_CRC_SIZE,
    property_crc_field,
    split_record,
)
from broker.format.stand_in import Style, size_min
from broker.model.finding import Finding
from broker.rebuild.log_files import LogFile
from broker.tools.repair.actions import LogAct, LogAction
from broker.tools.repair.losses import QueueWitness
from broker.tools.repair.neighbours import TIME_SIZE, Neighbour, Neighbours, store_time_position
from broker.walk.log_walk import ORDERLY_END, Hole

NO_PROPERTY_CRC: Final = "property_crc"
"""Kind of the finding that a record lacks the CRC that the others have."""
STORE_TIME: Final = "store_time"
"""Kind of the finding that a store time cannot be."""
_NAME_SIZE: Final = 9
"""Bytes of a property CRC's name and the separator behind it."""
_DIGITS: Final = slice(_NAME_SIZE, PROPERTY_CRC_SIZE - 1)
_PIECE: Final = 1024 * 1024


class Suspect(NamedTuple):
    """A record that is sound by itself and yet cannot be right; kind is the finding's."""

    physical_offset: int
    kind: str
    finding: Finding


class LogPlanner:
    """Plans the log of one store, whose files are all there."""

    __slots__ = (
        "_directory", "_disk", "_files", "_neighbours", "_property_crc", "_witness",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: Path, files: Sequence[LogFile], damage: Sequence[Hole],
        witness: QueueWitness, *, property_crc: bool,
    ) -> None:  # fmt: skip
        self._disk = disk
        self._directory = directory
        self._files = files
        self._witness = witness
        self._property_crc = property_crc
        self._neighbours = Neighbours(files, [(hole.begin, hole.end) for hole in damage])

    def of_hole(self, hole: Hole) -> LogAction:
        """Return what takes the place of damage with sound records behind it."""
        file = self._file_at(hole.begin)
        if hole.end == file.end and not hole.is_followed:
            return self._up_to_file_end(file, hole)
        end, style = hole.end, self._style(hole.begin, hole.end)
        while end - hole.begin < size_min(style):
            # Not even the smallest record fits: what follows lies in the damaged one's bytes.
            following = self._neighbours.at(end)
            assert following is not None
            end += following.size
        return self._action(file, hole.begin, end, hole.reason, LogAct.STAND_IN, style)

    def _up_to_file_end(self, file: LogFile, hole: Hole) -> LogAction:
        style, losses = (
            self._style(hole.begin, hole.end),
            self._witness.losses(hole.begin, hole.end),
        )
        room = hole.end - hole.begin - BLANK_SIZE
        is_blank = not losses and self._is_damaged_blank(file, hole.begin)
        act = LogAct.BLANK if is_blank or room < size_min(style) else LogAct.FILE_END
        return self._action(file, hole.begin, hole.end, hole.reason, act, style)

    def _is_damaged_blank(self, file: LogFile, begin: int) -> bool:
        """Return whether nothing but a BLANK can have stood there: zeros behind 8 other bytes."""
        behind = self._read(file, begin, BLANK_SIZE).strip(b"\0") != b""
        return behind and all(
            is_zero(piece, 0, len(piece)) for piece in self._pieces(file, begin + BLANK_SIZE)
        )

    def of_tail(self, tail: Hole) -> LogAction:
        """Return what takes the place of what stands behind the last sound record."""
        file = self._file_at(tail.begin)
        style = self._style(tail.begin, file.end)
        return self._action(file, tail.begin, file.end, tail.reason, LogAct.ZERO, style)

    def of_suspects(self, suspects: Sequence[Suspect]) -> tuple[list[LogAction], list[Finding]]:
        """Return what is done about records that cannot be right, and findings that are left."""
        odd_places = {found.physical_offset for found in suspects if found.kind == STORE_TIME}
        actions, left = [], []
        for suspect in suspects:
            action = self._of_suspect(suspect, odd_places)
            if action is None:
                left.append(suspect.finding)
            else:
                actions.append(action)
        return actions, left

    def _of_suspect(self, suspect: Suspect, odd_places: set[int]) -> LogAction | None:
        record = self._neighbours.at(suspect.physical_offset)
        if record is None:
            return None
        if suspect.kind == NO_PROPERTY_CRC:
            return self._of_lost_crc(record)
        if suspect.kind == STORE_TIME:
            return self._of_odd_time(record, odd_places)
        return self._of_record(record, f"{suspect.kind}: {suspect.finding.found}")

    def _of_record(self, record: Neighbour, reason: str) -> LogAction:
        begin, end = record.physical_offset, record.physical_offset + record.size
        style = self._style(begin, end)
        return self._action(self._file_at(begin), begin, end, reason, LogAct.STAND_IN, style)

    def _of_odd_time(self, record: Neighbour, odd_places: set[int]) -> LogAction | None:
        """Return how a record gets a store time that can be, None where its neighbours are odd too.

        Then it is the writer's clock that was wrong.
        """
        begin, end = record.physical_offset, record.physical_offset + record.size
        before, behind = self._neighbours.before(begin), self._neighbours.at(end)
        beside = [found for found in (before, behind) if found is not None]
        if not beside or any(found.physical_offset in odd_places for found in beside):
            return None
        file = self._file_at(begin)
        head = self._read(file, begin, record.size)
        field = begin + store_time_position(head)
        time_ms = beside[0].time_ms
        return LogAction(
            file=self._shown(file),
            begin=field,
            end=field + TIME_SIZE,
            reason=f"the record at {begin} has a store time that cannot be",
            act=LogAct.TIME,
            style=Style(time_ms, record.property_crc),
            content=time_ms.to_bytes(TIME_SIZE),
        )

    def _of_lost_crc(self, record: Neighbour) -> LogAction | None:
        """Return what is done about a record without the property CRC that the others have.

        Where only the CRC's name is damaged it is written again; where properties are damaged too
        the record goes; else it was written without a CRC, and stays.
        """
        file, end = self._file_at(record.physical_offset), record.physical_offset + record.size
        content = self._read(file, record.physical_offset, record.size)
        expected = property_crc_field(content[:-PROPERTY_CRC_SIZE])
        if content[-PROPERTY_CRC_SIZE:][_DIGITS] == expected[_DIGITS]:
            return LogAction(
                file=self._shown(file),
                begin=end - PROPERTY_CRC_SIZE,
                end=end,
                reason="the name of its property CRC is damaged, the CRC itself is right",
                act=LogAct.CRC_FIELD,
                style=Style(record.time_ms, property_crc=True),
                content=expected,
            )
        _, _, _, _, block_begin, block_end = split_record(content, 0)
        if _is_property_block(content[block_begin:block_end]):
            return None
        return self._of_record(record, "its properties are damaged")

    def _action(
        self, file: LogFile, begin: int, end: int, reason: str, act: LogAct, style: Style
    ) -> LogAction:
        why = "no record where one must be" if reason == ORDERLY_END else reason
        losses = self._witness.losses(begin, end)
        return LogAction(self._shown(file), begin, end, why, act, style, losses)

    def _shown(self, file: LogFile) -> str:
        return Path(file.path).relative_to(self._directory).as_posix()

    def _style(self, begin: int, end: int) -> Style:
        before, after = self._neighbours.before(begin), self._neighbours.after(end)
        beside = [found for found in (before, after) if found is not None]
        is_marked = self._property_crc or any(found.property_crc for found in beside)
        return Style(beside[0].time_ms if beside else 0, is_marked)

    def _file_at(self, physical_offset: int) -> LogFile:
        return next(file for file in self._files if file.base <= physical_offset < file.end)

    def _read(self, file: LogFile, physical_offset: int, size: int) -> bytes:
        descriptor = self._disk.open_read_only(Path(file.path))
        try:
            return self._disk.read_at(descriptor, physical_offset - file.base, size)
        finally:
            self._disk.close(descriptor)

    def _pieces(self, file: LogFile, begin: int) -> Iterator[bytes]:
        for position in range(begin, file.end, _PIECE):
            yield self._read(file, position, min(_PIECE, file.end - position))


def _is_property_block(block: bytes) -> bool:
    """Return whether names and values stand there as a broker writes them."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return False
    pairs = [pair for pair in text.split(PAIR_SEPARATOR) if pair]
    names = [pair.partition(NAME_SEPARATOR) for pair in pairs]
    return "\0" not in text and all(name and separator for name, separator, _ in names)
