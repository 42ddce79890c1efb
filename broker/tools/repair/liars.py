"""Records whose head is damaged where no CRC covers it: topic, queue id or queue offset are others.

Such a record is sound by itself. What gives it away is that the offsets of a queue do not follow on
each other, and that the queue's own units, written when the record was whole, call it by another
name. One unit alone proves nothing where only the offset differs: behind a true gap all units do.

    unit  n-1  n  n+1        the record at unit n says it is m ≠ n of this queue: a liar only when
    record n-1  m  n+1       n-1 and n+1 are right; of another queue: a liar in any case
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from broker.format.columns.queues import QueueTable
from broker.format.record import (
    BLANK_SIZE,
    BadRecord,
    check_record,
    split_record,
)
from broker.format.stand_in import is_stand_in
from broker.model.message import has_queue_offset
from broker.model.offsets import OFFSET_MAX, QueueKey
from broker.rebuild.log_files import LogFile, ViewSettings
from broker.rebuild.range_pass import RangePass, queue_runs
from broker.rebuild.unit_files import QueueFiles, UnitWriter
from broker.tools.repair.losses import QueueWitness

_QUEUE_ID_FIELD: Final = 3
_QUEUE_OFFSET_FIELD: Final = 5
_SYSTEM_FLAG_FIELD: Final = 7
NO_UNIT: Final = -1
"""Queue offset of a record that has no unit."""


class Liar(NamedTuple):
    """A record, what it says, and what its unit says."""

    physical_offset: int
    reason: str


class _Said(NamedTuple):
    """What a record says of itself."""

    key: QueueKey
    queue_offset: int


class _Told(NamedTuple):
    """A unit's queue offset and place, and what the record there says."""

    queue_offset: int
    place: int
    said: _Said

    def is_right(self, key: QueueKey) -> bool:
        """Return whether record and unit of this queue agree."""
        return self.said == (key, self.queue_offset)


def lying_records(
    files: Sequence[LogFile], settings: ViewSettings, witness: QueueWitness
) -> list[Liar]:
    """Return the records that consume queues prove to lie.

    Cost     a walk over the log, and some µs a unit of the queues whose offsets do not follow
    """
    found: dict[int, Liar] = {}
    with _Records(files) as records:
        for key in _irregular(files, settings):
            for liar in _liars_of(key, witness, records):
                found[liar.physical_offset] = liar
    return sorted(found.values())


class _NoFiles(QueueFiles):
    """Takes units and writes nothing."""

    def write(self, key: QueueKey, queue_offset: int, units: memoryview) -> None:
        """Leave them."""


def _irregular(files: Sequence[LogFile], settings: ViewSettings) -> list[QueueKey]:
    queues = QueueTable()
    units = UnitWriter(_NoFiles(Path(), settings.consume_queue_file_bytes), queues.keys)
    reading = RangePass(settings, queues, units, lambda rows: None)
    for file in files:
        reading.run(file, file.base, OFFSET_MAX)
    units.flush()
    runs = queue_runs(units, queues.keys)
    return sorted(key for key, (_, _, is_regular) in runs.items() if not is_regular)


def _liars_of(key: QueueKey, witness: QueueWitness, records: "_Records") -> Iterator[Liar]:
    """Yield what the units of one queue prove, each unit with the one before and behind it."""
    told = (
        _Told(queue_offset, place, said)
        for queue_offset, place, size in witness.units_of(key)
        if (said := records.said_at(place, size)) is not None
    )
    is_before_right = True
    for unit, following in pairwise(chain(told, [None])):
        assert unit is not None
        is_right = unit.is_right(key)
        is_between_right = is_before_right and following is not None and following.is_right(key)
        if not is_right and (unit.said.key != key or is_between_right):
            shown = f"it says {_shown(unit.said.key, unit.said.queue_offset)}"
            yield Liar(unit.place, f"{shown}, its unit says {_shown(key, unit.queue_offset)}")
        is_before_right = is_right


def _shown(key: QueueKey, queue_offset: int) -> str:
    return f"message {queue_offset} of {key[0]}:{key[1]}"


class _Records:
    """Records by their places; used in a `with`. One file at a time is mapped."""

    __slots__ = ("_file", "_files", "_stack", "_view")

    def __init__(self, files: Sequence[LogFile]) -> None:
        self._files = files
        self._file: LogFile | None = None
        self._view = memoryview(b"")
        self._stack = ExitStack()

    def __enter__(self) -> "_Records":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stack.close()

    def said_at(self, physical_offset: int, size: int) -> _Said | None:
        """Return what the record of this size at a place says, None unless one starts there."""
        file = self._open(physical_offset)
        if file is None or physical_offset + BLANK_SIZE > file.end:
            return None
        position, view = physical_offset - file.base, self._view
        try:
            if check_record(view, position, physical_offset) != size:
                return None
            head, _, begin, end, _, _ = split_record(view, position)
        except BadRecord:
            return None
        topic, flag = bytes(view[begin:end]).decode("utf-8", "replace"), head[_SYSTEM_FLAG_FIELD]
        if is_stand_in(topic, flag):
            return None
        queue_offset = head[_QUEUE_OFFSET_FIELD] if has_queue_offset(flag) else NO_UNIT
        return _Said((topic, head[_QUEUE_ID_FIELD]), queue_offset)

    def _open(self, physical_offset: int) -> LogFile | None:
        """Map the file that holds a place, None when there is none."""
        if self._file is None or not self._file.base <= physical_offset < self._file.end:
            holding = [f for f in self._files if f.base <= physical_offset < f.end]
            self._file = holding[0] if holding else None
            self._stack.close()
            if self._file is not None:
                self._map(self._file)
        return self._file

    def _map(self, file: LogFile) -> None:
        with Path(file.path).open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), file.size, access=mmap.ACCESS_READ)
        self._stack.callback(mapped.close)
        self._view = self._stack.enter_context(memoryview(mapped))
