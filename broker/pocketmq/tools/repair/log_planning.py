"""Plans the replacement of each damaged range of the log."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.format.filler_record import Style, size_min
from pocketmq.format.properties import NAME_SEPARATOR, PAIR_SEPARATOR
from pocketmq.format.record import BLANK_SIZE, PROPERTY_CRC_SIZE, property_crc_field, split_record
from pocketmq.model.finding import Finding
from pocketmq.rebuild.log_files import LogFile, bytes_at
from pocketmq.tools.repair.actions import LogAct, LogAction, Loss
from pocketmq.tools.repair.neighbours import TIME_SIZE, Neighbour, Neighbours, store_time_position
from pocketmq.walk.log_walk import ORDERLY_END, Hole

NO_PROPERTY_CRC: Final = "property_crc"
"""Kind of the finding that a record lacks the CRC that the others have."""
STORE_TIME: Final = "store_time"
"""Kind of the finding that a store time cannot be."""
_NAME_SIZE: Final = 9
"""Bytes of a property CRC's name and the separator behind it."""
_DIGITS: Final = slice(_NAME_SIZE, PROPERTY_CRC_SIZE - 1)
_PIECE: Final = 1024 * 1024


Losses = Callable[[int, int], tuple[Loss, ...]]
"""Returns the messages whose records begin in [begin, end)."""


class Suspect(NamedTuple):
    """A record that is sound by itself and yet cannot be right; kind is the finding's."""

    physical_offset: int
    kind: str
    finding: Finding


