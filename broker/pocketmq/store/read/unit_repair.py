"""Searches the log for records whose units are damaged.

    unit n-1 (valid)   unit n (damaged)   unit n+1 (damaged)   unit n+2 (valid)
        │                                                          │
    ────┴──record──┤          searched, for record n           ├───┴── log

A record that is found is served, and its unit is rewritten. If there is no record between the
neighbours, the log is damaged. Searches run in a thread, one at a time.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT, UNIT_SIZE
from pocketmq.format.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    BadRecord,
    split_record,
)
from pocketmq.format.record_scan import written_at
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.consume_queue import ConsumeQueue
from pocketmq.model.store_shape import DelayLevels
from pocketmq.store.read.cold_read import ColdReads
from pocketmq.store.read.record_check import (
    Asked,
    Beside,
    UnservedRecord,
    asked_of,
    beside,
    why_unsound,
)

WINDOW: Final = 1_024
"""Number of units on each side among which valid neighbours are searched; without a neighbour,
the search is bounded by the log."""
NEIGHBOUR_TRIES_MAX: Final = 64
"""Upper limit of records read on each side. Units with an impossible size or offset are skipped
without a read, so that most units of a damaged page do not count."""
AGREEING: Final = 4
"""Upper limit of valid records read on each side to find one that contains the queue offset of its
unit."""
UNFOUND_MAX: Final = 10_000
PIECE_SIZE: Final = 4 * 1024 * 1024

_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4)[:3]
_MAGIC_AT: Final = 4
_MAGICS: Final = frozenset(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_HEAD: Final = Struct(">i8xi4xqq")
"""Size, queue id, queue offset and physical offset, which all forms of a record share."""

logger = logging.getLogger(__name__)


class UnitRepair:
    """Searches the log for records, one at a time; remembers up to UNFOUND_MAX failed searches."""

    __slots__ = (
        "_disk", "_levels", "_lock", "_patience", "_unfound", "is_writing", "repaired_count",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, patience: ColdReads, levels: DelayLevels, *, is_writing: bool
    ) -> None:
        """`levels` give the delivery time that a unit of the schedule topic contains."""
        self._disk = disk
        self._patience = patience
        self._levels = levels
        self._lock = asyncio.Lock()
        self._unfound: dict[tuple[str, int, int], UnservedRecord] = {}
        self.is_writing = is_writing
        self.repaired_count = 0

    def forget(self) -> None:
        """Forgets failed searches, as the log may have been repaired."""
        self._unfound.clear()

    async def record_of(
        self, log: CommitLog, queue: ConsumeQueue, damage: UnservedRecord
    ) -> bytes | UnservedRecord:
        """Finds the record of a damaged unit, or returns the damage.

        Effects  rewrites the unit, if `is_writing`
        Cost     reading the log between the nearest valid neighbours in the queue
        """
        key = (queue.topic, queue.queue_id, damage.queue_offset)
        if key in self._unfound:
            return self._unfound[key]
        async with self._lock:
            first = max(damage.queue_offset - WINDOW, queue.files.min_offset // UNIT_SIZE)
            count = damage.queue_offset - first + WINDOW
            units = await self._patience.again(partial(queue.units.read_resident, first, count))
            search = Search(self._disk, log, asked_of(log, queue), damage.queue_offset)
            found = await self._patience.apart(partial(search.run, units, first, damage))
        if isinstance(found, UnservedRecord):
            if len(self._unfound) >= UNFOUND_MAX:
                self._unfound.clear()
            self._unfound[key] = found
            assert len(self._unfound) <= UNFOUND_MAX
            return found
        self._lead(queue, damage, found)
        return found

    def _lead(self, queue: ConsumeQueue, damage: UnservedRecord, record: bytes) -> None:
        written = written_at(record, 0, self._levels)
        self.repaired_count += 1
        logger.warning(
            "consume_queue.mended",
            extra={
                "topic": queue.topic, "queue_id": queue.queue_id,
                "queue_offset": damage.queue_offset, "physical_offset": written.begin,
                "reason": damage.why,
            },
        )  # fmt: skip
        position = damage.queue_offset * UNIT_SIZE
        assert written.sizes[0] == len(record)
        file = queue.files.file_at(position)
        if file is None or not self.is_writing:
            return
        unit = UNIT.pack(written.begin, written.sizes[0], written.tags_codes[0])
        queue.units.write_out()
        file.open().write(position - file.base, unit)


Row = tuple[int, tuple[int, int, int]]
"""(queue offset, unit)."""


class _Neighbour(NamedTuple):
    """A valid record; `drift` is the record's queue offset minus that of its unit."""

    place: int
    size: int
    drift: int


