"""Records that no unit leads to, because the unit is damaged: searched for in the log.

    unit n-1 (sound)   unit n (damaged)   unit n+1 (damaged)   unit n+2 (sound)
        │                                                          │
    ────┴──record──┤          searched, for record n           ├───┴── log

The log is the truth: the record is served, and its unit written anew. What is not found between its
neighbours is damage of the log. Searches run in a thread, one at a time, and what one did not find
is not searched for again.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from itertools import islice
from struct import Struct
from typing import Final

from broker.files.disk import Disk
from broker.format.consume_unit import UNIT, UNIT_SIZE
from broker.format.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    BadRecord,
    split_record,
)
from broker.format.record_scan import written_at
from broker.log.commit_log import CommitLog
from broker.log.consume_queue import ConsumeQueue
from broker.model.store_shape import DelayLevels
from broker.store.reading.patience import Patience
from broker.store.reading.record_check import Asked, Damage, asked_of, why_unsound

WINDOW: Final = 1_024
"""Units looked at on either side for a sound neighbour; without one the log's own bounds hold."""
NEIGHBOUR_TRIES_MAX: Final = 64
"""Records read on either side: a sector holds 25 units, a page of them is damaged whole."""
UNFOUND_MAX: Final = 10_000
PIECE_SIZE: Final = 4 * 1024 * 1024

_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4)[:3]
_MAGIC_AT: Final = 4
_MAGICS: Final = frozenset(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_HEAD: Final = Struct(">i8xi4xqq")
"""Size, queue id, queue offset, own offset: the same in every form of record."""

logger = logging.getLogger(__name__)


class UnitRepair:
    """Searches for records, one at a time; what was found and what not is remembered."""

    __slots__ = (
        "_disk", "_levels", "_lock", "_patience", "_unfound", "is_writing", "repaired_count",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, patience: Patience, levels: DelayLevels, *, is_writing: bool
    ) -> None:
        """Search on a disk.

        levels   what delivery times in the units of the schedule topic are made with
        """
        self._disk = disk
        self._patience = patience
        self._levels = levels
        self._lock = asyncio.Lock()
        self._unfound: dict[tuple[str, int, int], Damage] = {}
        self.is_writing = is_writing
        """Whether units may be written anew."""
        self.repaired_count = 0

    def forget(self) -> None:
        """Search again for what was not found: the log may have been repaired."""
        self._unfound.clear()

    async def record_of(
        self, log: CommitLog, queue: ConsumeQueue, damage: Damage
    ) -> bytes | Damage:
        """Return the record that damage hides, or what is wrong with the log.

        Effects  the unit leads to the record
        Cost     reading the log between the nearest sound neighbours in the queue
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
        if isinstance(found, Damage):
            if len(self._unfound) >= UNFOUND_MAX:
                self._unfound.clear()
            self._unfound[key] = found
            assert len(self._unfound) <= UNFOUND_MAX
            return found
        self._lead(queue, damage, found)
        return found

    def _lead(self, queue: ConsumeQueue, damage: Damage, record: bytes) -> None:
        """Write the unit of a record that was found."""
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
        file.open().write(position - file.base, unit)


class Search:
    """One search, in a thread; files are opened by their names, and may be gone."""

    __slots__ = ("_asked", "_disk", "_end", "_file_size", "_paths", "_piece", "_queue_offset")

    def __init__(self, disk: Disk, log: CommitLog, asked: Asked, queue_offset: int) -> None:
        """Search a log, as long as it is now, for the record of a queue offset."""
        self._disk = disk
        self._paths = {file.base: file.path for file in log.files.files}
        self._file_size = log.file_size_bytes
        self._end = log.appended
        self._asked = asked
        self._queue_offset = queue_offset
        self._piece: tuple[int, bytes] = (0, b"")
        """Where the bytes lie that were searched last, and these bytes."""

    def run(self, units: bytes, first: int, damage: Damage) -> bytes | Damage:
        """Return the record of `damage`, or what is wrong with the log; blocks.

        units, first   some units around the damaged one, and the queue offset of the first
        """
        assert damage.queue_offset == self._queue_offset
        found = self._judged(damage.physical_offset, is_led=True)
        if found is None:
            found = self._between(*self._bounds(units, first))
        elif isinstance(found, Damage):  # It lies where its unit says, and was judged there.
            found = damage
        return found or damage

    def _judged(self, place: int, *, is_led: bool = False) -> bytes | Damage | None:
        """Return the record at a place that says that it is the one, or its damage.

        is_led   its unit leads there: it is the one even where its topic cannot be read
        """
        size, queue_id, queue_offset, own_place = self._head(place)
        wanted = (self._asked.queue_id, self._queue_offset, place)
        if (queue_id, queue_offset, own_place) != wanted:
            return None
        record = self._read(place, size)
        why = why_unsound(record, place, size, self._asked, queue_offset)
        if not why:
            return record
        topic = _topic_of(record)
        is_ours = topic == self._asked.topic_part or (is_led and topic is None)
        return Damage(queue_offset, place, why) if is_ours else None

    def _bounds(self, units: bytes, first: int) -> tuple[int, int]:
        """Return between which places the record must lie: those of its sound neighbours."""
        rows = [*enumerate(UNIT.iter_unpack(units), first)]
        before = self._first_sound(row for row in reversed(rows) if row[0] < self._queue_offset)
        behind = self._first_sound(row for row in rows if row[0] > self._queue_offset)
        begin = sum(before) if before else min(self._paths, default=0)
        return begin, behind[0] if behind else self._end

    def _first_sound(
        self, rows: Iterable[tuple[int, tuple[int, int, int]]]
    ) -> tuple[int, int] | None:
        """Return place and size of the first record that is what its unit says."""
        possible = (
            (place, size, number)
            for number, (place, size, _) in rows
            if RECORD_SIZE_MIN <= size <= self._file_size and 0 <= place < self._end
        )
        for place, size, number in islice(possible, NEIGHBOUR_TRIES_MAX):
            # A size that the record does not say itself may be damaged: it takes no memory.
            record = self._read(place, size) if self._head(place)[0] == size else b""
            if not why_unsound(record, place, size, self._asked, number):
                return place, size
        return None

    def _between(self, begin: int, upper: int) -> bytes | Damage | None:
        """Return the record in [begin, upper), else the damage of what must be it."""
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
        """Return the next place at which a record may start, `upper` without one."""
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
        """Return how far it is from a record's magic to the next, 1 where its size is doubted.

        What lies in its body is no record, however much it looks like one.
        """
        size, _, _, own_place = self._head(place)
        if own_place != place or size < RECORD_SIZE_MIN:
            return 1
        is_led = self._read(place + size + _MAGIC_AT, 4) in _MAGICS
        return size if is_led or place + size >= self._end else 1

    def _head(self, place: int) -> tuple[int, int, int, int]:
        """Return size, queue id, queue offset and own offset of what may be a record."""
        head = self._read(place, _HEAD.size)
        return _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0, 0, -1)

    def _read(self, place: int, size: int) -> bytes:
        """Return bytes of one file, fewer where it ends, none where they cannot be read."""
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
    """Return the topic with its length as a record holds them, None where lengths disagree."""
    try:
        head, body_begin, _, topic_end, _, _ = split_record(record, 0)
    except BadRecord:
        return None
    return record[body_begin + head[14] : topic_end]
