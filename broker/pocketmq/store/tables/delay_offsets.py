"""Delivered offsets of the delay levels: RocketMQ's `config/delayOffset.json`.

    {"dataVersion":{…}, "offsetTable":{1:28, 2:8},
     "pocketmq":{"deliveredBefore":353964, "clocks":{"2":[[0,3600000],[7,0]]}}}

In this example the first 28 messages of level 1 are delivered. RocketMQ ignores the member
`pocketmq`. The log contains the delivered copies of these messages below the physical offset
`deliveredBefore`. `clocks` exists if the wall clock was changed while messages waited. In the
example, the present clock is an hour ahead of the clock that timed messages 0 to 6 of level 2.
Source: ScheduleMessageService.encode, DelayOffsetSerializeWrapper.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from pocketmq.files.disk import Disk
from pocketmq.files.table_file import TableFile
from pocketmq.format.json_text import COUNT_MAX, is_integer, table_of
from pocketmq.format.names import CONFIG_DIRECTORY, DELAY_OFFSETS_FILE, queue_id_from_name
from pocketmq.format.table_json import OFFSETS_MEMBER, decode_file, encode_table, queue_offsets
from pocketmq.model.message import OFFSET_MAX
from pocketmq.model.step import Clock
from pocketmq.store.tables.durable_table import NO_VERSION, DurableTable, Encode

_VERSION: Final = "dataVersion"
_OWN: Final = "pocketmq"
_BEFORE: Final = "deliveredBefore"
_CLOCKS: Final = "clocks"

Epochs = Mapping[int, Sequence[tuple[int, int]]]
"""By level: (queue offset of the first message that a clock timed, lead of the present clock over
that clock in ms)."""


class DelayOffsets:
    """Queue offsets in the schedule topic by level; the first level is 1."""

    __slots__ = ("_clock", "_durable", "_file", "_others", "_rows", "clocks", "delivered_before")

    def __init__(self, disk: Disk, directory: Path, clock: Clock, pool: ThreadPoolExecutor) -> None:
        self._file = TableFile(disk, directory / CONFIG_DIRECTORY / DELAY_OFFSETS_FILE)
        self._durable = DurableTable(self._file, pool, self._snapshot)
        self._clock = clock
        self._others: dict[str, Any] = {}
        self._rows: dict[int, int] = {}
        self.clocks: Epochs = {}
        self.delivered_before = 0
        """Physical offset below which all delivered copies are stored; 0 if unknown."""

    def load(self) -> None:
        """Reads the table.

        Errors   TableUnreadable: neither the file nor its `.bak` can be parsed; ReadFailed
        """
        table = self._file.read(partial(decode_file, DELAY_OFFSETS_FILE)) or {}
        self._rows = queue_offsets(table.pop(OFFSETS_MEMBER, {}))
        own = table_of(table.pop(_OWN, None))
        before: Any = own.get(_BEFORE)
        self.delivered_before = before if _is_offset(before) else 0
        self.clocks = _clocks_of(own.get(_CLOCKS))
        self._others = table

    def find(self, level: int) -> int:
        """Returns the queue offset of a level's next message to deliver."""
        return self._rows.get(level, 0)

    def content(self) -> dict[str, Any]:
        """Returns version and offsets, for a copy."""
        version = table_of(self._others.get(_VERSION)) or NO_VERSION
        return {_VERSION: version, OFFSETS_MEMBER: dict(sorted(self._rows.items()))}

    async def clamp(self, end_of: Callable[[int], int], log_end: int) -> int:
        """Clamps offsets to the end of their level; durable when it returns.

        end_of    level -> queue offset of its next message
        log_end   physical offset after the last record
        Returns   the number of clamped offsets
        Effects   new messages at these offsets are delivered, also after a crash
        Errors    DiskFull, StoreFailed
        """
        beyond = {level: end_of(level) for level, at in self._rows.items() if at > end_of(level)}
        if beyond or self.delivered_before > log_end:
            await self.put(beyond, min(self.delivered_before, log_end), self.clocks)
        return len(beyond)

    async def put(self, offsets: Mapping[int, int], delivered_before: int, clocks: Epochs) -> None:
        """Sets offsets, clocks and `delivered_before`; durable when it returns.

        Shape    the log below `delivered_before` must be durable
        Errors   DiskFull, StoreFailed
        """
        assert all(map(_is_offset, offsets.values()))
        assert delivered_before >= 0
        counter = table_of(self._others.get(_VERSION)).get("counter", 0)
        self._others[_VERSION] = {
            "counter": counter + 1 if is_integer(counter, 0, COUNT_MAX) else 1,
            "stateVersion": 0,
            "timestamp": self._clock.wall_ms(),
        }
        self._rows = {**self._rows, **offsets}
        self.delivered_before, self.clocks = delivered_before, clocks
        self._durable.touch()
        await self._durable.saved()

    def _snapshot(self) -> Encode:
        rows = dict(sorted(self._rows.items()))
        own: dict[str, Any] = {_BEFORE: self.delivered_before}
        if self.clocks:
            own[_CLOCKS] = {str(level): epochs for level, epochs in sorted(self.clocks.items())}
        table = dict(sorted({**self._others, OFFSETS_MEMBER: rows, _OWN: own}.items()))
        return lambda: encode_table(table)


def _clocks_of(said: Any) -> Epochs:
    """Decodes the clocks; ignores invalid entries."""
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for level, rows in table_of(said).items():
        try:
            epochs = tuple((int(begin), int(ahead_ms)) for begin, ahead_ms in rows)
        except (TypeError, ValueError):
            continue
        places = [begin for begin, _ in epochs]
        number = queue_id_from_name(str(level))
        if number is not None and epochs and places == sorted(places) and places[0] >= 0:
            found[number] = epochs
    return found


def _is_offset(value: Any) -> bool:
    return is_integer(value, 0, OFFSET_MAX)