class LogPlanner:
    """Plans the log of one store, whose files are all there; `losses` lists the affected queues."""

    __slots__ = ("_files", "_losses", "_neighbours", "_now_ms", "_property_crc")

    def __init__(
        self, files: Sequence[LogFile], damage: Sequence[Hole], losses: Losses,
        *, property_crc: bool, now_ms: int = 0,
    ) -> None:  # fmt: skip
        self._files = files
        self._now_ms = now_ms
        self._losses = losses
        self._property_crc = property_crc
        self._neighbours = Neighbours(files, damage, property_crc=property_crc)

    def of_hole(self, hole: Hole) -> LogAction:
        """Returns the replacement of damage with sound records behind it."""
        end, style = hole.end, self._style(hole.begin, hole.end)
        if end == self._file_at(hole.begin).end and not hole.is_followed:
            is_blank = self._is_damaged_blank(hole) or (
                end - hole.begin - BLANK_SIZE < size_min(style)
            )
            act = LogAct.BLANK if is_blank else LogAct.FILE_END
            return self._action(hole.begin, end, hole.reason, act, style)
        while end - hole.begin < size_min(style):
            # Not even the smallest record fits: the next one begins in the damaged one's bytes.
            following = self._neighbours.at(end)
            assert following is not None
            end += following.size
        return self._action(hole.begin, end, hole.reason, LogAct.STAND_IN, style)

    def _is_damaged_blank(self, hole: Hole) -> bool:
        """Returns whether at most a BLANK can have been there: zeros behind 8 other bytes."""
        if self._losses(hole.begin, hole.end):
            return False
        front, *rest = (piece.strip(b"\0") for piece in self._pieces(hole))
        return front != b"" and not any(rest)

    def _pieces(self, hole: Hole) -> Iterator[bytes]:
        """Yields the room of a BLANK, then the bytes behind it."""
        yield bytes_at(self._files, hole.begin, BLANK_SIZE)
        for begin in range(hole.begin + BLANK_SIZE, hole.end, _PIECE):
            yield bytes_at(self._files, begin, min(_PIECE, hole.end - begin))

    def of_tail(self, tail: Hole) -> LogAction:
        """Returns the replacement of the bytes behind the last sound record."""
        end = self._file_at(tail.begin).end
        style = self._style(tail.begin, end)
        return self._action(tail.begin, end, tail.reason, LogAct.ZERO, style)

    def of_suspects(self, suspects: Sequence[Suspect]) -> tuple[list[LogAction], list[Finding]]:
        """Returns actions on records that cannot be right, and findings that are left."""
        odd_places = {found.physical_offset for found in suspects if found.kind == STORE_TIME}
        actions: list[LogAction] = []
        left: list[Finding] = []
        for run in self._runs(sorted(odd_places)):
            actions += self._of_odd_run(run, odd_places)
            odd_places.difference_update(record.physical_offset for record in run)
        for suspect in suspects:
            if suspect.kind == STORE_TIME and suspect.physical_offset not in odd_places:
                continue
            action = self._of_suspect(suspect)
            if action is None:
                left.append(suspect.finding)
            else:
                actions.append(action)
        return actions, left

    def _runs(self, odd_places: Sequence[int]) -> Iterator[list[Neighbour]]:
        """Yields records that follow on each other and have odd store times: more than one."""
        run: list[Neighbour] = []
        for place in odd_places:
            record, before = self._neighbours.at(place), self._neighbours.before(place)
            is_next = run and before is not None and before.physical_offset == run[-1][0]
            if len(run) > 1 and not is_next:
                yield run
            run = [*run, record] if is_next and record else [record] if record else []
        if len(run) > 1:
            yield run

    def _of_odd_run(self, run: Sequence[Neighbour], odd_places: set[int]) -> Iterator[LogAction]:
        """Yields actions that give records a possible time: the writer's clock was far off.

        It is that of the record before, else of the record behind, else the time of the repair.
        """
        before, behind = self._neighbours.before(run[0][0]), self._neighbours.after(run[-1].end)
        beside = [one for one in (before, behind) if one and one.physical_offset not in odd_places]
        time_ms = beside[0].time_ms if beside else self._now_ms
        number = 0
        while number < len(run):
            begin, content = run[number].physical_offset, bytearray()
            file, first = self._file_at(begin), number
            while number < len(run) and len(content) < _PIECE:
                if run[number].physical_offset != begin + len(content) or not begin < file.end:
                    break
                content += self._with_time(run[number], time_ms)
                number += 1
            yield self._action(
                begin, begin + len(content),
                f"{number - first} records have store times that cannot be",
                LogAct.TIME, Style(time_ms, run[first].property_crc), bytes(content),
            )  # fmt: skip

    def _with_time(self, record: Neighbour, time_ms: int) -> bytes:
        """Returns a record with another store time, and with the property CRC that goes with it."""
        content = bytearray(bytes_at(self._files, record.physical_offset, record.size))
        position = store_time_position(bytes(content))
        content[position : position + TIME_SIZE] = time_ms.to_bytes(TIME_SIZE)
        if record.property_crc:
            content[-PROPERTY_CRC_SIZE:] = property_crc_field(bytes(content[:-PROPERTY_CRC_SIZE]))
        return bytes(content)

    def _of_suspect(self, suspect: Suspect) -> LogAction | None:
        record = self._neighbours.at(suspect.physical_offset)
        if record is None:
            return None
        if suspect.kind == NO_PROPERTY_CRC:
            return self._of_lost_crc(record)
        if suspect.kind == STORE_TIME:
            return self._of_odd_time(record)
        return self._of_record(record, f"{suspect.kind}: {suspect.finding.found}")

    def _of_record(self, record: Neighbour, reason: str) -> LogAction:
        style = self._style(record.physical_offset, record.end)
        return self._action(record.physical_offset, record.end, reason, LogAct.STAND_IN, style)

    def _of_odd_time(self, record: Neighbour) -> LogAction | None:
        """Returns how a single record gets a store time that can be; None: it is all there is."""
        begin = record.physical_offset
        before, behind = self._neighbours.before(begin), self._neighbours.at(record.end)
        beside = [found for found in (before, behind) if found is not None]
        if not beside:
            return None
        content = bytes_at(self._files, begin, record.size)
        place, time_ms = begin + store_time_position(content), beside[0].time_ms
        return self._action(
            place, place + TIME_SIZE, f"the record at {begin} has a store time that cannot be",
            LogAct.TIME, Style(time_ms, record.property_crc), time_ms.to_bytes(TIME_SIZE),
        )  # fmt: skip

    def _of_lost_crc(self, record: Neighbour) -> LogAction | None:
        """Returns the action on a record without the property CRC that the others have.

        Where only the CRC's name is damaged it is written again; where properties are damaged too
        the record goes; else it was written without a CRC, and stays.
        """
        content = bytes_at(self._files, record.physical_offset, record.size)
        expected = property_crc_field(content[:-PROPERTY_CRC_SIZE])
        if content[-PROPERTY_CRC_SIZE:][_DIGITS] == expected[_DIGITS]:
            return self._action(
                record.end - PROPERTY_CRC_SIZE, record.end,
                "the name of its property CRC is damaged, the CRC itself is right",
                LogAct.CRC_FIELD, Style(record.time_ms, property_crc=True), expected,
            )  # fmt: skip
        _, _, _, _, block_begin, block_end = split_record(content, 0)
        if _is_property_block(content[block_begin:block_end]):
            return None
        return self._of_record(record, "its properties are damaged")

    def _action(
        self, begin: int, end: int, reason: str, act: LogAct, style: Style, content: bytes = b""
    ) -> LogAction:
        """Returns an action; one that knows the content to be written loses no record."""
        path = Path(self._file_at(begin).path)
        why = "no record where one must be" if reason == ORDERLY_END else reason
        losses = () if content else self._losses(begin, end)
        return LogAction(
            f"{path.parent.name}/{path.name}", begin, end, why, act, style, losses, content
        )

    def _style(self, begin: int, end: int) -> Style:
        before, after = self._neighbours.before(begin), self._neighbours.after(end)
        beside = [found for found in (before, after) if found is not None]
        is_marked = self._property_crc or any(found.property_crc for found in beside)
        return Style(beside[0].time_ms if beside else 0, is_marked)

    def _file_at(self, physical_offset: int) -> LogFile:
        return next(file for file in self._files if file.base <= physical_offset < file.end)


def _is_property_block(block: bytes) -> bool:
    """Returns whether names and values are there as a broker writes them."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return False
    pairs = [pair for pair in text.split(PAIR_SEPARATOR) if pair]
    names = [pair.partition(NAME_SEPARATOR) for pair in pairs]
    return "\0" not in text and all(name and separator for name, separator, _ in names)