class Search:
    """One search, in a thread; opens files by name, as they may expire meanwhile."""

    __slots__ = (
        "_asked", "_carried", "_disk", "_end", "_file_size", "_paths", "_piece", "_queue_offset",
        "_taken",
    )  # fmt: skip

    def __init__(self, disk: Disk, log: CommitLog, asked: Asked, queue_offset: int) -> None:
        """Creates a search of the present log for the record of a queue offset."""
        self._disk = disk
        self._paths = {file.base: file.path for file in log.files.files}
        self._file_size = log.file_size_bytes
        self._end = log.appended
        self._asked = asked
        self._queue_offset = queue_offset
        self._carried = queue_offset
        """Queue offset that the record contains."""
        self._taken: set[int] = set()
        self._piece: tuple[int, bytes] = (0, b"")

    def run(self, units: bytes, first: int, damage: UnservedRecord) -> bytes | UnservedRecord:
        """Finds the record of a damaged unit, or returns the damage; blocks.

        units, first   units around the damaged one, and the queue offset of the first
        """
        assert damage.queue_offset == self._queue_offset
        found = self._judged(damage.physical_offset, is_led=True)
        if isinstance(found, UnservedRecord):  # The unit is valid, and its record is damaged.
            return damage
        if found is not None:
            return found
        worst: UnservedRecord | None = None
        rows = [*enumerate(UNIT.iter_unpack(units), first)]
        around = beside(first, units)
        before = self._sound((r for r in reversed(rows) if r[0] < self._queue_offset), around)
        behind = self._sound((r for r in rows if r[0] > self._queue_offset), around)
        begin = before.place + before.size if before else min(self._paths, default=0)
        upper = behind.place if behind else self._end
        drifts = {found.drift for found in (before, behind) if found is not None} or {0}
        for drift in sorted(drifts):
            self._carried = self._queue_offset + drift
            left = self._between(begin, upper)
            if isinstance(left, bytes):
                return left
            worst = worst or left
        return worst or damage

    def _judged(self, place: int, *, is_led: bool = False) -> bytes | UnservedRecord | None:
        """Returns the searched record if it is at a physical offset, or its damage; else None.

        is_led   whether the unit refers to this offset; damage is then returned even if the
                 record's topic is unreadable
        """
        size, queue_id, queue_offset, own_place = self._head(place)
        wanted = (self._asked.queue_id, self._carried, place)
        if (queue_id, queue_offset, own_place) != wanted or place in self._taken:
            return None
        record = self._read(place, size)
        why = why_unsound(record, place, size, self._asked, queue_offset)
        if not why:
            return record
        topic = _topic_of(record)
        is_ours = topic == self._asked.topic_part or (is_led and topic is None)
        return UnservedRecord(self._queue_offset, place, why) if is_ours else None

    def _sound(self, rows: Iterable[Row], around: Beside) -> "_Neighbour | None":
        found = [*islice(self._all_sound(rows, around), AGREEING)]
        self._taken |= {neighbour.place for neighbour in found if neighbour.drift}
        exact = [neighbour for neighbour in found if not neighbour.drift]
        return next(iter(exact or found), None)

    def _all_sound(self, rows: Iterable[Row], around: Beside) -> Iterator["_Neighbour"]:
        possible = (
            (place, size, number)
            for number, (place, size, _) in rows
            if RECORD_SIZE_MIN <= size <= self._file_size and 0 <= place < self._end
        )
        for place, size, number in islice(possible, NEIGHBOUR_TRIES_MAX):
            # A wrong size may be large: no memory is allocated unless the record confirms it.
            head = self._head(place)
            record = self._read(place, size) if head[0] == size else b""
            is_exact = not why_unsound(record, place, size, self._asked, number)
            if is_exact:
                yield _Neighbour(place, size, 0)
            elif around.holds(number, place) and self._is_ours(record, place, size):
                yield _Neighbour(place, size, head[2] - number)

    def _is_ours(self, record: bytes, place: int, size: int) -> bool:
        return not why_unsound(record, place, size, self._asked, None)

    def _between(self, begin: int, upper: int) -> bytes | UnservedRecord | None:
        left = None
        place = self._next_magic(begin, upper)
        while place < upper:
            found = self._judged(place)
            if isinstance(found, bytes):
                return found
            left = found or left
            place = self._next_magic(place + self._step_from(place), upper)
        return left

    def _next_magic(self, place: int, upper: int) -> int:
        at = place + _MAGIC_AT
        while at < upper:
            begin, piece = self._piece
            if not begin <= at <= begin + len(piece) - len(_MAGIC_BEGIN):
                self._piece = begin, piece = at, self._read(at, min(PIECE_SIZE, upper - at))
            if len(piece) < len(_MAGIC_BEGIN):
                at += self._file_size - at % self._file_size + _MAGIC_AT
                continue
            found = piece.find(_MAGIC_BEGIN, at - begin)
            if found >= 0:
                return begin + found - _MAGIC_AT
            at = begin + len(piece) - len(_MAGIC_BEGIN) + 1
        return upper

    def _step_from(self, place: int) -> int:
        """Returns the distance to the next possible record.

        A valid record is skipped as a whole, as its body may contain bytes that look like a record.
        """
        size, _, _, own_place = self._head(place)
        if own_place != place or size < RECORD_SIZE_MIN:
            return 1
        is_led = self._read(place + size + _MAGIC_AT, 4) in _MAGICS
        return size if is_led or place + size >= self._end else 1

    def _head(self, place: int) -> tuple[int, int, int, int]:
        head = self._read(place, _HEAD.size)
        return _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0, 0, -1)

    def _read(self, place: int, size: int) -> bytes:
        begin, piece = self._piece
        if begin <= place <= place + size <= begin + len(piece):
            return piece[place - begin : place - begin + size]
        base = place - place % self._file_size
        count = min(size, base + self._file_size - place)
        try:
            return self._disk.read_file(self._paths[base], place - base, count)
        except (KeyError, OSError):
            return b""


def _topic_of(record: bytes) -> bytes | None:
    try:
        head, body_begin, _, topic_end, _, _ = split_record(record, 0)
    except BadRecord:
        return None
    return record[body_begin + head[14] : topic_end]
